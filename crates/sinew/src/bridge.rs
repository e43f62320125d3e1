//! Standard input and output, joined to the daemon's agent socket line by line.
//!
//! The bridge outlives the daemon. When the connection breaks, whoever waits for an answer is told that none will come
//! (nothing is sent twice: the call may have run), a new connection is made, and the handshake of the client is said
//! again there, so that the client need not know.

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

/// What is done where no daemon runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemons {
    /// One is started.
    Started,
    /// One is waited for.
    Awaited,
}

/// Both directions share it.
struct Bridge {
    link: Link,
    open: OpenCalls,
}

/// Carries lines until the client has said all it will and has its answers, or no daemon can be had.
pub(crate) fn run(setting: Setting, daemons: Daemons) -> Result<(), Problem> {
    let bridge = Arc::new(Bridge { link: Link::new(setting, daemons), open: OpenCalls::default() });
    let first = bridge.link.connect(Duration::ZERO)?;
    let outward = Arc::clone(&bridge);
    // Ends with the process: a client that never closes its side must not keep a bridge without a daemon.
    std::thread::spawn(move || outward.carry_out());
    bridge.carry_in(first)
}

impl Bridge {
    /// The client's lines, to the daemon.
    fn carry_out(&self) {
        let mut lines = BufReader::new(stdin().lock());
        let mut line = Vec::new();
        while matches!(lines.read_until(b'\n', &mut line), Ok(read) if read > 0) {
            self.send(&line);
            line.clear();
        }
        self.link.finish();
    }

    /// Sends a line as soon as there is a way, and on no second one: what it asks for may have been done.
    fn send(&self, line: &[u8]) {
        let (way, head) = (self.link.way(), Head::of_client(line));
        // Before it is sent: the answer may be there at once.
        self.open.note(&head, line);
        if (&*way).write_all(line).is_err() {
            // The other direction may have given up what was open before this was.
            let unanswered = head.asks().and_then(|id| self.open.give_up_one(id));
            unanswered.iter().for_each(|answer| drop(say(answer)));
        }
    }

    /// The daemon's lines, to the client, from one connection after the other.
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
            // Without its end it was cut off by the daemon's death: nobody was answered.
            if line.ends_with(b"\n") {
                self.open.answered(&Head::of(&line));
                say(&line)?;
            }
            line.clear();
        }
        self.link.is_down();
        Ok(())
    }

    /// Says to a new daemon what the client said to the first; its answer is not news. Whether the daemon is still
    /// there.
    fn repeat_handshake(&self, lines: &mut BufReader<UnixStream>) -> Result<bool, Problem> {
        let Some(greeting) = self.open.handshake() else { return Ok(true) };
        if lines.get_mut().write_all(&greeting).is_err() {
            return Ok(false);
        }
        let mut line = Vec::new();
        let read = lines.read_until(b'\n', &mut line).unwrap_or(0);
        if read > 0 && Head::of(&line).is_error() {
            return Err(Problem::new(
                Exit::Failed,
                "the daemon that came after the first refuses the handshake",
            ));
        }
        Ok(read > 0 && lines.get_mut().write_all(open_calls::INITIALIZED).is_ok())
    }
}

/// One line to the client, at once.
fn say(line: &[u8]) -> Result<(), Problem> {
    let mut out = stdout().lock();
    let said = out.write_all(line).and_then(|()| out.flush());
    // A client that left wants nothing more, and that is no failure.
    said.map_err(|_| Problem::new(Exit::Done, ""))
}
