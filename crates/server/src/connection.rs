//! Handler of one connection: reads lines, starts a reply for each request, and sends replies as they become
//! ready, in any order.
//!
//! Overload causes backpressure first: while the limit of in-flight requests is reached or the queue of
//! unsent replies is full, the handler reads nothing more. If no reply becomes ready for `queue_timeout`, it
//! reads on and answers further requests with `busy`, so that a client is notified of the overload and can
//! cancel.

mod request;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::budget::MessageBudget;
use crate::connection_state::ConnectionState;
use crate::connection_table::{ConnectionActivity, ConnectionPin};
use crate::frame::{InputLine, LineFrame, LineReader, UnusableStream};
use crate::in_flight_requests::InFlightRequests;
use crate::mcp::task_table::ConnectionTasks;
use crate::outbox::{Outbox, OutboxHooks};
use crate::rpc::{self, RequestId, RpcError, RpcMessage};
use crate::service::{NotificationEffect, SocketService};
use crate::settings::ConnectionLimits;

/// Consecutive invalid lines after which the connection is closed: the peer does not speak this protocol.
const MAX_INVALID_LINES: u32 = 16;
/// Time a peer may keep writing after the final error, so that it can read that error before the connection
/// closes.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);
/// Time a peer that closed its sending side has for the calls in progress. An MCP client that ends closes its
/// side first, and its processes must not outlive it by more than a second.
const HALF_CLOSED_GRACE: Duration = Duration::from_millis(800);
/// Time after which a connection with more lines to handle yields the thread to other connections.
const MAX_BUSY_TIME: Duration = Duration::from_millis(1);
/// Interval at which a half-closed connection is checked for a hang-up.
const HANG_UP_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Accepted connection with everything its handler needs.
pub(crate) struct ClientConnection<C: 'static> {
    pub(crate) service: Arc<SocketService<C>>,
    pub(crate) session: ConnectionState,
    pub(crate) limits: ConnectionLimits,
    pub(crate) budget: MessageBudget,
    /// Cancelled when the connections must end.
    pub(crate) stop: CancellationToken,
    /// Longest silence of a peer that has no request open; unlimited if absent.
    pub(crate) idle_timeout: Option<Duration>,
    /// Activity, by which the listener finds idle connections.
    pub(crate) activity: ConnectionActivity,
    /// Slots for connections with subscriptions, shared by all connections of a socket.
    pub(crate) follower_slots: Arc<Semaphore>,
}

/// Functions on the receiving side of a connection that depend on its kind.
pub(crate) struct PeerChecks<R> {
    /// Distinguishes a peer that disconnected from one that only closed its sending side.
    pub(crate) has_disconnected: fn(&R) -> bool,
    /// Makes each later write of the peer fail, so that it knows that a request was not received. What was received
    /// before can still be read. Returns false if this kind of connection cannot do that.
    pub(crate) stop_receiving: fn(&R) -> bool,
}

impl<R> Clone for PeerChecks<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for PeerChecks<R> {}

/// Reason why a connection ended.
enum ConnectionEnd {
    /// The peer closed its sending side; it may still read replies.
    Finished,
    /// The input cannot be parsed any further.
    Unusable,
    /// The peer disconnected, or does not read its replies.
    Disconnected,
    /// The idle timeout passed, or the slot of the idle connection is needed.
    Idle,
    /// The daemon stops.
    Stopped,
}

/// Running state of one connection.
struct ConnectionHandler<C: 'static> {
    connection: ClientConnection<C>,
    outbox: Outbox,
    pending_replies: JoinSet<()>,
    /// Subscriptions. They have no end of their own, so they are dropped with the connection.
    subscriptions: JoinSet<()>,
    /// Follower slot of this connection, once it has a subscription.
    follower_slot: Option<OwnedSemaphorePermit>,
    in_flight: InFlightRequests,
    /// True if the in-flight limit is reached and no reply has become ready for `queue_timeout`.
    is_stalled: bool,
    invalid_lines: u32,
    /// Time spent on lines since the connection last yielded.
    busy_time: Duration,
}

