//! Bridge between standard input and output and the daemon's agent socket, line by line.
//!
//! The bridge outlives the daemon. When the connection breaks, it connects again and repeats the client's handshake, so
//! that the restart is invisible to the client. A request that the old daemon did not receive, or that it refused
//! because it was stopping, did not run and is sent to the new one. Every other open request is answered with an
//! error: its call may have run.

mod daemon_link;
mod message_head;
mod pending_requests;

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};

pub(crate) use daemon_link::DaemonLink;
use message_head::MessageHead;
use pending_requests::{PendingRequests, RefusedRequest};
use serde_json::Value;

/// Behaviour if no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DaemonStartup {
    /// Start one.
    StartIfMissing,
    /// Wait for one.
    WaitForDaemon,
}

/// State shared by both directions.
struct StdioBridge {
    link: DaemonLink,
    pending: PendingRequests,
}

/// Forwards lines until the client has closed its side and has all responses, or no daemon can be reached.
pub(crate) fn run(context: CommandContext, daemons: DaemonStartup) -> Result<(), CommandError> {
    let bridge = Arc::new(StdioBridge {
        link: DaemonLink::new(context, daemons),
        pending: PendingRequests::default(),
    });
    let first = bridge.link.connect(Duration::ZERO)?;
    let forwarder = Arc::clone(&bridge);
    // Not joined: a client that never closes its side must not keep a bridge without a daemon alive.
    std::thread::spawn(move || forwarder.forward_requests());
    bridge.forward_responses(first)
}

impl StdioBridge {
    /// Forwards lines from the client to the daemon.
    fn forward_requests(&self) {
        let mut lines = BufReader::new(stdin().lock());
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            self.send(&line);
            line.clear();
        }
        self.link.finish();
    }

    /// Sends a line from the client once a connection exists.
    fn send(&self, line: &[u8]) {
        let head = MessageHead::parse_strict(line);
        // Before sending, because the response may arrive immediately.
        self.pending.note_request(&head, line);
        self.deliver(head.request_id(), 0, line);
    }

    /// Writes a line to the first connection that takes all of it. The daemon runs no request that it received in
    /// part, so a line that a connection did not take can be sent on the next one.
    fn deliver(&self, id: Option<&Value>, attempt: u32, line: &[u8]) {
        loop {
            let (number, stream) = self.link.stream();
            if (&*stream).write_all(line).is_err() {
                self.link.wait_until_replaced(number);
                continue;
            }
            let Some(id) = id.filter(|id| self.pending.mark_sent(id, attempt)) else { return };
            // `forward_responses` may have failed the open requests before this one was marked.
            if !self.link.is_current(number) {
                let unanswered = self.pending.fail_one(id);
                unanswered.iter().for_each(|answer| drop(write_line(answer)));
            }
            return;
        }
    }

    /// Forwards lines from the daemon to the client, over successive connections.
    fn forward_responses(self: &Arc<Self>, mut connection: UnixStream) -> Result<(), CommandError> {
        let mut refused = Vec::new();
        loop {
            refused = self.forward_from(connection, refused)?;
            if self.link.is_finished() {
                // Nothing can be sent any more.
                let mut unanswered = refused.iter().filter_map(|request| self.pending.fail_one(&request.id));
                return unanswered.try_for_each(|answer| write_line(&answer));
            }
            for answer in self.pending.fail_all() {
                write_line(&answer)?;
            }
            connection = match self.link.connect(daemon_link::RECONNECT_TIMEOUT) {
                // The client left while there was no daemon.
                Err(_) if self.link.is_finished() => return Ok(()),
                connected => connected?,
            };
        }
    }

    /// Forwards lines of one connection, on which `resent` requests are sent first. Returns the requests that the
    /// daemon refused because it was stopping.
    fn forward_from(
        self: &Arc<Self>,
        connection: UnixStream,
        resent: Vec<RefusedRequest>,
    ) -> Result<Vec<RefusedRequest>, CommandError> {
        let mut lines = BufReader::new(connection);
        if !self.repeat_handshake(&mut lines)? {
            return Ok(resent);
        }
        self.link.set_connected(lines.get_ref());
        if !resent.is_empty() {
            let sender = Arc::clone(self);
            // On a thread of its own: this one must read the responses meanwhile.
            std::thread::spawn(move || {
                resent
                    .iter()
                    .for_each(|request| sender.deliver(Some(&request.id), request.attempt, &request.line))
            });
        }
        let (mut line, mut refused) = (Vec::new(), Vec::new());
        while matches!(lines.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            // A line without a newline was cut off when the daemon ended: it is not a response.
            if line.ends_with(b"\n") {
                match message_head::refused_at_shutdown(&line).and_then(|id| self.pending.take_back(&id)) {
                    Some(request) => refused.push(request),
                    None => {
                        self.pending.note_response(&MessageHead::parse(&line));
                        write_line(&line)?;
                    }
                }
            }
            line.clear();
        }
        self.link.set_disconnected();
        Ok(refused)
    }

    /// Repeats the client's handshake on a new connection and drops the daemon's response, which the client
    /// has already had. Returns false if the connection was lost.
    fn repeat_handshake(&self, lines: &mut BufReader<UnixStream>) -> Result<bool, CommandError> {
        let Some(handshake) = self.pending.handshake() else { return Ok(true) };
        if lines.get_mut().write_all(&handshake).is_err() {
            return Ok(false);
        }
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line).unwrap_or(0);
        if read > 0 && MessageHead::parse(&line).is_error() {
            return Err(CommandError::failed("the restarted daemon refuses the client's handshake"));
        }
        Ok(read > 0 && lines.get_mut().write_all(pending_requests::INITIALIZED).is_ok())
    }
}

/// Writes one line to the client and flushes it.
fn write_line(line: &[u8]) -> Result<(), CommandError> {
    let mut out = stdout().lock();
    let text = out.write_all(line).and_then(|()| out.flush());
    // The client has closed its side; that is not a failure.
    text.map_err(|_| CommandError::new(ExitKind::Done, ""))
}
