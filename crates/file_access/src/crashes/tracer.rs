//! A child process with one thread traced by `strace` from a known point on, and the evaluation of the trace.
//! Only that thread is counted, so that the nth call of a kind is always the same one.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use super::change::{CHANGE_ENV, TestedChange};
use crate::testing::WorkspaceFixture;

/// Missing files whose lookups mark the beginning and the end of the change in the trace.
const BEGIN_MARKER: &str = "/resources-test-begins";
const END_MARKER: &str = "/resources-test-ends";

/// Calls that do not change the disk. Every call not listed here gets faults.
const READ_ONLY_CALLS: &[&str] = &[
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
pub(super) struct TracedRun {
    /// Exit code; `None` if it was killed.
    pub(super) code: Option<i32>,
    pub(super) log: String,
}

impl TracedRun {
    /// Returns the calls of the change itself, one per line.
    pub(super) fn change_calls(&self) -> impl Iterator<Item = &str> {
        let begun = self.log.split_once(BEGIN_MARKER).map_or("", |(_, rest)| rest);
        begun.split(END_MARKER).next().unwrap_or_default().lines().skip(1)
    }

    /// Returns how often the change makes each call that touches the disk.
    pub(super) fn disk_calls(&self) -> BTreeMap<String, usize> {
        let mut steps = BTreeMap::new();
        let names =
            self.change_calls().filter_map(syscall_name).filter(|name| !READ_ONLY_CALLS.contains(name));
        names.for_each(|name| *steps.entry(name.to_owned()).or_default() += 1);
        steps
    }

    /// Returns how often the thread makes a call in total.
    pub(super) fn count(&self, call: &str) -> usize {
        self.log.lines().filter(|line| syscall_name(line) == Some(call)).count()
    }

    /// Returns true if the fault hit the change. A killed process has no exit code.
    pub(super) fn hit_fault(&self) -> bool {
        let is_under_way = self.log.contains(BEGIN_MARKER) && !self.log.contains(END_MARKER);
        (is_under_way && self.code.is_none()) || self.change_calls().any(|line| line.contains("(INJECTED)"))
    }
}

/// Returns the name of the call on a line.
pub(super) fn syscall_name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once('(')?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
        .then_some(name)
}

/// Waits in the child process until the parent has attached a tracer to this thread.
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
pub(super) fn with_markers<T>(what: impl FnOnce() -> T) -> T {
    let _ = fs::metadata(BEGIN_MARKER);
    let done = what();
    let _ = fs::metadata(END_MARKER);
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
pub(super) fn run_traced(
    fixture: &WorkspaceFixture,
    change: TestedChange,
    inject: Option<&str>,
) -> TracedRun {
    let mut command = fixture.child_command(&[], "crashes::one_change");
    command
        .env(CHANGE_ENV, format!("{change:?}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut text = BufReader::new(child.stdout.take().unwrap());
    let thread = loop {
        let mut line = String::new();
        assert!(text.read_line(&mut line).unwrap() > 0, "the child is not ready");
        if let Some(thread) = line.strip_prefix("ready ") {
            break thread.trim().to_owned();
        }
    };
    let log = fixture.path("trace");
    let mut tracer = attach(&thread, log.to_str().unwrap(), inject);
    drop(child.stdin.take());
    let code = child.wait().unwrap().code();
    drop(text);
    tracer.wait().unwrap();
    TracedRun { code, log: fs::read_to_string(log).unwrap() }
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
    let mut text = BufReader::new(tracer.stderr.take().unwrap());
    let mut line = String::new();
    text.read_line(&mut line).unwrap();
    assert!(line.contains("attached"), "{line}");
    // Drain stderr, so that the tracer never blocks on a full pipe.
    std::thread::spawn(move || std::io::copy(&mut text, &mut std::io::sink()));
    tracer
}
