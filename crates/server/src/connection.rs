//! Handler of one connection: reads lines, starts a reply for each request, and sends replies as they become
//! ready, in any order.
//!
//! Overload causes backpressure, not refusals: while the limit of in-flight requests is reached or the queue
//! of unsent replies is full, the handler reads nothing more.

mod asking;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::budget::Budget;
use crate::frame::{Frame, Line, LineReader, Unusable};
use crate::in_flight::InFlight;
use crate::outbox::Outbox;
use crate::rpc::{self, Id, Message, Reply, RpcError};
use crate::service::{Effect, Service};
use crate::session::Session;
use crate::settings::Limits;

/// Consecutive invalid lines after which the connection is closed: the peer does not speak this protocol.
const PATIENCE_WITH_NOISE: u32 = 16;
/// Time a peer may keep writing after the final error, so that it can read that error before the connection
/// closes.
const LINGER: Duration = Duration::from_secs(1);
/// Interval at which a half-closed connection is checked for a hang-up.
const GLANCE: Duration = Duration::from_millis(250);

/// Accepted connection with everything its handler needs.
pub(crate) struct Connection<C: 'static> {
    pub(crate) service: Arc<Service<C>>,
    pub(crate) session: Session,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// Cancelled when the connections must end.
    pub(crate) stop: CancellationToken,
    /// Longest silence of a peer that has no request open; unlimited if absent.
    pub(crate) idle: Option<Duration>,
    /// Slots for connections with subscriptions, shared by all connections of a socket.
    pub(crate) followers: Arc<Semaphore>,
}

/// Reason why a connection ended.
enum End {
    /// The peer closed its sending side; it may still read replies.
    Finished,
    /// The input cannot be parsed any further.
    Unusable,
    /// The peer disconnected, or does not read its replies.
    Gone,
    /// The idle timeout passed.
    Idle,
    /// The daemon stops.
    Stopped,
}

/// Running state of one connection.
struct Talk<C: 'static> {
    connection: Connection<C>,
    outbox: Outbox,
    answers: JoinSet<()>,
    /// Subscriptions. They have no end of their own, so they are dropped with the connection.
    following: JoinSet<()>,
    /// Follower slot of this connection, once it has a subscription.
    follows: Option<OwnedSemaphorePermit>,
    open: InFlight,
    noise: u32,
}

impl<C: Send + Sync> Connection<C> {
    /// Serves the connection until it ends. `has_disconnected` distinguishes a peer that disconnected from
    /// one that only closed its sending side.
    pub(crate) async fn run<R, W>(mut self, read: R, write: W, has_left: fn(&R) -> bool)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut lines = LineReader::new(read, self.limits.max_line_bytes, self.budget.clone());
        let (outbox, writer) = Outbox::open(write, self.limits.write_stall);
        self.session.outbox = Some(outbox.clone());
        let (answers, open) = (JoinSet::new(), InFlight::default());
        let following = JoinSet::new();
        let mut talk = Talk { connection: self, outbox, answers, following, follows: None, open, noise: 0 };
        let end = talk.listen(&mut lines).await;
        talk.conclude(&end, || has_left(lines.source())).await;
        // The writer task sends what is queued and ends once its last sender is dropped.
        drop(talk);
        let _ = writer.await;
        if matches!(end, End::Unusable) {
            lines.linger(LINGER).await;
        }
    }
}

impl<C: Send + Sync> Talk<C> {
    async fn listen<R: AsyncRead + Unpin>(&mut self, lines: &mut LineReader<R>) -> End {
        let (outbox, stop) = (self.outbox.clone(), self.connection.stop.clone());
        let (gone, stopped) = (outbox.gone(), stop.cancelled());
        // Pinned outside the loop: creating the futures anew would register and remove a waiter for every
        // line.
        tokio::pin!(gone, stopped);
        loop {
            while self.answers.try_join_next().is_some() {}
            while self.following.try_join_next().is_some() {}
            let frame = tokio::select! {
                biased;
                () = &mut gone => return End::Gone,
                () = &mut stopped => return End::Stopped,
                frame = lines.next() => frame,
                () = silence(self.connection.idle, &mut self.answers), if self.follows.is_none() => {
                    return End::Idle;
                }
            };
            let next = match frame {
                Ok(Frame::Line(line)) => self.hear(line).await,
                Ok(Frame::NotUtf8) => self.complain(None, RpcError::not_utf8()).await,
                Ok(Frame::Unusable(why)) => {
                    self.send(None, &Err(self.explain(why))).await;
                    ControlFlow::Break(End::Unusable)
                }
                Ok(Frame::End) => ControlFlow::Break(End::Finished),
                Err(error) => {
                    tracing::debug!(%error, "connection_lost");
                    ControlFlow::Break(End::Gone)
                }
            };
            if let ControlFlow::Break(end) = next {
                return end;
            }
        }
    }

