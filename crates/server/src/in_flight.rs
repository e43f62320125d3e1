//! Table of the requests of one connection that have no reply yet, by id. Rejects an id that is still open,
//! and lets a client cancel a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::rpc::Id;

/// Open requests of one connection. Clones share the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// Usually one entry, at most `max_in_flight`: a linear search costs less than hashing.
    open: Vec<Open>,
    opened: u64,
}

#[derive(Debug)]
struct Open {
    id: Id,
    /// Distinguishes the request from a later one with the same id.
    number: u64,
    withdrawn: CancellationToken,
}

/// Guard of one open request; closes it on drop.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: Id,
    /// `None` once the request is closed.
    number: Option<u64>,
    list: InFlight,
    withdrawn: CancellationToken,
}

impl Requests {
    fn remove(&mut self, which: impl Fn(&Open) -> bool) -> Option<Open> {
        let place = self.open.iter().position(which)?;
        Some(self.open.swap_remove(place))
    }
}

impl InFlight {
    /// Registers a request; returns the id as an error if a request with it is open.
    pub(crate) fn open(&self, id: Id) -> Result<Ticket, Id> {
        let mut requests = self.lock();
        if requests.open.iter().any(|open| open.id == id) {
            return Err(id);
        }
        requests.opened += 1;
        let (number, withdrawn) = (requests.opened, CancellationToken::new());
        requests.open.push(Open { id: id.clone(), number, withdrawn: withdrawn.clone() });
        drop(requests);
        Ok(Ticket { id, number: Some(number), list: self.clone(), withdrawn })
    }

    /// Cancels a request on behalf of the client, which may reuse the id at once. An unknown id is ignored:
    /// the reply may have crossed the notification.
    pub(crate) fn withdraw(&self, id: &Id) {
        let open = self.lock().remove(|open| open.id == *id);
        if let Some(open) = open {
            open.withdrawn.cancel();
        }
    }

    /// Closes all open requests, so that none of them gets a reply any more, and returns their ids.
    pub(crate) fn close_all(&self) -> Vec<Id> {
        self.lock().open.drain(..).map(|open| open.id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        // The list is consistent after every statement, so a panic of another holder cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// Token that is cancelled when the client cancels the request.
    pub(crate) fn withdrawn(&self) -> &CancellationToken {
        &self.withdrawn
    }

    /// Closes the request. Returns false if it was cancelled or closed before, in which case no reply may be
    /// sent.
    pub(crate) fn close(mut self) -> bool {
        self.take()
    }

    fn take(&mut self) -> bool {
        let Some(number) = self.number.take() else { return false };
        let taken = self.list.lock().remove(|open| open.number == number);
        taken.is_some()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cancelled_id_is_free_and_its_guard_closes_nothing() {
        let (open, id) = (InFlight::default(), Id::read(json!("ear")).unwrap());
        let first = open.open(id.clone()).unwrap();
        assert!(open.open(id.clone()).is_err(), "it is open");
        open.withdraw(&id);
        assert!(first.withdrawn().is_cancelled());
        let second = open.open(id.clone()).expect("free at once");
        assert!(!first.close(), "a cancelled request gets no reply");
        assert!(open.open(id).is_err(), "the old guard closed the new request");
        assert!(second.close());
        assert!(open.lock().open.is_empty());
    }

    #[test]
    fn each_request_is_found_by_its_own_id() {
        let ids =
            [json!(1), json!("1"), json!(-1), json!(u64::MAX), json!("")].map(|id| Id::read(id).unwrap());
        let open = InFlight::default();
        let tickets = ids.clone().map(|id| open.open(id).unwrap());
        for id in &ids {
            assert!(open.open(id.clone()).is_err(), "{id:?} is open");
        }
        open.withdraw(&ids[1]);
        let withdrawn = tickets.each_ref().map(|ticket| ticket.withdrawn().is_cancelled());
        assert_eq!(withdrawn, [false, true, false, false, false]);
        assert_eq!(open.lock().open.len(), ids.len() - 1);
        assert_eq!(tickets.map(Ticket::close), [true, false, true, true, true]);
        assert!(open.lock().open.is_empty());
    }

    #[test]
    fn request_closed_by_close_all_gets_no_reply() {
        let (open, id) = (InFlight::default(), Id::read(json!("ear")).unwrap());
        let ticket = open.open(id.clone()).unwrap();
        assert_eq!(open.close_all(), [id]);
        assert!(!ticket.close(), "it would be answered twice");
        assert_eq!(open.close_all(), []);
    }
}
