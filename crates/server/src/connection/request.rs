//! Start of the reply to one request: immediate, deferred, or a stream of notifications. Enforces the
//! in-flight and subscription limits of the connection.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;

use super::{ConnectionEnd, ConnectionHandler, HANG_UP_POLL_INTERVAL};
use crate::budget::BudgetShare;
use crate::frame::InputLine;
use crate::in_flight_requests::RequestGuard;
use crate::notify::{NotificationTask, Notifier};
use crate::outbox::Outbox;
use crate::rpc::{self, Params, RequestId, RpcError, RpcReply};
use crate::service::{MethodCall, MethodReply, PendingReply};

/// Maximum number of subscriptions of one connection.
const MAX_SUBSCRIPTIONS: usize = 4;
/// Advised delay before a request is sent again that found the in-flight limit reached.
const BUSY_RETRY_AFTER_MS: u64 = 1000;

impl<C: Send + Sync> ConnectionHandler<C> {
    /// Dispatches one request and starts its reply.
    pub(super) async fn handle_request(
        &mut self,
        id: RequestId,
        method: &str,
        params: Params,
        line: InputLine<'_>,
    ) {
        if self.is_stalled {
            let most = self.connection.limits.max_in_flight;
            let message =
                format!("{most} requests of this connection are open: wait for a reply, or cancel one");
            let error = RpcError::server("busy", message).with_data("retry_after_ms", BUSY_RETRY_AFTER_MS);
            return self.send_error(Some(&id), error).await;
        }
        let ticket = match self.in_flight.register(id) {
            Ok(ticket) => ticket,
            Err(id) => {
                // The client could not tell two replies with the same id apart.
                let error = RpcError::invalid_request("this id belongs to a request that is still open");
                return self.send_error(None, error.with_data("id", &id)).await;
            }
        };
        let (id, withdrawn) = (ticket.id().clone(), ticket.cancellation().clone());
        let call = MethodCall { id, params, received_at: line.received_at, cancellation: withdrawn };
        match self.connection.service.dispatch(&mut self.connection.session, method, call) {
            MethodReply::Immediate(reply) => self.reply_now(ticket, &reply).await,
            MethodReply::Deferred(reply) => self.start_reply(ticket, reply, line.share).await,
            MethodReply::ThenNotify(reply, following) => {
                self.reply_and_subscribe(ticket, reply, following).await
            }
            MethodReply::NotifyOnly(following) => self.start_subscription(ticket, following).await,
        }
    }

    /// Polls a deferred reply once in this task, and spawns it if it has to wait. Most reads are ready at the first
    /// poll. A task for each would cost more than the read, and the replies to requests that arrived together are
    /// written together.
    async fn start_reply(&mut self, ticket: RequestGuard, reply: PendingReply, share: BudgetShare) {
        let (limit, outbox) = (self.connection.limits.max_line_bytes, self.outbox.clone());
        let (slots, account) =
            (self.connection.service.request_slots.clone(), self.connection.session.account);
        let mut answer = Box::pin(answer_later(ticket, reply, outbox, limit, share));
        let first = poll_fn(|context| Poll::Ready(answer.poll_unpin(context))).await;
        if first.is_pending() {
            match slots {
                Some(slots) => self.pending_replies.spawn(async move { slots.run(account, answer).await }),
                None => self.pending_replies.spawn(answer),
            };
        }
    }

    /// Replies and then starts a subscription.
    async fn reply_and_subscribe(
        &mut self,
        ticket: RequestGuard,
        reply: RpcReply,
        following: NotificationTask,
    ) {
        match self.reserve_follower_slot() {
            Ok(()) => {
                self.reply_now(ticket, &reply).await;
                self.subscriptions.spawn(following(Notifier::new(self.outbox.clone())));
            }
            Err(busy) => self.reply_now(ticket, &Err(busy)).await,
        }
    }

    /// Starts a subscription that lasts until the request is cancelled.
    async fn start_subscription(&mut self, ticket: RequestGuard, following: NotificationTask) {
        if let Err(busy) = self.reserve_follower_slot() {
            return self.reply_now(ticket, &Err(busy)).await;
        }
        let notifications = following(Notifier::new(self.outbox.clone()));
        self.subscriptions.spawn(async move {
            tokio::select! {
                biased;
                () = ticket.cancellation().cancelled() => {}
                () = notifications => {}
            }
        });
    }

