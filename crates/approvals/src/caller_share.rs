//! Limits of what the callers of one user hold at the same time: open approval requests, worker sessions. A caller is
//! a process, under all of its client names and in all worker sessions that it opens.

use tool::Caller;

/// Limits of one kind of object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerShare {
    pub(crate) per_user: usize,
    pub(crate) per_caller: usize,
    /// Part of `per_user` for callers that hold fewer than `small`, so that busy callers do not block another.
    pub(crate) reserved: usize,
    pub(crate) small: usize,
}

/// Limit that one more object would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShareExceeded {
    /// Limit per caller.
    Caller(usize),
    /// Limit of all callers of the user together, without the reserve for a caller that may not use it.
    User(usize),
}

impl CallerShare {
    /// Checks that a caller may hold one more. `held_by` are the callers of all objects, one for each object.
    pub(crate) fn check<'a>(
        self,
        by: &Caller,
        held_by: impl Iterator<Item = &'a Caller>,
    ) -> Result<(), ShareExceeded> {
        let key = by.key();
        let (mut of_user, mut of_caller) = (0, 0);
        for holder in held_by.filter(|holder| holder.uid == by.uid) {
            of_user += 1;
            of_caller += usize::from(holder.key() == key);
        }
        if of_caller >= self.per_caller {
            return Err(ShareExceeded::Caller(self.per_caller));
        }
        let max = if of_caller < self.small { self.per_user } else { self.per_user - self.reserved };
        if of_user >= max { Err(ShareExceeded::User(max)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use tool::CallerEndpoint;
    use tool::caller::{CallerKey, ProcessIdentity};

    use super::*;

    const SHARE: CallerShare = CallerShare { per_user: 10, per_caller: 6, reserved: 3, small: 1 };

    fn caller(pid: i32, client: &str, session: Option<&str>) -> Caller {
        Caller {
            uid: 501,
            pid: Some(pid),
            endpoint: CallerEndpoint::Mcp,
            connection: 1,
            client: Some(client.to_owned()),
            session: session.map(str::to_owned),
            account: Some(CallerKey::Process(ProcessIdentity { pid, started: Some(1) })),
        }
    }

    #[test]
    fn names_and_sessions_do_not_multiply_a_share() {
        let held: Vec<Caller> = ["a", "b", "c"]
            .iter()
            .flat_map(|name| [caller(1, name, None), caller(1, name, Some("s"))])
            .collect();
        let fresh = caller(1, "d", Some("t"));
        assert_eq!(SHARE.check(&fresh, held.iter()), Err(ShareExceeded::Caller(6)));
        assert_eq!(SHARE.check(&caller(2, "a", None), held.iter()), Ok(()), "another process has its own");
    }

    #[test]
    fn reserve_is_for_callers_that_hold_few() {
        let mut held: Vec<Caller> = (0..7).map(|number| caller(1 + number % 2, "a", None)).collect();
        assert_eq!(SHARE.check(&held[0], held.iter()), Err(ShareExceeded::User(7)));
        for number in 3..6 {
            let newcomer = caller(number, "a", None);
            assert_eq!(SHARE.check(&newcomer, held.iter()), Ok(()));
            held.push(newcomer);
        }
        assert_eq!(SHARE.check(&caller(9, "a", None), held.iter()), Err(ShareExceeded::User(10)));
        let small = CallerShare { small: 5, ..SHARE };
        assert_eq!(small.check(&held[0], held[..7].iter()), Ok(()), "four are few");
        let other_user = Caller { uid: 502, ..caller(9, "a", None) };
        assert_eq!(SHARE.check(&other_user, held.iter()), Ok(()));
    }
}