    async fn hear(&mut self, line: Line<'_>) -> ControlFlow<End> {
        let message = match rpc::read(line.text) {
            Ok(message) => message,
            Err(_) if speaks_http(line.text) => {
                let error = RpcError::invalid_request(
                    "this is not an HTTP server: send one JSON-RPC message per line",
                );
                self.send(None, &Err(error)).await;
                return ControlFlow::Break(End::Unusable);
            }
            Err(unreadable) => return self.complain(unreadable.id, unreadable.error).await,
        };
        self.noise = 0;
        match message {
            Message::Notification { method, params } => {
                if let Effect::Withdraw(id) = self.connection.service.notice(&method, params) {
                    self.open.withdraw(&id);
                }
                ControlFlow::Continue(())
            }
            Message::Request { id, method, params } => self.ask(id, &method, params, line).await,
        }
    }

    /// Replies with an error to a line that is not a valid message.
    async fn complain(&mut self, id: Option<Id>, error: RpcError) -> ControlFlow<End> {
        let service = &self.connection.service;
        let error = (service.malformed)(&service.context, &self.connection.session, error);
        self.send(id.as_ref(), &Err(error)).await;
        self.noise += 1;
        if self.noise < PATIENCE_WITH_NOISE {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(End::Unusable)
        }
    }

    /// Completes the open replies, as far as the peer can still read them.
    async fn conclude(&mut self, end: &End, has_left: impl Fn() -> bool) {
        match end {
            End::Gone => self.leave().await,
            End::Finished | End::Unusable | End::Idle => loop {
                tokio::select! {
                    biased;
                    () = self.outbox.gone() => return self.leave().await,
                    () = self.connection.stop.cancelled() => return self.break_off().await,
                    done = self.answers.join_next() => if done.is_none() { return },
                    // Nothing is written while a call waits for approval, so no write error reveals a peer
                    // that left.
                    () = tokio::time::sleep(GLANCE) => if has_left() { return self.leave().await },
                }
            },
            End::Stopped => self.break_off().await,
        }
    }

    /// Abandons the replies, which the peer cannot read any more. Requests already received are still
    /// started, so that each is recorded in the ledger. Every reply task ends once the outbox is closed, so
    /// joining them is short.
    async fn leave(&mut self) {
        self.outbox.give_up();
        while self.answers.join_next().await.is_some() {}
    }

    /// Replies with a `shutting_down` error to every request that is still open.
    async fn break_off(&mut self) {
        // A call that has just ended gets a short time to send its reply.
        let last_words = async { while self.answers.join_next().await.is_some() {} };
        let _ = timeout(self.connection.limits.last_words, last_words).await;
        // Subscribers notice the end of the connection itself.
        self.following.shutdown().await;
        // Removed from the list before the abort, so that a request that ends now does not get two replies.
        let open = self.open.close_all();
        self.answers.abort_all();
        for id in open {
            let message = "Sinew stopped before the call ended: check the ledger for its outcome";
            self.send(Some(&id), &Err(RpcError::server("shutting_down", message))).await;
        }
    }

    async fn send(&self, id: Option<&Id>, reply: &Reply) {
        self.outbox.send(rpc::write(id, reply, self.connection.limits.max_line_bytes)).await;
    }

    fn explain(&self, why: Unusable) -> RpcError {
        let limit = self.connection.limits.max_line_bytes;
        match why {
            Unusable::TooLong => {
                let message = format!("the line is longer than {limit} bytes: the connection is closed");
                RpcError::server("frame_too_large", message).with("limit_bytes", limit)
            }
            Unusable::Starved => RpcError::server(
                "busy",
                "too many long messages are being read: try again, or send less at a time",
            ),
            Unusable::TooSlow => {
                RpcError::server("frame_too_slow", "a long message must be sent without pauses")
            }
            Unusable::Foreign => {
                RpcError::invalid_request("this is not a JSON-RPC message: send one JSON object per line")
            }
            Unusable::Unterminated => {
                RpcError::invalid_request("the last line does not end with a newline, so it was not read")
            }
        }
    }
}

/// Waits until neither side has sent anything for `idle`. Open replies do not count as silence.
async fn silence(idle: Option<Duration>, answers: &mut JoinSet<()>) {
    let Some(idle) = idle else { return std::future::pending().await };
    while answers.join_next().await.is_some() {}
    tokio::time::sleep(idle).await;
}

/// Returns true if the line is an HTTP request line.
fn speaks_http(line: &str) -> bool {
    line.rsplit(' ').next().is_some_and(|last| last.starts_with("HTTP/"))
}
