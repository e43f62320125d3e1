//! The memory of a run counted slowly: each process for its share of what several have. The kernel walks through all
//! that a process has mapped to say it, so the count is made in short parts, between which the run's time is kept.

use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

use super::memory::{self, Pages};

/// How long it is counted in one go, if one process does not take longer.
const PART: Duration = Duration::from_millis(4);
/// What a count may take of a processor. More than a hundred gigabytes are counted by then; and for as long as it is counted
/// nobody knows how much there is, so that who cannot be counted in this time has what the quick count says.
const MOST: Duration = Duration::from_secs(1);
/// The longest rest after a count: nobody looks closely meanwhile.
const LONGEST_REST: Duration = Duration::from_millis(100);

/// A count, and the rest after it.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    round: Option<Round>,
    /// Where a count came to nothing because processes came or went: what had been used of a processor before the first such.
    again: Option<Duration>,
    rests_until: Option<Instant>,
}

#[derive(Debug)]
struct Round {
    begun: Instant,
    /// What this process had used of a processor by then.
    used: Duration,
    /// Who had memory when it began.
    living: Vec<i32>,
    next: Vec<i32>,
    so_far: Pages,
    /// What the quick count says of all of them.
    quick: u64,
}

impl Shares {
    /// Whether there is more to count at once.
    pub(crate) fn is_under_way(&self) -> bool {
        self.round.is_some() || self.again.is_some()
    }

    /// Whether the next part is the first of a count.
    pub(crate) fn begins(&self) -> bool {
        self.round.is_none()
    }

    /// Whether a count is to begin anew at once.
    pub(crate) fn begins_again(&self) -> bool {
        self.again.is_some() && self.begins()
    }

    /// Leaves a count that nobody needs any more.
    pub(crate) fn give_up(&mut self) {
        (self.round, self.again) = (None, None);
    }

    /// Counts on, or begins; how much it is with what the scratch space holds, once it is known. `quick` is what it is at
    /// most, of `apart`; `listed` are all there were when they were chosen, and `list` says who is there now.
    pub(crate) fn count_on(
        &mut self,
        (listed, apart): (&[i32], &[i32]),
        list: impl FnOnce() -> Vec<i32>,
        quick: u64,
        (scratch, room): (u64, u64),
    ) -> Option<u64> {
        let begin = || Round::new(living(listed), apart, quick);
        self.count_within(begin, || living(&list()), (scratch, room), MOST)
    }

    fn count_within(
        &mut self,
        begin: impl FnOnce() -> Round,
        living_now: impl FnOnce() -> Vec<i32>,
        (scratch, room): (u64, u64),
        most: Duration,
    ) -> Option<u64> {
        let now = Instant::now();
        if !self.is_under_way() && self.rests_until.is_some_and(|until| now < until) {
            return None;
        }
        let again = self.again;
        let round = self.round.get_or_insert_with(|| {
            let fresh = begin();
            Round { used: again.unwrap_or(fresh.used), ..fresh }
        });
        let counted = round.go_on(now + PART, scratch, room, most)?;
        // What one had when it was not counted yet, another may have who was counted before, or who came later. On the same
        // account: whoever never holds still has what the quick count says.
        if counted <= room && living_now() != round.living {
            self.again = Some(round.used);
            self.round = None;
            return None;
        }
        // No more than half of the time: an honest program of many large processes has a use for processors.
        self.rests_until = Some(Instant::now() + round.begun.elapsed().min(LONGEST_REST));
        self.give_up();
        Some(counted)
    }
}

/// Those of them that have memory: who has ended and was not buried has none.
fn living(processes: &[i32]) -> Vec<i32> {
    let has_some = |process: &i32| memory::quick(*process) != Pages::default();
    let mut living: Vec<i32> = processes.iter().copied().filter(has_some).collect();
    living.sort_unstable();
    living
}

impl Round {
    fn new(living: Vec<i32>, apart: &[i32], quick: u64) -> Round {
        let (begun, used) = (Instant::now(), processor_time());
        Round { begun, used, living, next: apart.to_vec(), so_far: Pages::default(), quick }
    }

