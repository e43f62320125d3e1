//! Errors of system calls, injected into a running process.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::left_out;

/// `strace` attached to all threads of a process. The errors end with it.
pub struct Strace(Child);

impl Strace {
    /// Lets a system call of that process fail with this error from now on: every call, or only calls on the
    /// given files. Reports why and returns `None` where that is not possible.
    pub fn inject(process: Pid, call: &str, error: &str, only: &[PathBuf]) -> Option<Strace> {
        Strace::attach(process, call, &format!("error={error}"), only)
    }

    /// Delays every such call of that process by this time.
    pub fn delay(process: Pid, call: &str, time: Duration) -> Option<Strace> {
        Strace::attach(process, call, &format!("delay_enter={}", time.as_micros()), &[])
    }

    fn attach(process: Pid, call: &str, what: &str, only: &[PathBuf]) -> Option<Strace> {
        let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{what}"));
        let mut words = vec!["-e", &trace, "-e", &inject];
        for path in only {
            words.extend(["-P", path.to_str().expect("a path of a test")]);
        }
        Strace::attach_with(process, &words, Path::new("/dev/null"))
    }

    /// Attaches to that process with these options; the calls are listed in `log`.
    pub fn attach_with(process: Pid, words: &[&str], log: &Path) -> Option<Strace> {
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o"]).arg(log).args(words).args(["-p", &process.to_string()]);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let Ok(child) = spawned else {
            left_out("there is no strace here: install it, for example with `apt-get install strace`");
            return None;
        };
        let mut strace = Strace(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_traced(process) {
            if strace.0.try_wait().expect("ask for strace").is_some() {
                left_out("strace may not attach to a process here");
                return None;
            }
            assert!(Instant::now() < deadline, "strace does not attach");
            std::thread::sleep(Duration::from_millis(2));
        }
        Some(strace)
    }

    /// Returns a command that runs `program` under `strace` with these options, from its first system call. The process
    /// of the command is that of the program; the calls are listed in `log`.
    pub fn command(program: &Command, words: &[&str], log: &Path) -> Option<Command> {
        let probe = Command::new("strace").args(["-D", "-qq", "-o", "/dev/null", "true"]).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            left_out(
                "strace cannot start a process here: install it, for example with `apt-get install strace`",
            );
            return None;
        }
        let mut command = Command::new("strace");
        // -D: the tracer is a grandchild, so that it does not stand between the program and its parent.
        command.args(["-D", "-f", "-qq", "-o"]).arg(log).args(words).arg(program.get_program());
        command.env_clear();
        let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.envs(set);
        Some(command)
    }

    /// Detaches from the process.
    pub fn stop(mut self) {
        let pid = Pid::from_raw(i32::try_from(self.0.id()).expect("a process id"));
        kill(pid, Signal::SIGTERM).expect("strace is ours");
        let deadline = Instant::now() + Duration::from_secs(2);
        while self.0.try_wait().expect("ask for strace").is_none() {
            if Instant::now() > deadline {
                // It waits for ever to detach from a thread that waits for its vfork child, which is stopped.
                // The kernel detaches for a tracer that is killed.
                self.0.kill().expect("strace is ours");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
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