impl<C: Send + Sync> ClientConnection<C> {
    /// Serves the connection until it ends.
    pub(crate) async fn run<R, W>(mut self, read: R, write: W, checks: PeerChecks<R>)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut lines = LineReader::new(read, self.limits.max_line_bytes, self.budget.clone());
        let (service, account) = (Arc::clone(&self.service), self.session.account);
        let charge = Arc::new(move |bytes| (service.charge_line)(&service.context, account, bytes));
        let service = Arc::clone(&self.service);
        let before_write = Arc::new(move || (service.before_write)(&service.context));
        let hooks = OutboxHooks { charge, before_write };
        let (outbox, writer) = Outbox::open(write, self.limits.write_stall_timeout, hooks);
        self.session.outbox = Some(outbox.clone());
        let (pending_replies, in_flight) = (JoinSet::new(), self.activity.in_flight.clone());
        let subscriptions = JoinSet::new();
        let mut conversation = ConnectionHandler {
            connection: self,
            outbox,
            pending_replies,
            subscriptions,
            follower_slot: None,
            in_flight,
            is_stalled: false,
            invalid_lines: 0,
            busy_time: Duration::ZERO,
        };
        let end = conversation.read_lines(&mut lines, checks).await;
        conversation.finish_replies(&end, || (checks.has_disconnected)(lines.source())).await;
        // The writer task sends what is queued and ends once its last sender is dropped.
        drop(conversation);
        let _ = writer.await;
        if matches!(end, ConnectionEnd::Unusable) {
            lines.discard_input(LINGER_TIMEOUT).await;
        }
    }
}

impl<C: Send + Sync> ConnectionHandler<C> {
    async fn read_lines<R: AsyncRead + Unpin>(
        &mut self,
        lines: &mut LineReader<R>,
        PeerChecks { has_disconnected, stop_receiving }: PeerChecks<R>,
    ) -> ConnectionEnd {
        let (outbox, stop) = (self.outbox.clone(), self.connection.stop.clone());
        let eviction = self.connection.activity.eviction.clone();
        let (gone, stopped, evicted) = (outbox.closed(), stop.cancelled(), eviction.cancelled());
        // Pinned outside the loop: creating the futures anew would register and remove a waiter for every
        // line.
        tokio::pin!(gone, stopped, evicted);
        let mut is_stopping = false;
        loop {
            while self.pending_replies.try_join_next().is_some() {}
            while self.subscriptions.try_join_next().is_some() {}
            if let ControlFlow::Break(end) = self.wait_for_capacity(|| has_disconnected(lines.source())).await
            {
                return end;
            }
            let frame = tokio::select! {
                biased;
                () = &mut gone => return ConnectionEnd::Disconnected,
                // Requests that were sent before the stop are still answered, so that the client knows that they did
                // not run.
                () = &mut stopped, if !is_stopping => {
                    if !stop_receiving(lines.source()) {
                        return ConnectionEnd::Stopped;
                    }
                    is_stopping = true;
                    continue;
                }
                frame = lines.next() => frame,
                () = &mut evicted => return ConnectionEnd::Idle,
                () = wait_until_idle(self.connection.idle_timeout, &mut self.pending_replies), if self.follower_slot.is_none() => {
                    return ConnectionEnd::Idle;
                }
            };
            let next = match frame {
                Ok(LineFrame::End | LineFrame::Unusable(..)) | Err(_) if is_stopping => {
                    ControlFlow::Break(ConnectionEnd::Stopped)
                }
                Ok(LineFrame::Line(line)) => self.handle_line_in_slot(line).await,
                Ok(LineFrame::NotUtf8(id)) => self.reject_line(id, RpcError::not_utf8()).await,
                Ok(LineFrame::TooLong(id)) => {
                    let limit = self.connection.limits.max_line_bytes;
                    self.reject_line(Some(id), RpcError::line_too_long(limit)).await
                }
                Ok(LineFrame::Unusable(why, id)) => {
                    let error = self.unusable_error(why);
                    let error = if id.is_some() { self.record_malformed(id.as_ref(), error) } else { error };
                    self.send_error(id.as_ref(), error).await;
                    ControlFlow::Break(ConnectionEnd::Unusable)
                }
                Ok(LineFrame::End) => ControlFlow::Break(ConnectionEnd::Finished),
                Err(error) => {
                    tracing::debug!(%error, "connection_lost");
                    ControlFlow::Break(ConnectionEnd::Disconnected)
                }
            };
            if let ControlFlow::Break(end) = next {
                return end;
            }
            let session = &self.connection.session;
            let is_needed = !session.worker_sockets.is_empty()
                || session.tasks.as_ref().is_some_and(ConnectionTasks::are_running);
            let pin = match (is_needed, &self.follower_slot) {
                (true, _) => ConnectionPin::InUse,
                (false, Some(_)) => ConnectionPin::Subscribed,
                (false, None) => ConnectionPin::None,
            };
            self.connection.activity.update(pin);
        }
    }

