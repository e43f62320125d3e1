//! Python server that a test starts, in an interpreter that has the required packages.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Command, Stdio};

/// Server process that ends when its standard input is closed. It may run as another user than this test does
/// by now, so it could not be killed.
pub(super) struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Started {
    /// Starts a script of this folder and returns it with the port it reports. Prints the reason if it
    /// cannot.
    pub(super) fn script(interpreter: &str, name: &str) -> Option<(Started, String)> {
        let left_out = |why: &str| {
            println!("left out: {why}");
            None
        };
        let Ok(python) = std::env::var(interpreter) else { return left_out(&format!("no {interpreter}")) };
        let script = format!("{}/suite/manifests/{name}", env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(python);
        let started =
            command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let started = match started {
            // Another test of this process has already dropped the privileges to start it.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return left_out(&error.to_string()),
            started => started.expect("start the server"),
        };
        let mut started = Started(started);
        let mut port = String::new();
        // The script listens before it reports the port, so an early connection waits in the backlog.
        BufReader::new(started.0.stdout.take()?).read_line(&mut port).expect("its port");
        match port.trim() {
            "" => left_out("this Python has no such server"),
            port => Some((started, port.to_owned())),
        }
    }
}
