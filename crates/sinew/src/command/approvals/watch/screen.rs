//! The terminal while it is ours: another screen, no echo; and as it was before, however this ends.

use std::io::{Stdout, Write, stdout};

use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use crossterm::style::Print;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use crossterm::{execute, queue};

use super::broken;
use super::view::View;
use crate::exit::Problem;

/// What is assumed where a terminal does not tell its size.
const USUAL: (u16, u16) = (80, 24);

pub(super) struct Screen {
    out: Stdout,
    /// What is on it, so that only what differs is written.
    lines: Vec<String>,
}

impl Screen {
    pub(super) fn open() -> Result<Screen, Problem> {
        enable_raw_mode().map_err(|error| broken(&error))?;
        let mut screen = Screen { out: stdout(), lines: Vec::new() };
        execute!(screen.out, EnterAlternateScreen, EnableBracketedPaste, Hide)
            .map_err(|error| broken(&error))?;
        Ok(screen)
    }

    pub(super) fn draw(&mut self, view: &mut View) -> Result<(), Problem> {
        let (width, height) = size().unwrap_or(USUAL);
        let lines = view.lines(usize::from(width), usize::from(height));
        if lines == self.lines {
            return Ok(());
        }
        self.put(&lines).map_err(|error| broken(&error))?;
        self.lines = lines;
        Ok(())
    }

    fn put(&mut self, lines: &[String]) -> std::io::Result<()> {
        for (row, line) in lines.iter().enumerate() {
            if self.lines.get(row) != Some(line) {
                let row = u16::try_from(row).unwrap_or(u16::MAX);
                queue!(self.out, MoveTo(0, row), Clear(ClearType::CurrentLine), Print(line))?;
            }
        }
        if self.lines.len() > lines.len() {
            let row = u16::try_from(lines.len()).unwrap_or(u16::MAX);
            queue!(self.out, MoveTo(0, row), Clear(ClearType::FromCursorDown))?;
        }
        self.out.flush()
    }

    /// Gives the terminal back for as long as something else needs it.
    pub(super) fn aside<T>(&mut self, work: impl FnOnce() -> T) -> Result<T, Problem> {
        let _ = execute!(self.out, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
        let done = work();
        enable_raw_mode().map_err(|error| broken(&error))?;
        execute!(self.out, EnterAlternateScreen, EnableBracketedPaste, Hide)
            .map_err(|error| broken(&error))?;
        self.lines.clear();
        Ok(done)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = execute!(self.out, DisableBracketedPaste, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}
