//! A line at the bottom of the terminal that shows what a command waits for, and for how long. Without a terminal on
//! standard error there is none.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{DIM_STYLE, paint, terminal_size};
use crate::text_layout::display_width;
use crate::units;

/// Time before the line appears: most commands are done by then.
const DELAY: Duration = Duration::from_millis(300);
const INTERVAL: Duration = Duration::from_millis(100);
const FRAMES: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
const BAR_WIDTH: usize = 20;
/// Moves to the start of the line and erases it.
const ERASE: &str = "\r\u{1b}[2K";

/// The line of this process, shared by its drawing thread and by everything that prints.
static STATE: Mutex<LiveState> = Mutex::new(LiveState { text: String::new(), is_drawn: false, paused: 0 });

struct LiveState {
    text: String,
    is_drawn: bool,
    /// Number of prompts that are open. None of them is drawn over.
    paused: usize,
}

fn state() -> MutexGuard<'static, LiveState> {
    // The state is consistent after every statement, so a panic elsewhere cannot have broken it.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Guard of the live line, which is erased when it is dropped.
pub(crate) struct LiveLine {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl LiveLine {
    /// Shows `text`, preceded by a moving sign and followed by the elapsed time.
    pub(crate) fn start(text: impl Into<String>) -> LiveLine {
        state().text = text.into();
        if !io::stderr().is_terminal() {
            return LiveLine { thread: None };
        }
        let (stop, stopped) = mpsc::channel();
        let spawned = std::thread::Builder::new().name("live line".to_owned()).spawn(move || {
            let started = Instant::now();
            let mut wait = DELAY;
            for frame in FRAMES.iter().cycle() {
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                wait = INTERVAL;
                draw(frame, started.elapsed());
            }
        });
        LiveLine { thread: spawned.ok().map(|thread| (stop, thread)) }
    }

    /// Replaces the text of the line.
    pub(crate) fn set_text(text: impl Into<String>) {
        state().text = text.into();
    }

    /// Replaces the text of the line by a bar of the work that is done.
    pub(crate) fn set_progress(label: &str, done: u64, total: u64) {
        state().text = bar(label, done, total);
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
        erase(&mut state());
    }
}

fn bar(label: &str, done: u64, total: u64) -> String {
    let share = u128::from(done.min(total)) * 100 / u128::from(total.max(1));
    let percent = usize::try_from(share).unwrap_or(100);
    let filled = percent * BAR_WIDTH / 100;
    format!("{label} {}{} {percent} %", "█".repeat(filled), "░".repeat(BAR_WIDTH - filled))
}

fn draw(frame: &str, elapsed: Duration) {
    let mut state = state();
    if state.paused > 0 {
        return;
    }
    let width = terminal_size(&io::stderr()).map_or(80, |(columns, _)| columns);
    let text = format!("{frame} {} · {}", units::span(elapsed.as_secs()), state.text);
    let shown = leading_parts(&text, width.saturating_sub(1));
    let _ =
        write!(anstream::stderr(), "{ERASE}{}", paint(DIM_STYLE, shown)).and_then(|()| io::stderr().flush());
    state.is_drawn = true;
}

/// Returns the parts of a line, which ` · ` separates, that fit. The line must not wrap, or it could not be erased.
fn leading_parts(text: &str, width: usize) -> String {
    let mut shown = String::new();
    for part in text.split(" · ") {
        let longer = if shown.is_empty() { part.to_owned() } else { format!("{shown} · {part}") };
        if display_width(&longer) > width {
            break;
        }
        shown = longer;
    }
    shown
}

fn erase(state: &mut LiveState) {
    if std::mem::take(&mut state.is_drawn) {
        let _ = write!(io::stderr(), "{ERASE}").and_then(|()| io::stderr().flush());
    }
}

/// Prints something while no live line is in its way.
pub(super) fn write_above<T>(write: impl FnOnce() -> T) -> T {
    let mut state = state();
    erase(&mut state);
    write()
}

/// Guard that keeps the live line away while a prompt is open.
pub(crate) struct LivePause(());

/// Erases the live line until the guard is dropped.
pub(crate) fn pause() -> LivePause {
    let mut state = state();
    erase(&mut state);
    state.paused += 1;
    LivePause(())
}

impl Drop for LivePause {
    fn drop(&mut self) {
        state().paused -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_keeps_whole_parts() {
        let check =
            |width, expect: &str| assert_eq!(leading_parts("⠋ 2 s · a call waits · Ctrl-C", width), expect);
        check(80, "⠋ 2 s · a call waits · Ctrl-C");
        check(25, "⠋ 2 s · a call waits");
        check(10, "⠋ 2 s");
    }

    #[test]
    fn bar_is_filled_by_the_share_that_is_done() {
        assert_eq!(bar("verify", 0, 0), format!("verify {} 0 %", "░".repeat(20)));
        assert_eq!(bar("verify", 1, 2), format!("verify {}{} 50 %", "█".repeat(10), "░".repeat(10)));
        assert_eq!(bar("verify", 9, 2), format!("verify {} 100 %", "█".repeat(20)));
    }
}
