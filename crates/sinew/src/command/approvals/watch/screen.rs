//! Terminal in raw mode on the alternate screen. `Drop` restores the previous state on every exit path.

use std::io::{Stdout, Write, stdout};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, DisableLineWrap, EnableLineWrap, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::terminal_error;
use super::view::WatchView;
use crate::exit::CommandError;

/// Size assumed if the terminal does not report one.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

pub(super) struct WatchScreen {
    out: Stdout,
    /// Lines currently on the screen, so that unchanged lines are not written again.
    lines: Vec<String>,
    /// Size at the last draw. A resize moves the content, so everything is drawn again.
    size: (u16, u16),
}

impl WatchScreen {
    pub(super) fn open() -> Result<WatchScreen, CommandError> {
        let mut screen = WatchScreen { out: stdout(), lines: Vec::new(), size: DEFAULT_SIZE };
        screen.enter()?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, view: &mut WatchView) -> Result<(), CommandError> {
        let size = size().unwrap_or(DEFAULT_SIZE);
        if size != self.size {
            (self.size, self.lines) = (size, Vec::new());
        }
        let (width, height) = size;
        let lines = view.lines(usize::from(width), usize::from(height));
        if lines == self.lines {
            return Ok(());
        }
        self.write_lines(&lines).map_err(|error| terminal_error(&error))?;
        self.lines = lines;
        Ok(())
    }

    /// Clears the screen from the first differing line down and writes the lines from there on, which also
    /// erases overflow of earlier lines.
    fn write_lines(&mut self, lines: &[String]) -> std::io::Result<()> {
        let same = self.lines.iter().zip(lines).take_while(|(old, new)| old == new).count();
        let row = |row: usize| u16::try_from(row).unwrap_or(u16::MAX);
        queue!(self.out, MoveTo(0, row(same)), Clear(ClearType::FromCursorDown))?;
        for (at, line) in lines.iter().enumerate().skip(same) {
            queue!(self.out, MoveTo(0, row(at)), Clear(ClearType::CurrentLine), Print(line))?;
        }
        self.out.flush()
    }

    /// Restores the terminal while `work` runs, for example an editor.
    pub(super) fn suspend<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, CommandError> {
        self.leave();
        let done = work();
        self.enter()?;
        self.lines.clear();
        Ok(done)
    }

    /// Enters raw mode and the alternate screen. Line wrapping is off, so that a line that is too long cannot
    /// cover the line below it.
    fn enter(&mut self) -> Result<(), CommandError> {
        let broken = |error: std::io::Error| terminal_error(&error);
        enable_raw_mode().map_err(broken)?;
        execute!(self.out, EnterAlternateScreen, DisableLineWrap, EnableBracketedPaste, Hide).map_err(broken)
    }

    fn leave(&mut self) {
        let _ = execute!(self.out, DisableBracketedPaste, EnableLineWrap, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

impl Drop for WatchScreen {
    fn drop(&mut self) {
        self.leave();
    }
}
