//! Table of the requests of one connection that have no reply yet, by id. Rejects an id that is still open,
//! and lets a client cancel a request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

use crate::rpc::RequestId;

/// Open requests of one connection. Clones share the table.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightRequests(Arc<Mutex<OpenRequests>>);

#[derive(Debug, Default)]
struct OpenRequests {
    /// Usually one entry, at most `max_in_flight`: a linear search costs less than hashing.
    open: Vec<OpenRequest>,
    next_number: u64,
}

#[derive(Debug)]
struct OpenRequest {
    id: RequestId,
    /// Distinguishes the request from a later one with the same id.
    number: u64,
    cancellation: CancellationToken,
}

/// Guard of one open request; closes it on drop.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    id: RequestId,
    /// `None` once the request is closed.
    number: Option<u64>,
    requests: InFlightRequests,
    cancellation: CancellationToken,
}

impl OpenRequests {
    fn remove(&mut self, which: impl Fn(&OpenRequest) -> bool) -> Option<OpenRequest> {
        let place = self.open.iter().position(which)?;
        Some(self.open.swap_remove(place))
    }
}

impl InFlightRequests {
    /// Registers a request; returns the id as an error if a request with it is open.
    pub(crate) fn register(&self, id: RequestId) -> Result<RequestGuard, RequestId> {
        let mut requests = self.lock();
        if requests.open.iter().any(|open| open.id == id) {
            return Err(id);
        }
        requests.next_number += 1;
        let (number, cancellation) = (requests.next_number, CancellationToken::new());
        requests.open.push(OpenRequest { id: id.clone(), number, cancellation: cancellation.clone() });
        drop(requests);
        Ok(RequestGuard { id, number: Some(number), requests: self.clone(), cancellation })
    }

    /// Cancels a request on behalf of the client, which may reuse the id at once. An unknown id is ignored:
    /// the reply may have crossed the notification.
    pub(crate) fn cancel(&self, id: &RequestId) {
        let open = self.lock().remove(|open| open.id == *id);
        if let Some(open) = open {
            open.cancellation.cancel();
        }
    }

    /// Returns true if no request is open.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().open.is_empty()
    }

    /// Closes all open requests, so that none of them gets a reply any more, and returns their ids.
    pub(crate) fn close_all(&self) -> Vec<RequestId> {
        self.lock().open.drain(..).map(|open| open.id).collect()
    }

    fn lock(&self) -> MutexGuard<'_, OpenRequests> {
        // The list is consistent after every statement, so a panic of another holder cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RequestGuard {
    pub(crate) fn id(&self) -> &RequestId {
        &self.id
    }

    /// Token that is cancelled when the client cancels the request.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        &self.cancellation
    }

    /// Closes the request. Returns false if it was cancelled or closed before, in which case no reply may be
    /// sent.
    pub(crate) fn close(mut self) -> bool {
        self.release()
    }

    fn release(&mut self) -> bool {
        let Some(number) = self.number.take() else { return false };
        let taken = self.requests.lock().remove(|open| open.number == number);
        taken.is_some()
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cancelled_id_is_free_and_its_guard_closes_nothing() {
        let (open, id) = (InFlightRequests::default(), RequestId::read(json!("ear")).unwrap());
        let first = open.register(id.clone()).unwrap();
        assert!(open.register(id.clone()).is_err(), "it is open");
        open.cancel(&id);
        assert!(first.cancellation().is_cancelled());
        let second = open.register(id.clone()).expect("free at once");
        assert!(!first.close(), "a cancelled request gets no reply");
        assert!(open.register(id).is_err(), "the old guard closed the new request");
        assert!(second.close());
        assert!(open.lock().open.is_empty());
    }

    #[test]
    fn each_request_is_found_by_its_own_id() {
        let ids = [json!(1), json!("1"), json!(-1), json!(u64::MAX), json!("")]
            .map(|id| RequestId::read(id).unwrap());
        let open = InFlightRequests::default();
        let tickets = ids.clone().map(|id| open.register(id).unwrap());
        for id in &ids {
            assert!(open.register(id.clone()).is_err(), "{id:?} is open");
        }
        open.cancel(&ids[1]);
        let withdrawn = tickets.each_ref().map(|ticket| ticket.cancellation().is_cancelled());
        assert_eq!(withdrawn, [false, true, false, false, false]);
        assert_eq!(open.lock().open.len(), ids.len() - 1);
        assert_eq!(tickets.map(RequestGuard::close), [true, false, true, true, true]);
        assert!(open.lock().open.is_empty());
    }

    #[test]
    fn request_closed_by_close_all_gets_no_reply() {
        let (open, id) = (InFlightRequests::default(), RequestId::read(json!("ear")).unwrap());
        let ticket = open.register(id.clone()).unwrap();
        assert_eq!(open.close_all(), [id]);
        assert!(!ticket.close(), "it would be answered twice");
        assert_eq!(open.close_all(), []);
    }
}
