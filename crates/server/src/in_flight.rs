//! The requests of one connection that have no answer yet, by id: so that none is used twice at a time, and one
//! can be taken back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::rpc::Id;

/// The open requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    /// One as a rule, and as many as a connection may have open at most: to look at one costs less than a hash.
    open: Vec<Open>,
    opened: u64,
}

#[derive(Debug)]
struct Open {
    id: Id,
    /// Tells it from a later request with the same id.
    number: u64,
    withdrawn: CancellationToken,
}

/// One open request. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: Id,
    /// None once it is closed.
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
    /// Opens a request; gives the id back if one with it is open.
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

    /// The client takes a request back, and may use its id again at once. An id that is not open is nothing to
    /// complain about: the answer may have crossed the notification.
    pub(crate) fn withdraw(&self, id: &Id) {
        let open = self.lock().remove(|open| open.id == *id);
        if let Some(open) = open {
            open.withdrawn.cancel();
        }
    }

    /// Closes all open requests, so that none of them is answered any more, and says which they were.
    pub(crate) fn close_all(&self) -> Vec<Id> {
        self.lock().open.drain(..).map(|open| open.id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        // The list is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    pub(crate) fn id(&self) -> &Id {
        &self.id
    }

    /// Fired when the client takes the request back.
    pub(crate) fn withdrawn(&self) -> &CancellationToken {
        &self.withdrawn
    }

    /// Closes the request; false if the client took it back before, so that nothing more is said of it.
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
    fn an_id_that_was_taken_back_is_free_and_its_old_ticket_closes_nothing() {
        let (open, id) = (InFlight::default(), Id::read(json!("ear")).unwrap());
        let first = open.open(id.clone()).unwrap();
        assert!(open.open(id.clone()).is_err(), "it is open");
        open.withdraw(&id);
        assert!(first.withdrawn().is_cancelled());
        let second = open.open(id.clone()).expect("free at once");
        assert!(!first.close(), "nothing more is said of what was taken back");
        assert!(open.open(id).is_err(), "the old ticket closed the new request");
        assert!(second.close());
        assert!(open.lock().open.is_empty());
    }

    #[test]
    fn of_many_requests_each_is_found_by_its_own_id() {
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
    fn what_was_closed_with_all_others_is_not_answered() {
        let (open, id) = (InFlight::default(), Id::read(json!("ear")).unwrap());
        let ticket = open.open(id.clone()).unwrap();
        assert_eq!(open.close_all(), [id]);
        assert!(!ticket.close(), "it would be answered twice");
        assert_eq!(open.close_all(), []);
    }
}
