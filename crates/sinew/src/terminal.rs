//! What reaches a person's screen: colours where they are wanted, and never a control character from outside.

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
pub(crate) use tool::{visible, visible_line};

use crate::exit::{Exit, Problem};

/// Green, for what went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Red, for what did not.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
/// Yellow, for what deserves a look.
pub(crate) const NOTE: Style = AnsiColor::Yellow.on_default();
/// Bold, for headings.
pub(crate) const STRONG: Style = Style::new().bold();
/// Dim, for what can be skipped.
pub(crate) const QUIET: Style = Style::new().dimmed();

/// Text in a style.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line of results. Once nobody reads them, the command has come to its end: see [`Problem::unheard`].
pub(crate) fn say(line: impl std::fmt::Display) -> Result<(), Problem> {
    writeln!(anstream::stdout(), "{line}").map_err(|error| unwritten(&error))
}

/// Results that could not be written.
pub(crate) fn unwritten(error: &io::Error) -> Problem {
    match error.kind() {
        ErrorKind::BrokenPipe => Problem::unheard(),
        _ => Problem::new(Exit::Failed, format!("standard output cannot be written: {error}")),
    }
}

/// Waits a while for there to be more to say. Ends as [`say`] does when the reader leaves meanwhile: a quiet source
/// would never find out by writing.
pub(crate) fn linger(pause: Duration) -> Result<(), Problem> {
    let until = Instant::now() + pause;
    let out = io::stdout();
    // Of the events one can ask for, the one that no output ever has; errors and hang-ups are reported unasked.
    let mut watched = [PollFd::new(out.as_fd(), PollFlags::POLLRDBAND)];
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    let _ = poll(&mut watched, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX));
    let [stdout] = watched;
    if stdout.revents().is_some_and(|events| events.intersects(gone)) {
        return Err(Problem::unheard());
    }
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    Ok(())
}

/// Prints a line of talk, beside the results. Talk that nobody hears is no reason to end.
pub(crate) fn tell(line: impl std::fmt::Display) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Whether a person can be asked.
pub(crate) fn is_attended() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks on the terminal. Anything but a yes is a no.
pub(crate) fn agrees(question: &str) -> bool {
    // What was typed before there was a question is no answer to it.
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    let mut out = anstream::stderr();
    let asked = write!(out, "{question} [y/N] ").and_then(|()| out.flush());
    let mut line = String::new();
    let read = asked.and_then(|()| io::stdin().lock().read_line(&mut line));
    read.is_ok() && ["y", "yes"].contains(&line.trim().to_lowercase().as_str())
}

/// Writes text from outside: as it is into a pipe, with control characters made visible on a terminal.
pub(crate) fn show_foreign(text: &str) -> Result<(), Problem> {
    let mut out = io::stdout().lock();
    let mut shown = if out.is_terminal() { visible(text) } else { text.to_owned() };
    if !shown.ends_with('\n') && out.is_terminal() {
        shown.push('\n');
    }
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).map_err(|error| unwritten(&error))
}
