//! A program of the system that is asked something: by its whole path, with words of ours, an environment made from
//! nothing, and bounds on its time and its output. Nothing a caller says is ever a word of its own here.

use std::ffi::OsString;
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// What a program said.
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
    /// Whether it ended well by itself.
    pub(super) ended_well: bool,
    /// Which bound ended it.
    pub(super) cut: Option<Cut>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    Time,
    Bytes,
}

/// What is kept of complaints.
const MOST_COMPLAINTS: u64 = 8 * 1024;
/// How often it is looked whether a silent program has ended.
const GLANCE: Duration = Duration::from_millis(5);

/// Runs it. An error means that it could not be started.
pub(super) fn run(program: &str, words: &[OsString], time: Duration, bytes: usize) -> std::io::Result<Said> {
    let deadline = Instant::now() + time;
    let mut command = Command::new(program);
    command.args(words).env_clear().env("PATH", "/usr/bin:/bin").env("LC_ALL", "C");
    command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (said, complained) = (child.stdout.take(), child.stderr.take());
    let (sender, receiver) = mpsc::channel();
    // Left behind if a descendant holds the pipe; it ends with that.
    thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = said.map(|pipe| pipe.take(bytes as u64 + 1).read_to_end(&mut kept));
        let _ = sender.send(kept);
    });
    let (other, complaints) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        let _ = complained.map(|pipe| pipe.take(MOST_COMPLAINTS).read_to_end(&mut kept));
        let _ = other.send(kept);
    });
    let stdout = receiver.recv_timeout(time);
    let mut cut = match &stdout {
        Ok(kept) => (kept.len() > bytes).then_some(Cut::Bytes),
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
    // Once it was ended its pipe is closed, and what it wrote until then is there.
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
    fn t241_a_program_has_its_time_and_its_room() {
        let patient = Duration::from_secs(20);
        let said = sh("echo out; echo err >&2; exit 3", patient, 100);
        assert_eq!((said.stdout.as_slice(), said.stderr.as_str()), (b"out\n".as_slice(), "err\n"));
        assert_eq!((said.ended_well, said.cut), (false, None));
        let said = sh("yes", patient, 10);
        assert_eq!((said.stdout.len(), said.cut), (10, Some(Cut::Bytes)), "an endless flow is cut");
        let began = Instant::now();
        let said = sh("echo first; exec sleep 60", Duration::from_secs(3), 100);
        assert_eq!((said.stdout.as_slice(), said.cut), (b"first\n".as_slice(), Some(Cut::Time)));
        assert!(began.elapsed() < Duration::from_secs(30));
        assert!(sh("test -z \"$HOME$SHELL$USER\"", patient, 10).ended_well, "nothing of ours is there");
        assert!(run("/no/such/program", &[], patient, 10).is_err());
    }
}
