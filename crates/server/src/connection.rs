//! One conversation: reads lines, starts answers, sends them as they come, in whatever order.
//!
//! Back-pressure, not refusal: with as many answers open as the limit allows, or with more replies unread than the
//! queue holds, nothing more is read until that changes.

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

/// A peer that sends this many unreadable lines in a row does not speak this protocol.
const PATIENCE_WITH_NOISE: u32 = 16;
/// How long a peer that was told why may go on writing before it is cut off.
const LINGER: Duration = Duration::from_secs(1);
/// How often a peer that has nothing more to say is looked after.
const GLANCE: Duration = Duration::from_millis(250);

/// One conversation with one peer.
pub(crate) struct Connection<C: 'static> {
    pub(crate) service: Arc<Service<C>>,
    pub(crate) session: Session,
    pub(crate) limits: Limits,
    pub(crate) budget: Budget,
    /// Fired when the daemon stops for good.
    pub(crate) stop: CancellationToken,
    /// How long a peer may be silent that waits for nothing.
    pub(crate) idle: Option<Duration>,
    /// Places for those who follow, which all connections of a socket share.
    pub(crate) followers: Arc<Semaphore>,
}

/// Why a conversation ended.
enum End {
    /// The peer has said all it will; it may still be reading.
    Finished,
    /// What it sends cannot be understood any more.
    Unusable,
    /// It is not there any more.
    Gone,
    /// It holds a place and wants nothing.
    Idle,
    /// We stop.
    Stopped,
}

/// A conversation in progress.
struct Talk<C: 'static> {
    connection: Connection<C>,
    outbox: Outbox,
    answers: JoinSet<()>,
    /// Ends with the conversation: nobody waits for what has no end.
    following: JoinSet<()>,
    /// Its place among those who follow, once it does.
    follows: Option<OwnedSemaphorePermit>,
    open: InFlight,
    noise: u32,
}

impl<C: Send + Sync> Connection<C> {
    /// Talks until either side has had enough. `has_left` tells a peer that is gone from one that only has nothing more to
    /// say.
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
        // With its last sender gone the writer sends what is queued, and ends.
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
        // Waited for all along: to begin anew with each line would be to queue up and leave again for each.
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

    /// Answers a line that is no message.
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

    /// Lets the open answers come to their end, where someone is there to read them.
    async fn conclude(&mut self, end: &End, has_left: impl Fn() -> bool) {
        match end {
            End::Gone => self.leave().await,
            End::Finished | End::Unusable | End::Idle => loop {
                tokio::select! {
                    biased;
                    () = self.outbox.gone() => return self.leave().await,
                    () = self.connection.stop.cancelled() => return self.break_off().await,
                    done = self.answers.join_next() => if done.is_none() { return },
                    // Nothing is written while a call waits for a human, so nothing fails to be.
                    () = tokio::time::sleep(GLANCE) => if has_left() { return self.leave().await },
                }
            },
            End::Stopped => self.break_off().await,
        }
    }

    /// Lets go of answers that nobody will read. What has come is begun all the same, so that it is on record whatever becomes of
    /// it; nothing waits for a client that is gone, so that is all it takes.
    async fn leave(&mut self) {
        self.outbox.give_up();
        while self.answers.join_next().await.is_some() {}
    }

    /// Tells the client that no answer will come to what is still open.
    async fn break_off(&mut self) {
        // A call that has just ended still has to say so.
        let last_words = async { while self.answers.join_next().await.is_some() {} };
        let _ = timeout(self.connection.limits.last_words, last_words).await;
        // Whoever listened hears the end of the connection.
        self.following.shutdown().await;
        // Taken off the list first: what ends in this moment is not answered twice.
        let open = self.open.close_all();
        self.answers.abort_all();
        for id in open {
            let message =
                "Sinew stopped before the call had ended: whether and how it ended is in the ledger";
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

/// Returns when nothing was said for so long, by neither side. Who waits for an answer is not silent.
async fn silence(idle: Option<Duration>, answers: &mut JoinSet<()>) {
    let Some(idle) = idle else { return std::future::pending().await };
    while answers.join_next().await.is_some() {}
    tokio::time::sleep(idle).await;
}

/// Whether a line is the first of an HTTP request.
fn speaks_http(line: &str) -> bool {
    line.rsplit(' ').next().is_some_and(|last| last.starts_with("HTTP/"))
}
