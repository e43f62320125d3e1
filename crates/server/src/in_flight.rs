//! The requests of one connection that have no answer yet, by id: so that none is used twice at a time, and one
//! can be taken back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::rpc::Id;

/// The open requests of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashMap<Id, CancellationToken>>>);

/// One open request. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    id: Id,
    list: InFlight,
    withdrawn: CancellationToken,
}

impl InFlight {
    /// Opens a request; `None` if one with this id is open.
    pub(crate) fn open(&self, id: &Id) -> Option<Ticket> {
        let mut open = self.lock();
        if open.contains_key(id) {
            return None;
        }
        let withdrawn = CancellationToken::new();
        open.insert(id.clone(), withdrawn.clone());
        Some(Ticket { id: id.clone(), list: self.clone(), withdrawn })
    }

    /// The client takes a request back. An id that is not open is nothing to complain about: the answer
    /// may have crossed the notification.
    pub(crate) fn withdraw(&self, id: &Id) {
        if let Some(withdrawn) = self.lock().get(id) {
            withdrawn.cancel();
        }
    }

    /// The ids of all open requests.
    pub(crate) fn ids(&self) -> Vec<Id> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
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
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.list.lock().remove(&self.id);
    }
}
