//! Start of the reply to one request: immediate, deferred, or a stream of notifications. Enforces the
//! in-flight and subscription limits of the connection.

use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;

use super::{End, Talk};
use crate::budget::Share;
use crate::frame::{Behind, Line};
use crate::in_flight::Ticket;
use crate::later::answer_later;
use crate::notify::{Following, Notifier};
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
