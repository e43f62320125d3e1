//! Shows long output in a pager, as git does: only on a terminal, and only if it exceeds the screen.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::{stdout_error, terminal_size};
use crate::exit::CommandError;

/// Pager if `SINEW_PAGER` and `PAGER` are not set. Its options pass colours on and leave short output on the screen.
const DEFAULT_PAGER: &str = "less -FRX";

thread_local! {
    /// Output of this command so far, if it is collected for the pager.
    static COLLECTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs a command whose output may be long. On a terminal, the output is shown at its end.
pub(crate) fn paged<T>(work: impl FnOnce() -> Result<T, CommandError>) -> Result<T, CommandError> {
    let Some((_, rows)) = terminal_size(&io::stdout()) else { return work() };
    COLLECTED.set(Some(String::new()));
    let done = work();
    let text = COLLECTED.take().unwrap_or_default();
    show(&text, rows)?;
    done
}

/// Takes text for the pager, and returns false if there is none.
pub(super) fn collect(text: &str) -> bool {
    COLLECTED.with_borrow_mut(|collected| collected.as_mut().map(|all| all.push_str(text)).is_some())
}

fn show(text: &str, rows: usize) -> Result<(), CommandError> {
    let is_long = text.lines().count() >= rows;
    let paged = is_long.then(pager_command).flatten().and_then(|pager| send(pager, text).ok());
    match paged {
        Some(()) => Ok(()),
        None => anstream::stdout().write_all(text.as_bytes()).map_err(|error| stdout_error(&error)),
    }
}

/// Returns the pager of the user. An empty variable, or `cat`, means none.
fn pager_command() -> Option<Vec<String>> {
    let named = ["SINEW_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
    let words: Vec<String> =
        named.as_deref().unwrap_or(DEFAULT_PAGER).split_whitespace().map(str::to_owned).collect();
    words.first().is_some_and(|program| program != "cat").then_some(words)
}

fn send(words: Vec<String>, text: &str) -> io::Result<()> {
    let has_colours = anstream::AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
    let shown = match has_colours {
        true => text.to_owned(),
        false => anstream::adapter::strip_str(text).to_string(),
    };
    let mut words = words.into_iter();
    let mut pager = Command::new(words.next().unwrap_or_default());
    if std::env::var_os("LESS").is_none() {
        pager.env("LESS", "FRX");
    }
    let mut child = pager.args(words).stdin(Stdio::piped()).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // A pager that is left early closes its input.
        let _ = input.write_all(shown.as_bytes());
    }
    child.wait().map(drop)
}