    /// Handles a line in a slot of its caller, so that neither many lines nor many connections of one caller delay the
    /// others.
    async fn handle_line_in_slot(&mut self, line: InputLine<'_>) -> ControlFlow<ConnectionEnd> {
        let (began, account) = (Instant::now(), self.connection.session.account);
        let next = match self.connection.service.request_slots.clone() {
            Some(slots) => slots.run(account, self.handle_line(line)).await,
            None => self.handle_line(line).await,
        };
        self.busy_time += began.elapsed();
        if self.busy_time >= MAX_BUSY_TIME {
            self.busy_time = Duration::ZERO;
            tokio::task::yield_now().await;
        }
        next
    }

    async fn handle_line(&mut self, line: InputLine<'_>) -> ControlFlow<ConnectionEnd> {
        let message = match rpc::parse_message(line.text) {
            Ok(message) => message,
            Err(_) if is_http_request_line(line.text) => {
                let error = RpcError::invalid_request(
                    "this is not an HTTP server: send one JSON-RPC message per line",
                );
                self.send_error(None, error).await;
                return ControlFlow::Break(ConnectionEnd::Unusable);
            }
            Err(unreadable) => return self.reject_line(unreadable.id, unreadable.error).await,
        };
        self.invalid_lines = 0;
        match message {
            RpcMessage::Notification { method, params } => {
                if let NotificationEffect::Cancel(id) =
                    self.connection.service.handle_notification(&method, params)
                {
                    self.in_flight.cancel(&id);
                }
                ControlFlow::Continue(())
            }
            RpcMessage::Request { id, method, params } => {
                self.handle_request(id, &method, params, line).await;
                ControlFlow::Continue(())
            }
        }
    }

    /// Replies with an error to a line that is not a valid message.
    async fn reject_line(&mut self, id: Option<RequestId>, error: RpcError) -> ControlFlow<ConnectionEnd> {
        let error = self.record_malformed(id.as_ref(), error);
        self.send_error(id.as_ref(), error).await;
        self.invalid_lines += 1;
        if self.invalid_lines < MAX_INVALID_LINES {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(ConnectionEnd::Unusable)
        }
    }

    fn record_malformed(&self, id: Option<&RequestId>, error: RpcError) -> RpcError {
        let service = &self.connection.service;
        (service.on_malformed)(&service.context, &self.connection.session, id, error)
    }

