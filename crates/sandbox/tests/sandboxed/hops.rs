//! Programs that hop from process to process, each ending once it has started the next one: a monitor that
//! finds processes by id finds only ended ones.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use tests::hostile::{HostileTargets, PYTHON};
use tool::result::SandboxTier;

use crate::controls::{TestWorkspace, run_without};
use crate::ends::alive;
use crate::launch::FinishedRun;
use crate::layers::SandboxLayer;
use crate::report::RunEnd;

/// Same limit as for most tools: with fewer processes, the program would wait for its own orphans to be
/// reaped.
const PROCESSES: u64 = 200;
/// A slowed program starts fewer processes in a second; one that is not slowed starts many thousands.
const SLOW: u64 = 400;
const TRIES: usize = 4;
const SCANS: usize = 50;
const OTHER_PROCESSES: usize = 500;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("process_hopping_is_slowed", slowed),
        Trial::test("program_gets_sigterm_while_orphans_wait", sigterm_is_sent),
        Trial::test("memory_of_hopping_processes_is_counted", counted),
        Trial::test("reduced_tier_ends_hopping_processes", ended),
    ]
}

/// Runs an attempt with many processes; also returns a text that only its command line contains.
fn run_named(
    name: &str,
    tier: SandboxTier,
    without: &[SandboxLayer],
    memory_bytes: u64,
) -> (FinishedRun, String) {
    let (fixture, outside) = (TestWorkspace::new(), HostileTargets::create());
    let script = fixture.workspace.join("attempts.py").display().to_string();
    let targets = outside.to_json(&fixture.workspace, &fixture.read_only);
    let mut confined = fixture.confined(NetworkAccess::Off, &[PYTHON, &script, name, &targets]);
    let limits = &mut confined.spec.limits;
    limits.processes = PROCESSES;
    limits.memory_bytes = limits.memory_bytes.max(memory_bytes);
    (run_without(without, &confined, tier).expect("a run"), script)
}

fn run(name: &str, tier: SandboxTier, without: &[SandboxLayer], memory_bytes: u64) -> FinishedRun {
    run_named(name, tier, without, memory_bytes).0
}

fn slowed() -> Result<(), Failed> {
    let made = |name, without: &[SandboxLayer]| {
        let finished = run(name, SandboxTier::Full, without, 1 << 30);
        assert_eq!(finished.end, RunEnd::Exited(0), "{}", String::from_utf8_lossy(&finished.stderr.head));
        finished.usage.processes
    };
    // Retried, because a program that gets no processor time starts few processes.
    let quickly = |name, guard| {
        let tries = (0..TRIES).map(|_| made(name, &[guard]));
        tries.into_iter().find(|made| *made > SLOW).unwrap_or(0)
    };
    for (name, guard) in [
        ("hop_for_a_second", SandboxLayer::ReapDelay),
        ("hop_among_siblings", SandboxLayer::OrphanAvoidance),
        ("hop_below_one_who_adopts", SandboxLayer::OrphanAvoidance),
    ] {
        let (slow, fast) = (made(name, &[]), quickly(name, guard));
        println!("{name}: {slow} processes, {fast} without {guard:?}");
        assert!(slow < SLOW && SLOW < fast, "{name}: {slow} and {fast}");
    }
    Ok(())
}

/// Number of orphans; most of them wait to be reaped for longer than the program's time limit.
const ORPHANS: u32 = 200;
/// Time to create them, and to exit after SIGTERM.
const TIME: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(2);

/// Runs several programs at once: with a faulty init process, one of them would get the signal only by luck,
/// at the moment when the next orphan may be reaped.
fn sigterm_is_sent() -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let programs: Vec<_> = (0..TRIES).map(|_| scope.spawn(gets_sigterm)).collect();
        let asked: Vec<bool> = programs.into_iter().map(|one| one.join().expect("a run")).collect();
        assert_eq!(asked, [true; TRIES], "killed without SIGTERM");
    });
    Ok(())
}

/// Returns true if a program that leaves orphans gets SIGTERM before it is killed.
fn gets_sigterm() -> bool {
    let code = format!(
        "
import os, signal, time
def asked(*_):
    open('asked', 'w').close()
    os._exit(0)
signal.signal(signal.SIGTERM, asked)
for _ in range({ORPHANS}):
    child = os.fork()
    if child == 0:
        os.fork()
        os._exit(0)
    os.waitpid(child, 0)
time.sleep(60)"
    );
    let fixture = TestWorkspace::new();
    let mut confined = fixture.confined(NetworkAccess::Off, &[PYTHON, "-c", &code]);
    confined.spec.limits.processes = u64::from(ORPHANS);
    confined.spec.limits.grace = GRACE;
    confined.deadline = Instant::now() + TIME;
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(finished.end, RunEnd::TimedOut, "{}", String::from_utf8_lossy(&finished.stderr.head));
    fixture.workspace.join("asked").exists()
}

fn counted() -> Result<(), Failed> {
    let ends: Vec<RunEnd> =
        (0..3).map(|_| run("hop_from_process_to_process", SandboxTier::Full, &[], 0).end).collect();
    assert_eq!(ends, [RunEnd::OutOfMemory; 3]);
    Ok(())
}

/// Other processes on the machine, which slow down a scan of all processes.
struct OtherProcesses(Vec<Child>);

impl OtherProcesses {
    fn start() -> OtherProcesses {
        let one = || Command::new("/bin/sleep").arg("60").stdin(Stdio::null()).spawn().expect("a process");
        OtherProcesses((0..OTHER_PROCESSES).map(|_| one()).collect())
    }
}

impl Drop for OtherProcesses {
    fn drop(&mut self) {
        for one in &mut self.0 {
            let _ = one.kill();
            let _ = one.wait();
        }
    }
}

fn ended() -> Result<(), Failed> {
    let _crowd = OtherProcesses::start();
    let during = run("hop_for_a_second", SandboxTier::Reduced, &[], 1 << 30);
    assert_eq!(during.end, RunEnd::TooManyProcesses, "unreaped processes count");
    for _ in 0..5 {
        // The program ends by itself, or is ended for the processes it started before that.
        let (after, word) = run_named("hop_past_the_end", SandboxTier::Reduced, &[], 1 << 30);
        // A single scan may miss the process, so several are made.
        let is_gone = (0..SCANS).all(|_| alive(&word).is_empty());
        assert!(is_gone, "it continues after {:?}", after.end);
    }
    Ok(())
}
