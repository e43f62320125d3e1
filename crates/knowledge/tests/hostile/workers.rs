//! Worker processes for these tests: this test program, started again. In the daemon they are sandboxed; here
//! only the engine and the killing of workers are tested.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use knowledge::{StartedWorker, WorkerPool};
use rustix::process::{WaitId, WaitIdOptions};

const WORKER_VARIABLE: &str = "SINEW_TEST_KNOWLEDGE_WORKER";

/// Worker pool with statistics about its processes.
pub(crate) struct TestWorkerPool {
    pub(crate) workers: WorkerPool,
    seen: Arc<Mutex<ProcessStatistics>>,
}

#[derive(Default)]
struct ProcessStatistics {
    living: Vec<u32>,
    started: usize,
    peak: usize,
}

/// Kills its process when dropped, and records its peak memory.
struct TestWorkerGuard {
    child: Child,
    seen: Arc<Mutex<ProcessStatistics>>,
}

impl Drop for TestWorkerGuard {
    fn drop(&mut self) {
        let pid = self.child.id();
        let mut seen = self.seen.lock().unwrap();
        seen.peak = seen.peak.max(peak_memory_of(pid));
        seen.living.retain(|living| *living != pid);
        drop(seen);
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

pub(crate) fn pool() -> TestWorkerPool {
    let seen = Arc::new(Mutex::new(ProcessStatistics::default()));
    let shared = Arc::clone(&seen);
    let workers = WorkerPool::new(move || {
        let seen = Arc::clone(&shared);
        Box::pin(async move { start(seen) })
    });
    TestWorkerPool { workers, seen }
}

fn start(seen: Arc<Mutex<ProcessStatistics>>) -> io::Result<StartedWorker> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(std::env::current_exe()?);
    // Its standard output belongs to the test runner; it answers on the socket that is its standard input.
    command
        .args(["--exact", "workers::worker_serves_until_the_connection_closes", "--nocapture"])
        .env(WORKER_VARIABLE, "1");
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn()?;
    let mut counts = seen.lock().unwrap();
    counts.started += 1;
    counts.living.push(child.id());
    drop(counts);
    ours.set_nonblocking(true)?;
    let (from, to) = tokio::net::UnixStream::from_std(ours)?.into_split();
    Ok(StartedWorker {
        from: Box::new(from),
        to: Box::new(to),
        kill_guard: Box::new(TestWorkerGuard { child, seen }),
    })
}

impl TestWorkerPool {
    pub(crate) fn started(&self) -> usize {
        self.seen.lock().unwrap().started
    }

    pub(crate) fn alive(&self) -> usize {
        self.seen.lock().unwrap().living.len()
    }

    /// Kills all workers, as a crash of the engine would.
    pub(crate) fn kill_all(&self) {
        for pid in self.seen.lock().unwrap().living.clone() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            // Waits for the exit without reaping, because the signal takes effect asynchronously.
            let (which, ended) = (WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let _ = rustix::process::waitid(which, ended);
        }
    }

    /// Returns the peak memory in KiB, including live workers.
    #[cfg(target_os = "linux")]
    pub(crate) fn peak_memory(&self) -> usize {
        let seen = self.seen.lock().unwrap();
        seen.living.iter().map(|pid| peak_memory_of(*pid)).fold(seen.peak, usize::max)
    }
}

fn peak_memory_of(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// Script that ends the worker that runs it, as a crash of the engine would.
pub(crate) const CRASH: &str = "'end this worker'";

/// Input of a worker, which exits when it receives `CRASH`.
struct CrashingReader {
    from: UnixStream,
    received: Vec<u8>,
}

impl io::Read for CrashingReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(bytes)?;
        self.received.extend(bytes.get(..read).unwrap_or_default());
        if self.received.windows(CRASH.len()).any(|received| received == CRASH.as_bytes()) {
            std::process::exit(1);
        }
        Ok(read)
    }
}

/// Runs as a worker if the environment variable is set; otherwise tests a connection that closes at once.
#[test]
fn worker_serves_until_the_connection_closes() {
    if std::env::var_os(WORKER_VARIABLE).is_some() {
        let socket = rustix::io::dup(rustix::stdio::stdin()).unwrap();
        let socket = UnixStream::from(socket);
        let fragile = CrashingReader { from: socket.try_clone().unwrap(), received: Vec::new() };
        let _ = knowledge::serve(fragile, socket);
        std::process::exit(0);
    }
    let mut text = Vec::new();
    knowledge::serve(io::empty(), &mut text).unwrap();
    assert!(text.ends_with(b"\"Ready\""), "{text:?}");
}