    /// Completes the open replies, as far as the peer can still read them.
    async fn finish_replies(&mut self, end: &ConnectionEnd, has_disconnected: impl Fn() -> bool) {
        let half_closed = matches!(end, ConnectionEnd::Finished);
        let grace = tokio::time::sleep(HALF_CLOSED_GRACE);
        tokio::pin!(grace);
        match end {
            ConnectionEnd::Disconnected => self.abandon_replies().await,
            ConnectionEnd::Finished | ConnectionEnd::Unusable | ConnectionEnd::Idle => loop {
                tokio::select! {
                    biased;
                    () = self.outbox.closed() => return self.abandon_replies().await,
                    () = self.connection.stop.cancelled() => return self.stop_replies().await,
                    done = self.pending_replies.join_next() => if done.is_none() { return },
                    () = &mut grace, if half_closed => return self.end_half_closed().await,
                    // Nothing is written while a call waits for approval, so no write error reveals a peer
                    // that left.
                    () = tokio::time::sleep(HANG_UP_POLL_INTERVAL) => if has_disconnected() { return self.abandon_replies().await },
                }
            },
            ConnectionEnd::Stopped => self.stop_replies().await,
        }
    }

    /// Abandons the replies, which the peer cannot read any more. Requests already received are still
    /// started, so that each is recorded in the ledger. Every reply task ends once the outbox is closed, so
    /// joining them is short.
    async fn abandon_replies(&mut self) {
        self.outbox.abandon();
        while self.pending_replies.join_next().await.is_some() {}
    }

    /// Replies with a `shutting_down` error to every request that is still open.
    async fn stop_replies(&mut self) {
        // A call that has just ended gets a short time to send its reply.
        let last_words = async { while self.pending_replies.join_next().await.is_some() {} };
        let _ = timeout(self.connection.limits.final_reply_timeout, last_words).await;
        // Subscribers notice the end of the connection itself.
        self.subscriptions.shutdown().await;
        let message = "Sinew stopped before the call ended: check the ledger for its outcome";
        self.fail_open_requests("shutting_down", message).await;
    }

    /// Ends the calls of a peer that closed its sending side, and notifies the peer, because it may still
    /// read.
    async fn end_half_closed(&mut self) {
        let message = "the sending side of the connection was closed before the call ended, which stops the call: \
                       keep it open until the reply arrives, or send `detached` with an idempotency key";
        self.fail_open_requests("client_gone", message).await;
    }

    /// Replies with an error to every open request and drops its reply task, which stops a call that does not
    /// outlive its connection.
    async fn fail_open_requests(&mut self, reason: &'static str, message: &str) {
        // Removed from the list before the abort, so that a request that ends now does not get two replies.
        let open = self.in_flight.close_all();
        self.pending_replies.abort_all();
        for id in open {
            self.send_error(Some(&id), RpcError::server(reason, message)).await;
        }
    }

    async fn send_error(&self, id: Option<&RequestId>, error: RpcError) {
        let unknown = self.connection.session.unknown_id();
        let limit = self.connection.limits.max_line_bytes;
        self.outbox.send(rpc::encode_error(id, unknown, error, limit)).await;
    }

    fn unusable_error(&self, why: UnusableStream) -> RpcError {
        let limit = self.connection.limits.max_line_bytes;
        match why {
            UnusableStream::TooLong => {
                let error = RpcError::line_too_long(limit);
                RpcError { message: format!("{}: the connection is closed", error.message), ..error }
            }
            UnusableStream::Starved => RpcError::server(
                "busy",
                "too many long messages are being read: try again, or send less at a time",
            ),
            UnusableStream::TooSlow => {
                RpcError::server("frame_too_slow", "a long message must be sent without pauses")
            }
            UnusableStream::Foreign => {
                RpcError::invalid_request("this is not a JSON-RPC message: send one JSON object per line")
            }
            UnusableStream::Unterminated => {
                RpcError::invalid_request("the last line does not end with a newline, so it was not read")
            }
        }
    }
}

/// Waits until neither side has sent anything for `idle`. Open replies do not count as silence.
async fn wait_until_idle(idle: Option<Duration>, answers: &mut JoinSet<()>) {
    let Some(idle) = idle else { return std::future::pending().await };
    while answers.join_next().await.is_some() {}
    tokio::time::sleep(idle).await;
}

/// Returns true if the line is an HTTP request line.
fn is_http_request_line(line: &str) -> bool {
    line.rsplit(' ').next().is_some_and(|last| last.starts_with("HTTP/"))
}
