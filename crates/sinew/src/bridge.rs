//! Bridge between standard input and output and the daemon's agent socket, line by line.
//!
//! The bridge outlives the daemon. When the connection breaks, it answers every open request with an error
//! (no request is sent twice, because the call may have run), connects again and repeats the client's
//! handshake, so that the restart is invisible to the client.

mod line;
mod link;
mod open_calls;

use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use crate::exit::{Exit, Problem};
use crate::setting::Setting;

use line::Head;
use link::Link;
use open_calls::OpenCalls;

/// Behaviour if no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemons {
    /// Start one.
    Started,
    /// Wait for one.
    Awaited,
}

/// State shared by both directions.
struct Bridge {
    link: Link,
    open: OpenCalls,
}

/// Forwards lines until the client has closed its side and has all responses, or no daemon can be reached.
pub(crate) fn run(setting: Setting, daemons: Daemons) -> Result<(), Problem> {
    let bridge = Arc::new(Bridge { link: Link::new(setting, daemons), open: OpenCalls::default() });
    let first = bridge.link.connect(Duration::ZERO)?;
    let outward = Arc::clone(&bridge);
    // Not joined: a client that never closes its side must not keep a bridge without a daemon alive.
    std::thread::spawn(move || outward.carry_out());
    bridge.carry_in(first)
}

impl Bridge {
    /// Forwards lines from the client to the daemon.
    fn carry_out(&self) {
        let mut lines = BufReader::new(stdin().lock());
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            self.send(&line);
            line.clear();
        }
        self.link.finish();
    }

    /// Sends a line once a connection exists. It is never sent again on another connection, because the
    /// request may already have run.
    fn send(&self, line: &[u8]) {
        let (way, head) = (self.link.way(), Head::of_client(line));
        // Before sending, because the response may arrive immediately.
        self.open.note(&head, line);
        if (&*way).write_all(line).is_err() {
            // `forward_responses` may have failed the open requests before this one was noted.
            let unanswered = head.asks().and_then(|id| self.open.give_up_one(id));
            unanswered.iter().for_each(|answer| drop(say(answer)));
        }
    }

    /// Forwards lines from the daemon to the client, over successive connections.
    fn carry_in(&self, mut connection: UnixStream) -> Result<(), Problem> {
        loop {
            self.carry_from(connection)?;
            if self.link.is_finished() {
                return Ok(());
            }
            for answer in self.open.give_up() {
                say(&answer)?;
            }
            connection = self.link.connect(link::PATIENCE)?;
        }
    }

    fn carry_from(&self, connection: UnixStream) -> Result<(), Problem> {
        let mut lines = BufReader::new(connection);
        if !self.repeat_handshake(&mut lines)? {
            return Ok(());
        }
        self.link.is_up(lines.get_ref());
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            // A line without a newline was cut off when the daemon ended: it is not a response.
            if line.ends_with(b"\n") {
                self.open.answered(&Head::of(&line));
                say(&line)?;
            }
            line.clear();
        }
        self.link.is_down();
        Ok(())
    }

    /// Repeats the client's handshake on a new connection and drops the daemon's response, which the client
    /// has already had. Returns false if the connection was lost.
    fn repeat_handshake(&self, lines: &mut BufReader<UnixStream>) -> Result<bool, Problem> {
        let Some(greeting) = self.open.handshake() else { return Ok(true) };
        if lines.get_mut().write_all(&greeting).is_err() {
            return Ok(false);
        }
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line).unwrap_or(0);
        if read > 0 && Head::of(&line).is_error() {
            return Err(Problem::failed("the restarted daemon refuses the client's handshake"));
        }
        Ok(read > 0 && lines.get_mut().write_all(open_calls::INITIALIZED).is_ok())
    }
}

/// Writes one line to the client and flushes it.
fn say(line: &[u8]) -> Result<(), Problem> {
    let mut out = stdout().lock();
    let said = out.write_all(line).and_then(|()| out.flush());
    // The client has closed its side; that is not a failure.
    said.map_err(|_| Problem::new(Exit::Done, ""))
}
