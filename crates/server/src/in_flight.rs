//! The requests of one connection that have no answer yet, by id: so that none is used twice at a time, and one
//! can be taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::rpc::Id;

/// The open requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    by_id: HashMap<Id, Open>,
    opened: u64,
}

#[derive(Debug)]
struct Open {
    /// Tells it from a later request with the same id.
    number: u64,
    withdrawn: CancellationToken,
}

/// One open request. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: Id,
    number: u64,
    list: InFlight,
    withdrawn: CancellationToken,
}

impl InFlight {
    /// Opens a request; `None` if one with this id is open.
    pub(crate) fn open(&self, id: &Id) -> Option<Ticket> {
        let mut requests = self.lock();
        if requests.by_id.contains_key(id) {
            return None;
        }
        requests.opened += 1;
        let (number, withdrawn) = (requests.opened, CancellationToken::new());
        requests.by_id.insert(id.clone(), Open { number, withdrawn: withdrawn.clone() });
        Some(Ticket { id: id.clone(), number, list: self.clone(), withdrawn })
    }

    /// The client takes a request back, and may use its id again at once. An id that is not open is nothing to
    /// complain about: the answer may have crossed the notification.
    pub(crate) fn withdraw(&self, id: &Id) {
        if let Some(open) = self.lock().by_id.remove(id) {
            open.withdrawn.cancel();
        }
    }

    /// The ids of all open requests.
    pub(crate) fn ids(&self) -> Vec<Id> {
        self.lock().by_id.keys().cloned().collect()
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
    pub(crate) fn close(self) -> bool {
        self.take()
    }

    fn take(&self) -> bool {
        let mut requests = self.list.lock();
        let ours = requests.by_id.get(&self.id).is_some_and(|open| open.number == self.number);
        if ours {
            requests.by_id.remove(&self.id);
        }
        ours
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
        let first = open.open(&id).unwrap();
        assert!(open.open(&id).is_none(), "it is open");
        open.withdraw(&id);
        assert!(first.withdrawn().is_cancelled());
        let second = open.open(&id).expect("free at once");
        assert!(!first.close(), "nothing more is said of what was taken back");
        assert!(open.open(&id).is_none(), "the old ticket closed the new request");
        assert!(second.close());
        assert!(open.ids().is_empty());
    }
}
