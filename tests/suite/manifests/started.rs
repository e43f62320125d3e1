//! A server in Python that a test starts, in an interpreter that has what it needs.

use std::io::{BufRead, BufReader, ErrorKind};
use std::process::{Child, Command, Stdio};

/// A server that ends when nobody has its standard input any more. It may run as somebody this test is no longer, and could
/// not be killed.
pub(super) struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

impl Started {
    /// Starts a script of this folder, which says at which port it listens. Says why, where it cannot.
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
            // Another test of this process has given up being who could.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return left_out(&error.to_string()),
            started => started.expect("start the server"),
        };
        let mut started = Started(started);
        let mut port = String::new();
        // It listened before it said where: a call that comes early waits in its queue.
        BufReader::new(started.0.stdout.take()?).read_line(&mut port).expect("its port");
        match port.trim() {
            "" => left_out("this Python has no such server"),
            port => Some((started, port.to_owned())),
        }
    }
}
