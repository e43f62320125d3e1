//! Errors of system calls, injected into a running process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// `strace` attached to all threads of a process. The errors end with it.
pub(super) struct Strace(Child);

impl Strace {
    /// Lets a system call of that process fail with this error from now on: every call, or only calls on the
    /// given files. Reports why and returns `None` where that is not possible.
    pub(super) fn inject(process: Pid, call: &str, error: &str, only: &[PathBuf]) -> Option<Strace> {
        Strace::attach(process, call, &format!("error={error}"), only)
    }

    /// Delays every such call of that process by this time.
    pub(super) fn delay(process: Pid, call: &str, time: Duration) -> Option<Strace> {
        Strace::attach(process, call, &format!("delay_enter={}", time.as_micros()), &[])
    }

    fn attach(process: Pid, call: &str, what: &str, only: &[PathBuf]) -> Option<Strace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{what}"), "-p", &process.to_string()]);
        for path in only {
            command.arg("-P").arg(path);
        }
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = spawned else {
            tests::left_out("there is no strace here");
            return None;
        };
        let mut strace = Strace(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_traced(process) {
            if strace.0.try_wait().expect("ask for strace").is_some() {
                tests::left_out("strace may not attach to a process here");
                return None;
            }
            assert!(Instant::now() < deadline, "strace does not attach");
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(strace)
    }

    /// Detaches from the process.
    pub(super) fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("strace is ours");
        self.0.wait().expect("strace ends");
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns true if every thread has a tracer.
fn is_traced(process: Pid) -> bool {
    let threads = Path::new("/proc").join(process.to_string()).join("task");
    let mut threads = std::fs::read_dir(threads).expect("the process lives").flatten();
    threads.all(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
    })
}