    fn go_on(&mut self, until: Instant, scratch: u64, room: u64, most: Duration) -> Option<u64> {
        while let Some(process) = self.next.pop() {
            self.so_far += memory::share(process).unwrap_or_else(|| memory::quick(process));
            if self.so_far.beside(scratch) > room {
                break;
            }
            if processor_time().saturating_sub(self.used) > most {
                return Some(self.quick);
            }
            if Instant::now() >= until && !self.next.is_empty() {
                return None;
            }
        }
        Some(self.so_far.beside(scratch))
    }
}

/// What this process has used of a processor.
fn processor_time() -> Duration {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else { return Duration::MAX };
    let time = |value: nix::sys::time::TimeVal| {
        Duration::from_secs(value.tv_sec().unsigned_abs())
            + Duration::from_micros(value.tv_usec().unsigned_abs())
    };
    time(usage.user_time()) + time(usage.system_time())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    /// Counts this process as if it were many; how much there is, and in how many parts it was counted.
    fn count(shares: &mut Shares, room: u64, most: Duration) -> Option<(u64, u32)> {
        let own = vec![i32::try_from(std::process::id()).expect("a number"); 2_000];
        for part in 1.. {
            if let Some(counted) =
                shares.count_within(|| Round::new(Vec::new(), &own, ALL), Vec::new, (0, room), most)
            {
                return Some((counted, part));
            }
            if !shares.is_under_way() {
                break;
            }
        }
        None
    }

    #[test]
    fn what_cannot_be_counted_in_time_has_what_the_quick_count_says() {
        assert_eq!(count(&mut Shares::default(), ALL, Duration::ZERO).map(|(counted, _)| counted), Some(ALL));
    }

    #[test]
    fn a_long_count_is_made_in_parts_and_followed_by_a_rest() {
        let mut shares = Shares::default();
        let (counted, parts) = count(&mut shares, ALL, Duration::MAX).expect("a count");
        assert!(parts > 1 && (1..ALL).contains(&counted), "{counted} in {parts} parts");
        assert_eq!(count(&mut shares, ALL, Duration::MAX), None, "it rests");
    }

    #[test]
    fn who_has_too_much_need_not_be_counted_to_the_end() {
        let (counted, parts) = count(&mut Shares::default(), 1, Duration::MAX).expect("a count");
        assert!(counted > 1 && parts == 1, "{counted} in {parts} parts");
    }

    #[test]
    fn a_count_that_processes_came_to_or_left_says_nothing_and_begins_again() {
        let own = [i32::try_from(std::process::id()).expect("a number")];
        let mut shares = Shares::default();
        let mut look = |before: &[i32], after: &[i32], most| {
            let begin = || Round::new(before.to_vec(), &own, ALL);
            let counted = shares.count_within(begin, || after.to_vec(), (0, ALL - 1), most);
            (counted, shares.begins_again())
        };
        for (before, after) in [(vec![1], vec![1, 2]), (vec![1, 2], vec![1]), (vec![1], vec![2])] {
            assert_eq!(look(&before, &after, Duration::MAX), (None, true), "{before:?}, then {after:?}");
        }
        assert_eq!(look(&[1], &[2], Duration::ZERO), (Some(ALL), false), "it has no time without end");
    }

    #[test]
    fn one_that_nobody_disturbed_is_believed_and_the_rest_after_it_is_short() {
        let mut shares = Shares::default();
        let own = [i32::try_from(std::process::id()).expect("a number")];
        let long_ago = Instant::now().checked_sub(Duration::from_secs(60)).expect("a time");
        let begin = || Round { begun: long_ago, ..Round::new(vec![1], &own, ALL) };
        let counted = shares.count_within(begin, || vec![1], (0, ALL - 1), Duration::MAX);
        assert!(counted.is_some_and(|counted| counted < ALL), "{counted:?}");
        assert!(shares.rests_until.expect("a rest") <= Instant::now() + LONGEST_REST);
    }

    #[test]
    fn who_has_no_memory_is_not_among_the_living() {
        let own = i32::try_from(std::process::id()).expect("a number");
        assert_eq!(living(&[i32::MAX, own]), [own]);
    }
}
