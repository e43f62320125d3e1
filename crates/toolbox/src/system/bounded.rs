//! Runs a program of the system by its absolute path, with fixed arguments, an empty environment, and limits
//! on time and output. A caller's value is never an argument of its own.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Output of a program.
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// True if it exited with code 0 before any limit was reached.
    pub(super) ended_well: bool,
    /// Limit that ended it, if one did.
    pub(super) cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Time,
    Bytes,
}

/// Bytes kept of stderr.
const MOST_COMPLAINTS: u64 = 8 * 1024;
/// Interval at which a program without output is checked for its end.
const GLANCE: Duration = Duration::from_millis(5);

/// Runs the program. An error means that it could not be started.
pub(super) fn run(program: &str, words: &[OsString], time: Duration, bytes: usize) -> std::io::Result<Said> {
    let deadline = Instant::now() + time;
    let mut command = Command::new(program);
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdout_pipe, stderr_pipe) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    // The thread stays behind if a descendant keeps the pipe open; it ends when the pipe closes.
    thread::spawn(move || {
        let mut bytes_read = Vec::new();
        let _ = stdout_pipe.map(|pipe| pipe.take(bytes as u64 + 1).read_to_end(&mut bytes_read));
        let _ = sender.send(bytes_read);
    });
    let (other, complaints) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes_read = Vec::new();
        let _ = stderr_pipe.map(|pipe| pipe.take(MOST_COMPLAINTS).read_to_end(&mut bytes_read));
        let _ = other.send(bytes_read);
    });
    let stdout = receiver.recv_timeout(time);
    let mut cut = match &stdout {
        Ok(bytes_read) => (bytes_read.len() > bytes).then_some(Cut::Bytes),
        Err(_) => Some(Cut::Time),
    };
    let ended_well = loop {
        match child.try_wait()? {
            Some(status) => break status.success(),
            None if cut.is_none() && Instant::now() < deadline => thread::sleep(GLANCE),
            None => {
                cut = cut.or(Some(Cut::Time));
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    // Killing the program closes its pipe, so the reader thread delivers the output so far.
    let mut stdout =
        stdout.or_else(|_| receiver.recv_timeout(Duration::from_millis(200))).unwrap_or_default();
    stdout.truncate(bytes);
    let stderr = complaints.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
    Ok(Said { stdout, stderr: String::from_utf8_lossy(&stderr).into_owned(), ended_well, cut })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, time: Duration, bytes: usize) -> Said {
        run("/bin/sh", &["-c".into(), script.into()], time, bytes).unwrap()
    }

    #[test]
    fn program_is_limited_in_time_and_output() {
        let patient = Duration::from_secs(20);
        let output = sh("echo out; echo err >&2; exit 3", patient, 100);
        assert_eq!((output.stdout.as_slice(), output.stderr.as_str()), (b"out\n".as_slice(), "err\n"));
        assert_eq!((output.ended_well, output.cut), (false, None));
        let output = sh("yes", patient, 10);
        assert_eq!((output.stdout.len(), output.cut), (10, Some(Cut::Bytes)), "endless output is cut");
        let began = Instant::now();
        let output = sh("echo first; exec sleep 60", Duration::from_secs(3), 100);
        assert_eq!((output.stdout.as_slice(), output.cut), (b"first\n".as_slice(), Some(Cut::Time)));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(sh("test -z \"$HOME$SHELL$USER\"", patient, 10).ended_well, "environment is not inherited");
        assert!(run("/no/such/program", &[], patient, 10).is_err());
    }
}
