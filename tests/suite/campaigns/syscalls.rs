//! Each system call of the daemon fails once at each position, with each error that a faulty or overloaded
//! machine returns. No effect happens without a record, every request gets a reply, and the daemon works
//! again afterwards.
//!
//! `strace` injects the error at the nth such call of each thread.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home, Random, Strace};

use super::{check_ledger, judged_paths};

const ERRORS: [&str; 5] = ["ENOSPC", "EIO", "EMFILE", "EINTR", "ENOMEM"];
/// Calls that are not made to fail: their failure is impossible, or means that a thread does not run.
pub(super) const LEFT_OUT: [&str; 22] = [
    "futex",
    "epoll_wait",
    "epoll_pwait",
    "restart_syscall",
    "rt_sigprocmask",
    "rt_sigaction",
    "rt_sigreturn",
    "sigaltstack",
    "exit",
    "exit_group",
    "close",
    "munmap",
    "mprotect",
    "madvise",
    "sched_yield",
    "sched_getaffinity",
    "clock_nanosleep",
    "set_robust_list",
    "rseq",
    "gettid",
    "getpid",
    "geteuid",
];
/// Cases in one home, whose ledger would become long.
const CASES_PER_HOME: u64 = 40;
/// Positions that are tried, beyond which a call repeats itself.
const MOST_POSITIONS: u64 = 12;
const QUICK_CASES: u64 = 6;
/// Answer time that counts as none at all; below the timeout of the client.
const HANG: Duration = Duration::from_secs(18);

/// One injected error.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) call: String,
    pub(super) position: u64,
    pub(super) error: &'static str,
}

/// Daemon under test, with the calls that it answered.
struct Scene {
    daemon: Daemon,
    log: PathBuf,
    number: u64,
    /// Calls that were answered as done and recorded.
    done: Vec<String>,
}

impl Scene {
    fn new() -> Scene {
        let home = Home::initialised().without_rate_limits().without_automatic_modes();
        home.file("seed.txt", "x");
        let log = home.workspace().with_file_name("strace.log");
        Scene { daemon: Daemon::start_debuggable(home), log, number: 0, done: Vec::new() }
    }

    /// Calls that read, create, change and remove. Each has names of its own.
    fn script(&mut self) -> Vec<(&'static str, Value)> {
        self.number += 1;
        let number = self.number;
        self.daemon.home().file(&format!("old-{number}"), "old");
        let mut calls = vec![
            ("write_file", json!({"path": format!("new-{number}"), "content": "new"})),
            ("read_file", json!({"path": "seed.txt"})),
            (
                "edit_file",
                json!({"path": format!("old-{number}"), "edits": [{"old_text": "old", "new_text": "x"}]}),
            ),
            ("create_directory", json!({"path": format!("folder-{number}/deep")})),
            ("delete_file", json!({"path": format!("old-{number}")})),
            ("list_directory", json!({"path": "."})),
        ];
        if number.is_multiple_of(5) {
            calls.push(("run_command", json!({"command": ["cat", "seed.txt"]})));
        }
        calls
    }

    /// Runs the script. An answer or the end of the connection must come in time.
    fn run_script(&mut self, context: &str) {
        let calls = self.script();
        let mut agent = None;
        for (tool, arguments) in calls {
            let connect = || {
                let socket = self.daemon.home().socket("agent.sock");
                std::os::unix::net::UnixStream::connect(socket).ok().map(tests::Client::from_stream)
            };
            let began = Instant::now();
            let answer = match agent.take().or_else(connect) {
                None => None,
                Some(mut client) => {
                    let answer = client.try_execute(tool, &arguments);
                    agent = answer.is_some().then_some(client);
                    answer
                }
            };
            assert!(began.elapsed() < HANG, "{context}: no answer to {tool}");
            let result = answer.map(|answer| answer["result"].clone()).unwrap_or_default();
            if result["success"] == true && result["metadata"]["recorded"] == true {
                self.done.push(result["metadata"]["call_id"].as_str().expect("an id").to_owned());
            }
        }
    }

