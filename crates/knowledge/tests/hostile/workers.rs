//! Worker processes for these tests: this very test program, started again. In the daemon they are confined; here only
//! the engine and the killing are under test.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use knowledge::{Started, Workers};
use rustix::process::{WaitId, WaitIdOptions};

const ASKED: &str = "SINEW_TEST_KNOWLEDGE_WORKER";

/// Workers, and what became of their processes.
pub(crate) struct Pool {
    pub(crate) workers: Workers,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    living: Vec<u32>,
    started: usize,
    peak: usize,
}

/// Kills its process when it is dropped, after a look at how large it became.
struct Life {
    child: Child,
    seen: Arc<Mutex<Seen>>,
}

impl Drop for Life {
    fn drop(&mut self) {
        let pid = self.child.id();
        let mut seen = self.seen.lock().unwrap();
        seen.peak = seen.peak.max(peak_of(pid));
        seen.living.retain(|living| *living != pid);
        drop(seen);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn pool() -> Pool {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let shared = Arc::clone(&seen);
    let workers = Workers::new(move || {
        let seen = Arc::clone(&shared);
        Box::pin(async move { start(seen) })
    });
    Pool { workers, seen }
}

fn start(seen: Arc<Mutex<Seen>>) -> io::Result<Started> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    // Its own output is the test runner's; it answers on the socket that is its standard input.
    command.args(["--exact", "workers::a_worker_serves_until_nobody_asks", "--nocapture"]).env(ASKED, "1");
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    let mut counts = seen.lock().unwrap();
    counts.started += 1;
    counts.living.push(child.id());
    drop(counts);
    ours.set_nonblocking(true)?;
    let (from, to) = tokio::net::UnixStream::from_std(ours)?.into_split();
    Ok(Started { from: Box::new(from), to: Box::new(to), life: Box::new(Life { child, seen }) })
}

impl Pool {
    pub(crate) fn started(&self) -> usize {
        self.seen.lock().unwrap().started
    }

    pub(crate) fn alive(&self) -> usize {
        self.seen.lock().unwrap().living.len()
    }

    /// As a fault of the engine would.
    pub(crate) fn kill_all(&self) {
        for pid in self.seen.lock().unwrap().living.clone() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            // Until it is gone, and still there for whoever reaps it: a signal takes its time.
            let (which, ended) = (WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = rustix::process::waitid(which, ended);
        }
    }

    /// In KiB; the living are looked at too.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_of_those_that_end(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.living.iter().map(|pid| peak_of(*pid)).fold(seen.peak, usize::max)
    }
}

fn peak_of(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// A text that ends the worker that is asked to run it, as a fault of the engine would.
pub(crate) const CRASH: &str = "'end this worker'";

/// What a worker hears, until it hears that.
struct Fragile {
    from: UnixStream,
    heard: Vec<u8>,
}

impl io::Read for Fragile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.heard.extend(bytes.get(..read).unwrap_or_default());
        if self.heard.windows(CRASH.len()).any(|heard| heard == CRASH.as_bytes()) {
            std::process::exit(1);
        }
        Ok(read)
    }
}

/// The worker itself, when it is asked to be one; else the smallest conversation with one.
#[test]
fn a_worker_serves_until_nobody_asks() {
    if std::env::var_os(ASKED).is_some() {
        let socket = rustix::io::dup(rustix::stdio::stdin()).unwrap();
        let socket = UnixStream::from(socket);
        let fragile = Fragile { from: socket.try_clone().unwrap(), heard: Vec::new() };
        let _ = knowledge::serve(fragile, socket);
        std::process::exit(0);
    }
    let mut said = Vec::new();
    knowledge::serve(io::empty(), &mut said).unwrap();
    assert!(said.ends_with(b"\"Ready\""), "{said:?}");
}
