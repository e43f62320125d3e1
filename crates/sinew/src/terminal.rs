//! Terminal output: optional colours, lines that break between words, and no control characters from external text.

mod live_line;
mod pager;

use std::io::{self, BufRead, ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
pub(crate) use live_line::{LiveLine, pause};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{FlushArg, tcflush};
pub(crate) use pager::paged;
pub(crate) use tool::text::{escape_invisible, escape_invisible_line};

use crate::exit::CommandError;
use crate::text_layout::wrap;

/// Indentation of the continuation lines of a wrapped line.
const HANGING: usize = 2;
/// Narrower terminals do not exist; a smaller number means that the size is unknown.
const MIN_WIDTH: u16 = 20;

/// Green, for success.
pub(crate) const SUCCESS_STYLE: Style = AnsiColor::Green.on_default();
/// Red, for errors.
pub(crate) const ERROR_STYLE: Style = AnsiColor::Red.on_default();
/// Yellow, for warnings.
pub(crate) const WARNING_STYLE: Style = AnsiColor::Yellow.on_default();
/// Bold, for headings.
pub(crate) const HEADING_STYLE: Style = Style::new().bold();
/// Dim, for secondary information.
pub(crate) const DIM_STYLE: Style = Style::new().dimmed();

/// Returns the size of the terminal behind a stream: columns and rows. `None` if it is no terminal, or its size is unknown.
fn terminal_size(stream: &(impl IsTerminal + AsFd)) -> Option<(usize, usize)> {
    let size = stream.is_terminal().then(|| rustix::termios::tcgetwinsize(stream).ok())??;
    (size.ws_col >= MIN_WIDTH).then_some((usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// Returns the width of the terminal that shows standard output, if there is one.
pub(crate) fn stdout_width() -> Option<usize> {
    terminal_size(&io::stdout()).map(|(columns, _)| columns)
}

/// Breaks lines between words if they exceed the width of a terminal.
fn fit(text: &str, width: Option<usize>) -> String {
    width.map_or_else(|| text.to_owned(), |width| wrap(text, width, HANGING).join("\n"))
}

/// Formats text in a style.
pub(crate) fn paint(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Prints a line of results to standard output. If the reader has closed it, the command ends quietly.
pub(crate) fn print_result_line(line: impl std::fmt::Display) -> Result<(), CommandError> {
    print_whole_line(fit(&line.to_string(), stdout_width()))
}

/// Prints a line that is not broken on a terminal: JSON, or a row of a table that fits already.
pub(crate) fn print_whole_line(line: impl std::fmt::Display) -> Result<(), CommandError> {
    let text = format!("{line}\n");
    if pager::collect(&text) {
        return Ok(());
    }
    live_line::write_above(|| anstream::stdout().write_all(text.as_bytes()))
        .map_err(|error| stdout_error(&error))
}

/// Converts a write error of standard output into a command error.
pub(crate) fn stdout_error(error: &io::Error) -> CommandError {
    match error.kind() {
        ErrorKind::BrokenPipe => CommandError::output_closed(),
        _ => CommandError::failed(format!("standard output cannot be written: {error}")),
    }
}

/// Waits before the next output. Ends the command if the reader closes standard output meanwhile: a quiet
/// source would not notice it by writing.
pub(crate) fn wait_for_more(pause: Duration) -> Result<(), CommandError> {
    let until = Instant::now() + pause;
    let out = io::stdout();
    // POLLRDBAND never occurs on an output; errors and hang-ups are always reported.
    let mut watched = [PollFd::new(out.as_fd(), PollFlags::POLLRDBAND)];
    let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
    let _ = poll(&mut watched, PollTimeout::try_from(pause).unwrap_or(PollTimeout::MAX));
    let [stdout] = watched;
    if stdout.revents().is_some_and(|events| events.intersects(gone)) {
        return Err(CommandError::output_closed());
    }
    std::thread::sleep(until.saturating_duration_since(Instant::now()));
    Ok(())
}

/// Prints a message to standard error. Write errors are ignored.
pub(crate) fn print_message(line: impl std::fmt::Display) {
    let text =
        format!("{}\n", fit(&line.to_string(), terminal_size(&io::stderr()).map(|(columns, _)| columns)));
    if io::stderr().is_terminal() && pager::collect(&text) {
        return;
    }
    let _ = live_line::write_above(|| anstream::stderr().write_all(text.as_bytes()));
}

/// Prints a warning to standard error.
pub(crate) fn print_warning(line: impl std::fmt::Display) {
    print_message(paint(WARNING_STYLE, line));
}

/// Returns true if a person can answer a prompt.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks for confirmation on the terminal. Any answer except `y` or `yes` means no.
pub(crate) fn confirm(question: &str) -> bool {
    // Discards input typed before the prompt was shown.
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    let _paused = pause();
    let mut out = anstream::stderr();
    let asked = write!(out, "{question} [y/N] ").and_then(|()| out.flush());
    let mut line = String::new();
    let read = asked.and_then(|()| io::stdin().lock().read_line(&mut line));
    read.is_ok() && ["y", "yes"].contains(&line.trim().to_lowercase().as_str())
}

/// Prints external text: unchanged into a pipe, with control characters escaped on a terminal.
pub(crate) fn print_external_text(text: &str) -> Result<(), CommandError> {
    let mut out = io::stdout().lock();
    let mut shown = if out.is_terminal() { escape_invisible(text) } else { text.to_owned() };
    if !shown.ends_with('\n') && out.is_terminal() {
        shown.push('\n');
    }
    if pager::collect(&shown) {
        return Ok(());
    }
    out.write_all(shown.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_error(&error))
}