    /// Runs the script with a fault, and returns the number of injected errors.
    fn run_with(&mut self, fault: &Fault) -> Option<u64> {
        let Fault { call, position, error } = fault;
        let inject = format!("inject={call}:error={error}:when={position}");
        let words = ["-e", &format!("trace={call}"), "-e", &inject];
        let strace = Strace::attach_with(self.daemon.pid(), &words, &self.log)?;
        let context = format!("{fault:?}");
        self.run_script(&context);
        if self.is_alive() {
            strace.stop();
        }
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        self.check_effects(&context);
        Some(text.lines().filter(|line| line.contains("(INJECTED)")).count() as u64)
    }

    fn is_alive(&self) -> bool {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.daemon.pid())).unwrap_or_default();
        !status.is_empty() && !status.contains("State:\tZ")
    }

    /// Checks that every change of the last script has a decision in the ledger.
    fn check_effects(&self, context: &str) {
        let (work, number) = (self.daemon.home().workspace(), self.number);
        let judged = judged_paths(&self.daemon.home().complete_records());
        let is_judged = |path: &Path| judged.contains(path);
        let old = work.join(format!("old-{number}"));
        let changed = std::fs::read_to_string(&old).map_or(true, |text| text != "old");
        assert!(!changed || is_judged(&old), "{context}: changed without a record");
        for (name, below) in [(format!("new-{number}"), ""), (format!("folder-{number}"), "deep")] {
            let path = work.join(name);
            let recorded = is_judged(&path) || is_judged(&path.join(below));
            assert!(!path.exists() || recorded, "{context}: {} without a record", path.display());
        }
    }

    /// Waits until the daemon works again; starts it again if the fault ended it.
    fn recover(self, fault: &Fault) -> Scene {
        let began = Instant::now();
        while self.is_alive() {
            let connected = std::os::unix::net::UnixStream::connect(self.daemon.home().socket("agent.sock"));
            let answer = connected.ok().and_then(|stream| {
                let arguments = json!({"path": "alive", "content": "x"});
                tests::Client::from_stream(stream).try_execute("write_file", &arguments)
            });
            if answer.as_ref().is_some_and(|answer| answer["result"]["success"] == true) {
                return self;
            }
            assert!(began.elapsed() < HANG, "{fault:?}: no recovery: {answer:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let Scene { daemon, log, number, done } = self;
        Scene { daemon: Daemon::start_debuggable(daemon.crash()), log, number, done }
    }

    fn finish(self, context: &str) {
        let Scene { daemon, done, .. } = self;
        let home = daemon.stop();
        let records = home.records();
        let outcomes = records.iter().filter(|record| tests::holds(record, "outcome"));
        let outcomes: std::collections::HashSet<&str> =
            outcomes.filter_map(|record| record["call_id"].as_str()).collect();
        let lost: Vec<&String> = done.iter().filter(|id| !outcomes.contains(id.as_str())).collect();
        assert!(lost.is_empty(), "{context}: answers without an outcome: {lost:?}");
        check_ledger(&home, context);
    }
}

/// System calls of a script, with the most that one thread makes.
fn positions(scene: &mut Scene) -> Option<BTreeMap<String, u64>> {
    let strace = Strace::attach_with(scene.daemon.pid(), &["-e", "trace=all"], &scene.log)?;
    // Five scripts, so that one of them runs a command.
    (0..5).for_each(|_| scene.run_script("without a fault"));
    strace.stop();
    let text = std::fs::read_to_string(&scene.log).unwrap_or_default();
    Some(positions_in(&text, MOST_POSITIONS))
}

/// System calls in a log of `strace`, with the most that one thread makes, up to a limit.
pub(super) fn positions_in(text: &str, most_positions: u64) -> BTreeMap<String, u64> {
    let mut counts: HashMap<(&str, &str), u64> = HashMap::new();
    for line in text.lines() {
        let mut words = line.splitn(2, ' ');
        let (Some(thread), Some(rest)) = (words.next(), words.next()) else { continue };
        let call = rest.trim_start().split('(').next().unwrap_or_default();
        if call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') && !call.is_empty() {
            *counts.entry((thread, call)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, call), count) in counts {
        if !LEFT_OUT.contains(&call) {
            let entry: &mut u64 = most.entry(call.to_owned()).or_default();
            *entry = (*entry).max(count.min(most_positions));
        }
    }
    most
}

/// Returns the faults in random order; a later pass has another order.
pub(super) fn faults(positions: &BTreeMap<String, u64>, random: &mut Random) -> Vec<Fault> {
    let mut all = Vec::new();
    for (call, most) in positions {
        // The allocator ends the process when memory cannot be had, whatever the error.
        let errors = if call == "mmap" || call == "brk" { &ERRORS[4..] } else { &ERRORS[..] };
        for position in 1..=*most {
            all.extend(errors.iter().map(|error| Fault { call: call.clone(), position, error }));
        }
    }
    for at in (1..all.len()).rev() {
        all.swap(at, usize::try_from(random.below(at as u64 + 1)).expect("an index"));
    }
    all
}

#[test]
fn soak_failing_system_calls_leave_no_unrecorded_effect() {
    let mut campaign = Campaign::start(QUICK_CASES);
    let mut scene = Scene::new();
    let Some(positions) = positions(&mut scene) else { return };
    let (mut injected, mut restarts, mut pass) = (0, 0, Vec::new());
    while campaign.goes_on(injected)
        && let Some(round) = campaign.next_round()
    {
        if pass.is_empty() {
            pass = faults(&positions, &mut campaign.random(round));
        }
        let Some(fault) = pass.pop() else { break };
        let Some(count) = scene.run_with(&fault) else { return };
        injected += count;
        restarts += u64::from(!scene.is_alive());
        scene = scene.recover(&fault);
        if scene.number > CASES_PER_HOME {
            std::mem::replace(&mut scene, Scene::new()).finish(&format!("before {fault:?}"));
            println!("{injected} injected, {} cases left in this pass", pass.len());
        }
    }
    scene.finish("at the end");
    let notes = format!(
        "{} system calls of a running daemon, {restarts} restarts after an abort, no unrecorded effect, no hang",
        positions.len()
    );
    campaign.finish(injected, &notes);
}

/// A thread asks the kernel for random numbers when it first needs some. A write names a temporary file with them.
#[test]
fn failed_random_numbers_are_an_error_that_does_not_last() {
    let mut scene = Scene::new();
    let fault = Fault { call: "getrandom".to_owned(), position: 1, error: "EIO" };
    let inject = format!("inject={}:error={}:when={}+", fault.call, fault.error, fault.position);
    // The threads that read requests have their numbers by then, and the ones that write have not.
    (0..20).for_each(|_| drop(scene.daemon.agent().execute("read_file", &json!({"path": "seed.txt"}))));
    let words = ["-e", "trace=getrandom", "-e", &inject];
    let Some(strace) = Strace::attach_with(scene.daemon.pid(), &words, &scene.log) else { return };
    for number in 0..10 {
        let arguments = json!({"path": format!("random-{number}"), "content": "x"});
        let answer = scene.daemon.agent().try_execute("write_file", &arguments).expect("an answer");
        let is_file = scene.daemon.home().workspace().join(format!("random-{number}")).exists();
        assert_eq!(answer["result"]["success"] == true, is_file, "{answer}");
        assert!(!answer.to_string().contains("bug in the tool"), "{answer}");
    }
    strace.stop();
    scene.number = 1;
    scene.recover(&fault).finish("after failed random numbers");
}
