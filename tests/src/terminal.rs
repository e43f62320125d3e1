//! `sinew` at a pseudo-terminal: the bytes a person would see, and the keys they would press.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use nix::pty::{Winsize, openpty};

use crate::{Home, sinew};

/// Timeout for a loaded machine; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Size and environment of a terminal.
pub struct TerminalForm<'a> {
    /// Width.
    pub columns: u16,
    /// Height.
    pub rows: u16,
    /// Variables of the program in it. `SINEW_PAGER` is empty unless it is among them.
    pub variables: &'a [(&'a str, &'a str)],
}

/// A terminal. Its process is killed when it is dropped.
pub struct Terminal {
    keys: File,
    output: Receiver<Vec<u8>>,
    screen: Vec<u8>,
    child: Child,
}

impl Terminal {
    /// Runs `sinew` with these arguments in the workspace of this home, on 100 columns and 40 rows.
    pub fn run(home: &Home, words: &[&str]) -> Terminal {
        Terminal::run_in(&TerminalForm { columns: 100, rows: 40, variables: &[] }, home, words)
    }

    /// Like `run`, in a terminal of this form.
    pub fn run_in(form: &TerminalForm<'_>, home: &Home, words: &[&str]) -> Terminal {
        let size = Winsize { ws_row: form.rows, ws_col: form.columns, ws_xpixel: 0, ws_ypixel: 0 };
        let ends = openpty(Some(&size), None).expect("a terminal");
        let inner = File::from(ends.slave);
        let end = || Stdio::from(inner.try_clone().expect("a handle"));
        let mut command = sinew();
        command.args(words).current_dir(home.workspace()).env("TERM", "xterm-256color");
        command.env("SINEW_HOME", home.root()).env("HOME", home.user_home());
        command.env("SINEW_PAGER", "").envs(form.variables.iter().copied());
        let child = command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("run sinew");
        let keys = File::from(ends.master);
        let mut screen = keys.try_clone().expect("a handle");
        let (sender, pieces) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // The end of the terminal is an error on some systems and an end of file on others.
            while let Ok(read @ 1..) = screen.read(&mut piece) {
                if sender.send(piece[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        drop(inner);
        Terminal { keys, output: pieces, screen: Vec::new(), child }
    }

    /// Presses these keys.
    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Waits until the screen showed this text since the last call, and returns everything it showed.
    pub fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let seen = String::from_utf8_lossy(&self.screen).into_owned();
            if seen.contains(text) {
                self.screen.clear();
                return seen;
            }
            match self.output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(piece) => self.screen.extend(piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("`{text}` was not printed: {seen}")
                }
            }
        }
    }

    /// Waits for the process to exit; returns the exit code and everything shown since the last call.
    pub fn wait_for_exit(self) -> (Option<i32>, String) {
        self.wait_for_exit_after(|_| ())
    }

    /// Like `wait_for_exit`, and declines each question that the process asks.
    pub fn decline_until_exit(self) -> (Option<i32>, String) {
        let mut declined = 0;
        self.wait_for_exit_after(move |terminal| {
            let asked = String::from_utf8_lossy(&terminal.screen).matches("[y/N] ").count();
            if asked > declined {
                declined = asked;
                terminal.press("n\r");
            }
        })
    }

    /// Waits for the process to exit, and runs `react` whenever it may have printed something.
    fn wait_for_exit_after(mut self, mut react: impl FnMut(&mut Terminal)) -> (Option<i32>, String) {
        let deadline = Instant::now() + TIMEOUT;
        let code = loop {
            react(&mut self);
            if let Some(status) = self.child.try_wait().expect("ask for the child") {
                break status.code();
            }
            assert!(Instant::now() < deadline, "it does not exit: {}", String::from_utf8_lossy(&self.screen));
            while let Ok(piece) = self.output.recv_timeout(Duration::from_millis(10)) {
                self.screen.extend(piece);
            }
        };
        while let Ok(piece) = self.output.recv_timeout(Duration::from_millis(200)) {
            self.screen.extend(piece);
        }
        (code, String::from_utf8_lossy(&self.screen).into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
