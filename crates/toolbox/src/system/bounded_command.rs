//! Runs a program of the system by its absolute path, with fixed arguments, an empty environment, and limits
//! on time and output. A caller's value is never an argument of its own.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Output of a program.
pub(super) struct ProgramOutput {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// True if it exited with code 0 before any limit was reached.
    pub(super) succeeded: bool,
    /// Limit that ended it, if one did.
    pub(super) exceeded_limit: Option<ExceededLimit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    Time,
    Bytes,
}

/// Bytes kept of stderr.
const MAX_STDERR_BYTES: u64 = 8 * 1024;
/// Interval at which a program without output is checked for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the program. An error means that it could not be started.
pub(super) fn run(
    program: &str,
    arguments: &[OsString],
    timeout: Duration,
    max_bytes: usize,
) -> std::io::Result<ProgramOutput> {
    let deadline = Instant::now() + timeout;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdout_pipe, stderr_pipe) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    // The thread stays behind if a descendant keeps the pipe open; it ends when the pipe closes.
    thread::spawn(move || {
        let mut bytes_read = Vec::new();
        let _ = stdout_pipe.map(|pipe| pipe.take(max_bytes as u64 + 1).read_to_end(&mut bytes_read));
        let _ = sender.send(bytes_read);
    });
    let (other, complaints) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes_read = Vec::new();
        let _ = stderr_pipe.map(|pipe| pipe.take(MAX_STDERR_BYTES).read_to_end(&mut bytes_read));
        let _ = other.send(bytes_read);
    });
    let stdout = receiver.recv_timeout(timeout);
    let mut cut = match &stdout {
        Ok(bytes_read) => (bytes_read.len() > max_bytes).then_some(ExceededLimit::Bytes),
        Err(_) => Some(ExceededLimit::Time),
    };
    let succeeded = loop {
        match child.try_wait()? {
            Some(status) => break status.success(),
            None if cut.is_none() && Instant::now() < deadline => thread::sleep(POLL_INTERVAL),
            None => {
                cut = cut.or(Some(ExceededLimit::Time));
                let _ = child.kill();
                let _ = child.wait();
                break false;
            }
        }
    };
    // Killing the program closes its pipe, so the reader thread delivers the output so far.
    let mut stdout =
        stdout.or_else(|_| receiver.recv_timeout(Duration::from_millis(200))).unwrap_or_default();
    stdout.truncate(max_bytes);
    let stderr = complaints.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
    Ok(ProgramOutput {
        stdout,
        stderr: String::from_utf8_lossy(&stderr).into_owned(),
        succeeded,
        exceeded_limit: cut,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, timeout: Duration, max_bytes: usize) -> ProgramOutput {
        run("/bin/sh", &["-c".into(), script.into()], timeout, max_bytes).unwrap()
    }

    #[test]
    fn program_is_limited_in_time_and_output() {
        let patient = Duration::from_secs(20);
        let output = sh("echo out; echo err >&2; exit 3", patient, 100);
        assert_eq!((output.stdout.as_slice(), output.stderr.as_str()), (b"out\n".as_slice(), "err\n"));
        assert_eq!((output.succeeded, output.exceeded_limit), (false, None));
        let output = sh("yes", patient, 10);
        assert_eq!(
            (output.stdout.len(), output.exceeded_limit),
            (10, Some(ExceededLimit::Bytes)),
            "endless output is cut"
        );
        let began = Instant::now();
        let output = sh("echo first; exec sleep 60", Duration::from_secs(3), 100);
        assert_eq!(
            (output.stdout.as_slice(), output.exceeded_limit),
            (b"first\n".as_slice(), Some(ExceededLimit::Time))
        );
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(sh("test -z \"$HOME$SHELL$USER\"", patient, 10).succeeded, "environment is not inherited");
        assert!(run("/no/such/program", &[], patient, 10).is_err());
    }
}
