//! Notifications that a method sends after its reply, on the same connection, until the client closes it.

use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;
use tokio::sync::Semaphore;

use crate::outbox::{Outbox, STREAM_QUEUE_BYTES};
use crate::rpc;

/// Sender of notifications to one client.
#[derive(Debug)]
pub(crate) struct Notifier {
    outbox: Outbox,
    queue_share: Arc<Semaphore>,
}

/// Task that sends the notifications of a subscription.
pub(crate) type NotificationTask =
    Box<dyn FnOnce(Notifier) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

impl Notifier {
    pub(crate) fn new(outbox: Outbox) -> Self {
        Notifier { outbox, queue_share: Arc::new(Semaphore::new(STREAM_QUEUE_BYTES)) }
    }

    /// Sends one notification, after waiting until the client has read enough of the earlier ones.
    pub(crate) async fn notify(&self, method: &str, params: &impl Serialize) {
        self.outbox.send_with_share(&self.queue_share, rpc::encode_notification(method, params)).await;
    }
}
