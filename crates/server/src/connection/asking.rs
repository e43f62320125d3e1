//! Start of the reply to one request: immediate, deferred, or a stream of notifications. Enforces the
//! in-flight and subscription limits of the connection.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;

use super::{End, Talk};
use crate::budget::Share;
use crate::frame::{Behind, Line};
use crate::in_flight::Ticket;
use crate::notify::{Following, Notifier};
use crate::outbox::Outbox;
use crate::rpc::{self, Id, Params, Reply, RpcError};
use crate::service::{Answer, Call, Replying};

/// Maximum number of subscriptions of one connection.
const MOST_FOLLOWING: usize = 4;

impl<C: Send + Sync> Talk<C> {
    /// Dispatches one request and starts its reply.
    pub(super) async fn ask(
        &mut self,
        id: Id,
        method: &str,
        params: Params,
        line: Line<'_>,
    ) -> ControlFlow<End> {
        let ticket = match self.open.open(id) {
            Ok(ticket) => ticket,
            Err(id) => {
                // The client could not tell two replies with the same id apart.
                let error = RpcError::invalid_request("this id belongs to a request that is still open");
                self.send(None, &Err(error.with("id", &id))).await;
                return ControlFlow::Continue(());
            }
        };
        let (id, withdrawn) = (ticket.id().clone(), ticket.withdrawn().clone());
        let call = Call { id, params, began: line.began, withdrawn };
        match self.connection.service.request(&mut self.connection.session, method, call) {
            Answer::Now(reply) => self.answer_now(ticket, &reply).await,
            Answer::Later(reply) => return self.begin(ticket, reply, line.share, Behind::Nothing).await,
            Answer::Shared(reply) => return self.begin(ticket, reply, line.share, line.behind).await,
            Answer::Follow(reply, following) => self.follow(ticket, reply, following).await,
            Answer::Listen(following) => self.keep_telling(ticket, following).await,
        }
        ControlFlow::Continue(())
    }

    /// Polls a deferred reply once in this task, or spawns it at once if more requests are already buffered.
    async fn begin(
        &mut self,
        ticket: Ticket,
        reply: Replying,
        share: Share,
        behind: Behind,
    ) -> ControlFlow<End> {
        let (limit, outbox) = (self.connection.limits.max_line_bytes, self.outbox.clone());
        let mut answer = Box::pin(answer_later(ticket, reply, outbox, limit, share));
        let at_once = match behind {
            // An idle worker thread takes it.
            Behind::Another => Poll::Pending,
            // A reply that is ready at the first poll needs no task, which would take longer to wake.
            Behind::Nothing => poll_fn(|context| Poll::Ready(answer.poll_unpin(context))).await,
        };
        if at_once.is_pending() {
            self.answers.spawn(answer);
        }
        self.wait_for_a_place().await
    }

    /// Replies and then starts a subscription.
    async fn follow(&mut self, ticket: Ticket, reply: Reply, following: Following) {
        match self.may_follow() {
            Ok(()) => {
                self.answer_now(ticket, &reply).await;
                self.following.spawn(following(Notifier::new(self.outbox.clone())));
            }
            Err(busy) => self.answer_now(ticket, &Err(busy)).await,
        }
    }

    /// Starts a subscription that lasts until the request is cancelled.
    async fn keep_telling(&mut self, ticket: Ticket, following: Following) {
        if let Err(busy) = self.may_follow() {
            return self.answer_now(ticket, &Err(busy)).await;
        }
        let telling = following(Notifier::new(self.outbox.clone()));
        self.following.spawn(async move {
            tokio::select! {
                biased;
                () = ticket.withdrawn().cancelled() => {}
                () = telling => {}
            }
        });
    }

    /// Reserves a subscription slot of the socket, or returns a `busy` error. One slot covers all
    /// subscriptions of a connection.
    fn may_follow(&mut self) -> Result<(), RpcError> {
        if self.following.len() >= MOST_FOLLOWING {
            return Err(RpcError::server("busy", "too many subscriptions: use another connection"));
        }
        if self.follows.is_none() {
            self.follows = Arc::clone(&self.connection.followers).try_acquire_owned().ok();
        }
        let busy = "too many connections have subscriptions: close one of them, or try again";
        self.follows.as_ref().map(|_| ()).ok_or_else(|| RpcError::server("busy", busy))
    }

    async fn wait_for_a_place(&mut self) -> ControlFlow<End> {
        while self.answers.len() >= self.connection.limits.max_in_flight {
            tokio::select! {
                biased;
                () = self.outbox.gone() => return ControlFlow::Break(End::Gone),
                () = self.connection.stop.cancelled() => return ControlFlow::Break(End::Stopped),
                _ = self.answers.join_next() => {}
            }
        }
        ControlFlow::Continue(())
    }

    async fn answer_now(&self, ticket: Ticket, reply: &Reply) {
        let line = rpc::write(Some(ticket.id()), reply, self.connection.limits.max_line_bytes);
        // Closed before the reply is sent: a client that has received it may reuse the id.
        drop(ticket);
        self.outbox.send(line).await;
    }
}

/// Waits for a reply and sends it as a line of at most `limit` bytes. `share` is held until the reply is
/// encoded.
async fn answer_later(
    ticket: Ticket,
    reply: impl Future<Output = Reply>,
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
        () = ticket.withdrawn().cancelled() => return,
        () = outbox.gone() => return,
    };
    let line = rpc::write(Some(ticket.id()), &reply, limit);
    drop((reply, held));
    // Closed before the reply is sent: a client that has received it may reuse the id.
    if ticket.close() {
        outbox.send(line).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use serde_json::json;
    use tokio::io::AsyncReadExt;
    use tokio::time::timeout;

    use super::*;
    use crate::in_flight::InFlight;

    #[tokio::test]
    async fn id_is_free_before_its_reply_is_sent() {
        let (server, _client) = tokio::io::duplex(16);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(600));
        // The client does not read and this fills the queue, so the reply below cannot be sent.
        outbox.send(vec![b'x'; 8 * 1024 * 1024]).await;
        let (open, id) = (InFlight::default(), Id::read(json!(1)).unwrap());
        let ticket = open.open(id.clone()).unwrap();
        let answer = answer_later(ticket, async { rpc::answer(&json!({})) }, outbox, 1000, ());
        tokio::pin!(answer);
        assert!(timeout(Duration::from_millis(50), &mut answer).await.is_err(), "it was sent");
        assert!(open.open(id).is_ok(), "the id is still in use while its reply waits");
    }

    #[tokio::test]
    async fn request_cancelled_early_starts_but_gets_no_reply() {
        let (server, mut client) = tokio::io::duplex(1000);
        let (outbox, writer) = Outbox::open(server, Duration::from_secs(600));
        let (open, id) = (InFlight::default(), Id::read(json!(1)).unwrap());
        let begun = AtomicUsize::new(0);
        let endless = async {
            begun.fetch_add(1, Ordering::Relaxed);
            std::future::pending().await
        };
        let at_once = async {
            begun.fetch_add(1, Ordering::Relaxed);
            rpc::answer(&json!({}))
        };
        let ticket = || {
            let ticket = open.open(id.clone()).unwrap();
            open.withdraw(&id);
            ticket
        };
        answer_later(ticket(), endless, outbox.clone(), 1000, ()).await;
        answer_later(ticket(), at_once, outbox, 1000, ()).await;
        assert_eq!(begun.into_inner(), 2);
        writer.await.unwrap();
        let mut said = String::new();
        client.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "");
    }
}
