//! A child process with one thread traced by `strace` from a known point on, and the evaluation of the trace.
//! Only that thread is counted, so that the nth call of a kind is always the same one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::change::{Change, WHICH};
use crate::testing::World;

/// Missing files whose lookups mark the beginning and the end of the change in the trace.
const BEGINS: &str = "/resources-test-begins";
const ENDS: &str = "/resources-test-ends";

/// Calls that do not change the disk. Every call not listed here gets faults.
const HARMLESS: &[&str] = &[
    "brk",
    "close",
    "faccessat",
    "faccessat2",
    "fcntl",
    "fgetxattr",
    "flistxattr",
    "fstat",
    "fstatfs",
    "futex",
    "getdents64",
    "geteuid",
    "getrandom",
    "getuid",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "pread64",
    "read",
    "readlink",
    "readlinkat",
    "sched_yield",
    "statfs",
    "statx",
];

/// Result of a child process.
pub(super) struct Ran {
    /// Exit code; `None` if it was killed.
    pub(super) code: Option<i32>,
    pub(super) log: String,
}

impl Ran {
    /// Returns the calls of the change itself, one per line.
    pub(super) fn within(&self) -> impl Iterator<Item = &str> {
        let begun = self.log.split_once(BEGINS).map_or("", |(_, rest)| rest);
        begun.split(ENDS).next().unwrap_or_default().lines().skip(1)
    }

    /// Returns how often the change makes each call that touches the disk.
    pub(super) fn steps(&self) -> BTreeMap<String, usize> {
        let mut steps = BTreeMap::new();
        let names = self.within().filter_map(call_of).filter(|name| !HARMLESS.contains(name));
        names.for_each(|name| *steps.entry(name.to_owned()).or_default() += 1);
        steps
    }

    /// Returns how often the thread makes a call in total.
    pub(super) fn count(&self, call: &str) -> usize {
        self.log.lines().filter(|line| call_of(line) == Some(call)).count()
    }

    /// Returns true if the fault hit the change. A killed process has no exit code.
    pub(super) fn was_struck(&self) -> bool {
        let is_under_way = self.log.contains(BEGINS) && !self.log.contains(ENDS);
        (is_under_way && self.code.is_none()) || self.within().any(|line| line.contains("(INJECTED)"))
    }
}

/// Returns the name of the call on a line.
pub(super) fn call_of(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('(')?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .then_some(name)
}

/// In the child: waits until the parent has attached a tracer to this thread.
pub(super) fn wait_for_tracer() {
    // Yama may allow only parents to trace. The tracer is a sibling, so allow any process.
    let _ = rustix::process::set_ptracer(rustix::process::PTracer::Any);
    let thread = fs::read_link("/proc/thread-self").unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nready {}", thread.file_name().unwrap().display()).unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().read(&mut [0]);
}

/// Runs a closure between the two marker lookups.
pub(super) fn marked<T>(what: impl FnOnce() -> T) -> T {
    let _ = fs::metadata(BEGINS);
    let done = what();
    let _ = fs::metadata(ENDS);
    done
}

/// Returns true if `strace` is installed and permitted.
pub(super) fn can_trace() -> bool {
    let may = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    let may = may.is_ok_and(|output| output.status.success());
    if !may {
        ::tests::left_out("no strace to inject faults with");
    }
    may
}

/// Makes a change in a child, with an optional fault.
pub(super) fn traced(world: &World, change: Change, inject: Option<&str>) -> Ran {
    let mut command = world.command(&[], "crashes::one_change");
    command
        .env(WHICH, format!("{change:?}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let thread = loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "the child is not ready");
        if let Some(thread) = line.strip_prefix("ready ") {
            break thread.trim().to_owned();
        }
    };
    let log = world.path("trace");
    let mut tracer = attach(&thread, log.to_str().unwrap(), inject);
    drop(child.stdin.take());
    let code = child.wait().unwrap().code();
    drop(said);
    tracer.wait().unwrap();
    Ran { code, log: fs::read_to_string(log).unwrap() }
}

/// Starts a tracer and waits until it is attached, so that the trace contains every later call.
fn attach(thread: &str, log: &str, inject: Option<&str>) -> Child {
    let mut command = Command::new("strace");
    command.args(["-y", "-s", "256", "-o", log, "-p", thread]);
    if let Some(inject) = inject {
        command.arg("-e").arg(format!("inject={inject}"));
    }
    let mut tracer =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(tracer.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");
    // Drain stderr, so that the tracer never blocks on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    tracer
}
