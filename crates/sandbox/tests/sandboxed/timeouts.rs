//! A thousand programs that resist termination, in eight kinds. Each is reported soon after its deadline, and
//! nothing is left: no process, no zombie, no mount, no descriptor.

use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use tool::result::SandboxTier;

use crate::block_on;
use crate::controls::TestWorkspace;
use crate::ends::{alive, unique_seconds, vanishes};
use crate::launch;
use crate::launch::pool::Launcher;
use crate::output::OutputSinks;
use crate::prepare::ConfinedCommand;
use crate::report::RunEnd;

/// Runs of each kind; eight kinds make a thousand.
const RUNS: usize = 125;
/// Concurrent runs; more would only measure the wait for a processor.
const AT_ONCE: usize = 8;
const TIME: Duration = Duration::from_millis(150);
/// In a run of the whole suite, which shares its processors, half of the reports must arrive in this time.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// A surviving process would exist for minutes.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// Limits under `cargo xtask soak`, which has the machine to itself: every report must meet them.
const STRICT_MAX_DELAY: Duration = Duration::from_millis(100);
const STRICT_GONE_WITHIN: Duration = Duration::from_millis(250);

fn is_strict() -> bool {
    std::env::var_os("SINEW_STRICT_TIMES").is_some()
}

/// Script of each kind; WORD is replaced by the number of seconds that identifies its processes.
const KINDS: [(&str, &str); 8] = [
    ("sleep", "exec sleep WORD"),
    ("ignore_the_request_to_end", "trap '' TERM HUP INT; exec sleep WORD"),
    ("stop_themselves", "kill -STOP $$; exec sleep WORD"),
    ("leave_their_session", "trap '' TERM; setsid -f sleep WORD; exec setsid -w sleep WORD"),
    (
        "fork_twice_and_ignore",
        "trap '' TERM HUP; (setsid sleep WORD & ) ; (nohup sleep WORD & ) ; exec sleep WORD",
    ),
    ("close_their_outputs", "exec <&- >&- 2>&-; exec sleep WORD"),
    ("flood_their_outputs", "trap '' TERM; : WORD; yes >&2 & exec yes"),
    ("never_rest", "trap '' TERM; : WORD; while :; do :; done"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let kinds = KINDS.iter().zip(100..);
    let trial = |((name, script), number): (&'static (&str, &str), u32)| {
        Trial::test(format!("a_hundred_that_{name}"), move || check(script, number))
    };
    kinds.map(trial).collect()
}

fn check(script: &str, number: u32) -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(number));
    let script = script.replace("WORD", &word);
    // Measured after the first run, because the runtime opens descriptors of its own when it starts a
    // process.
    let late = block_on(async {
        let mut late = some(1, &fixture, &script).await;
        let before = settled(|residue| residue.2 == 0).await;
        while late.len() < RUNS {
            late.extend(some(AT_ONCE.min(RUNS - late.len()), &fixture, &script).await);
        }
        settled(|residue| *residue == before).await;
        late
    });
    let gone_within = if is_strict() { STRICT_GONE_WITHIN } else { GONE_WITHIN };
    assert!(vanishes(&word, gone_within), "still running: {:?}", alive(&word));
    judge(late)
}

fn judge(mut late: Vec<Duration>) -> Result<(), Failed> {
    late.sort_unstable();
    let at = |part: usize| late[(late.len() * part / 100).min(late.len() - 1)];
    println!("late by: p50 {:?}, p95 {:?}, all {:?}", at(50), at(95), at(100));
    let (part, limit) = if is_strict() { (100, STRICT_MAX_DELAY) } else { (50, MAX_DELAY) };
    match at(part) <= limit {
        true => Ok(()),
        false => Err(format!("percentile {part} is {:?}, above the limit of {limit:?}", at(part)).into()),
    }
}

/// Runs some at once; returns the delay of each report after its deadline.
async fn some(count: usize, fixture: &TestWorkspace, script: &str) -> Vec<Duration> {
    let mut running = tokio::task::JoinSet::new();
    for _ in 0..count {
        let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", script]);
        running.spawn_local(one(confined));
    }
    running.join_all().await
}

async fn one(mut confined: ConfinedCommand) -> Duration {
    let mut launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
    confined.deadline = Instant::now() + TIME;
    let finished = launch::run(&confined, SandboxTier::Full, &mut launcher, &mut OutputSinks::default())
        .await
        .expect("an answer");
    assert_eq!(finished.end, RunEnd::TimedOut);
    confined.deadline.elapsed()
}

/// Waits until the residue is as expected: children are reaped a moment after their runs.
async fn settled(is_settled: impl Fn(&(usize, usize, usize)) -> bool) -> (usize, usize, usize) {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let left = residue();
        if is_settled(&left) {
            return left;
        }
        assert!(Instant::now() < deadline, "left behind (descriptors, mounts, children): {left:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Open descriptors, mounts and children of this process.
fn residue() -> (usize, usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).expect("a folder of the kernel's").count();
    let lines = |path: &str| std::fs::read_to_string(path).expect("a file of the kernel's").lines().count();
    let threads = std::fs::read_dir("/proc/self/task").expect("threads").flatten();
    let children = threads.map(|thread| {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        list.split_whitespace().count()
    });
    (count("/proc/self/fd"), lines("/proc/self/mountinfo"), children.sum())
}
