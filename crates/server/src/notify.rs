//! What a method says unasked, after its answer: notifications on the same connection, until the client closes it.

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Semaphore;

use crate::outbox::{Outbox, SHARE};
use crate::rpc;

/// A method's way to its client after the answer.
#[derive(Debug)]
pub(crate) struct Notifier {
    outbox: Outbox,
    share: Arc<Semaphore>,
}

/// What goes on after the answer.
pub(crate) type Following = Box<dyn FnOnce(Notifier) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl Notifier {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Notifier { outbox, share: Arc::new(Semaphore::new(SHARE)) }
    }

    /// Sends one notification, once the client has taken enough of what was sent before.
    pub(crate) async fn tell(&self, method: &str, params: &impl Serialize) {
        self.outbox.send_within(&self.share, rpc::notification(method, params)).await;
    }
}