    /// Reserves a subscription slot of the socket, or returns a `busy` error. One slot covers all
    /// subscriptions of a connection.
    fn reserve_follower_slot(&mut self) -> Result<(), RpcError> {
        if self.subscriptions.len() >= MAX_SUBSCRIPTIONS {
            return Err(RpcError::server("busy", "too many subscriptions: use another connection"));
        }
        if self.follower_slot.is_none() {
            self.follower_slot = Arc::clone(&self.connection.follower_slots).try_acquire_owned().ok();
        }
        let busy = "too many connections have subscriptions: close one of them, or try again";
        self.follower_slot.as_ref().map(|_| ()).ok_or_else(|| RpcError::server("busy", busy))
    }

    /// Waits until another request may be started, or until the wait for that takes too long. Nothing is read
    /// meanwhile, so a peer that disconnects is noticed by polling.
    pub(super) async fn wait_for_capacity(
        &mut self,
        has_disconnected: impl Fn() -> bool,
    ) -> ControlFlow<ConnectionEnd> {
        let stalled = tokio::time::sleep(self.connection.limits.queue_timeout);
        tokio::pin!(stalled);
        while self.pending_replies.len() >= self.connection.limits.max_in_flight {
            if self.is_stalled {
                return ControlFlow::Continue(());
            }
            tokio::select! {
                biased;
                () = self.outbox.closed() => return ControlFlow::Break(ConnectionEnd::Disconnected),
                () = self.connection.stop.cancelled() => return ControlFlow::Break(ConnectionEnd::Stopped),
                _ = self.pending_replies.join_next() => {}
                () = &mut stalled => self.is_stalled = true,
                () = tokio::time::sleep(HANG_UP_POLL_INTERVAL) => {
                    if has_disconnected() {
                        return ControlFlow::Break(ConnectionEnd::Disconnected);
                    }
                }
            }
        }
        self.is_stalled = false;
        ControlFlow::Continue(())
    }

    async fn reply_now(&self, ticket: RequestGuard, reply: &RpcReply) {
        let line = rpc::encode_reply(ticket.id(), reply, self.connection.limits.max_line_bytes);
        // Closed before the reply is sent: a client that has received it may reuse the id.
        drop(ticket);
        self.outbox.send(line).await;
    }
}

/// Waits for a reply and sends it as a line of at most `limit` bytes. `share` is held until the reply is
/// encoded.
async fn answer_later(
    ticket: RequestGuard,
    reply: impl Future<Output = RpcReply>,
    outbox: Outbox,
    limit: usize,
    held: impl Send,
) {
    let reply = AssertUnwindSafe(reply).catch_unwind();
    let reply = tokio::select! {
        biased;
        // Polled first: a request that was cancelled before it started is still started, so that it is
        // recorded in the ledger; and a reply that is ready at once registers no waiter for the cancellation.
        reply = reply => reply.unwrap_or_else(|_| Err(RpcError::internal())),
        // The pipeline ends the call and records its outcome; no reply is sent.
        () = ticket.cancellation().cancelled() => return,
        () = outbox.closed() => return,
    };
    let line = rpc::encode_reply(ticket.id(), &reply, limit);
    drop((reply, held));
    // Closed before the reply is sent: a client that has received it may reuse the id.
    if !ticket.close() {
        return;
    }
    outbox.send(line).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::*;
    use crate::in_flight_requests::InFlightRequests;
    use crate::outbox::OutboxHooks;

    #[tokio::test]
    async fn id_is_free_before_its_reply_is_sent() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(600), OutboxHooks::none());
        // The client does not read and this fills the queue, so the reply below cannot be sent.
        outbox.send(vec![b'x'; 8 * 1024 * 1024]).await;
        let (open, id) = (InFlightRequests::default(), RequestId::read(json!(1)).unwrap());
        let ticket = open.register(id.clone()).unwrap();
        let answer = answer_later(ticket, async { rpc::encode_result(&json!({})) }, outbox, 1000, ());
        tokio::pin!(answer);
        assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err(), "it was sent");
        assert!(open.register(id).is_ok(), "the id is still in use while its reply waits");
    }

    #[tokio::test]
    async fn request_cancelled_early_starts_but_gets_no_reply() {
        let (server, mut client) = tokio::io::duplex(1000);
        let (outbox, writer) = Outbox::open(server, Duration::from_secs(600), OutboxHooks::none());
        let (open, id) = (InFlightRequests::default(), RequestId::read(json!(1)).unwrap());
        let begun = AtomicUsize::new(0);
        let endless = async {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        };
        let at_once = async {
            begun.fetch_add(1, Ordering::Relaxed);
            rpc::encode_result(&json!({}))
        };
        let ticket = || {
            let ticket = open.register(id.clone()).unwrap();
            open.cancel(&id);
            ticket
        };
        answer_later(ticket(), endless, outbox.clone(), 1000, ()).await;
        answer_later(ticket(), at_once, outbox, 1000, ()).await;
        assert_eq!(begun.into_inner(), 2);
        writer.await.unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "");
    }
}
