//! Programs that go from process to process, each of which ends once it has made the next: whoever looks at processes by
//! their numbers finds those that are gone.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use governance::Network;
use libtest_mimic::{Failed, Trial};
use tests::hostile::{Outside, PYTHON};
use tool::SandboxTier;

use crate::controls::{World, run_without};
use crate::ends::alive;
use crate::guard::Guard;
use crate::report::End;
use crate::run::Finished;

/// As many as most tools may have: with few, who hops waits for those it was to be buried.
const PROCESSES: u64 = 200;
/// A program that is slowed makes fewer in a second, and one that is not many thousands.
const SLOW: u64 = 400;
const TRIES: usize = 4;
const LOOKS: usize = 50;
const CROWD: usize = 500;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        Trial::test("who_goes_from_process_to_process_is_slowed", slowed),
        Trial::test("a_program_is_asked_to_end_while_its_orphans_wait", asked),
        Trial::test("memory_that_goes_from_process_to_process_is_counted", counted),
        Trial::test("reduced_runs_that_go_from_process_to_process_are_ended", ended),
    ]
}

/// Runs an attempt with many processes; and a word that its command line has and no other.
fn run_named(name: &str, tier: SandboxTier, without: &[Guard], memory_bytes: u64) -> (Finished, String) {
    let (world, outside) = (World::new(), Outside::make());
    let script = world.workspace.join("attempts.py").display().to_string();
    let said = outside.described(&world.workspace, &world.read_only);
    let mut confined = world.confined(Network::Off, &[PYTHON, &script, name, &said]);
    let limits = &mut confined.spec.limits;
    limits.processes = PROCESSES;
    limits.memory_bytes = limits.memory_bytes.max(memory_bytes);
    (run_without(without, &confined, tier).expect("a run"), script)
}

fn run(name: &str, tier: SandboxTier, without: &[Guard], memory_bytes: u64) -> Finished {
    run_named(name, tier, without, memory_bytes).0
}

fn slowed() -> Result<(), Failed> {
    let made = |name, without: &[Guard]| {
        let finished = run(name, SandboxTier::Full, without, 1 << 30);
        assert_eq!(finished.end, End::Exited(0), "{}", String::from_utf8_lossy(&finished.stderr.head));
        finished.spent.processes
    };
    // One that has no processor for a while makes few of them, so it may try again.
    let quickly = |name, guard| {
        let tries = (0..TRIES).map(|_| made(name, &[guard]));
        tries.into_iter().find(|made| *made > SLOW).unwrap_or(0)
    };
    for (name, guard) in [
        ("hop_for_a_second", Guard::Pace),
        ("hop_among_siblings", Guard::Orphans),
        ("hop_below_one_who_adopts", Guard::Orphans),
    ] {
        let (slow, fast) = (made(name, &[]), quickly(name, guard));
        println!("{name}: {slow} processes, {fast} without {guard:?}");
        assert!(slow < SLOW && SLOW < fast, "{name}: {slow} and {fast}");
    }
    Ok(())
}

/// Of these, most wait to be buried for longer than the program has.
const ORPHANS: u32 = 200;
/// To leave them, and to end once it was asked.
const TIME: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(2);

/// Several at once: without it one or the other is asked by luck, in the moment in which the next orphan may be buried.
fn asked() -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let programs: Vec<_> = (0..TRIES).map(|_| scope.spawn(is_asked)).collect();
        let asked: Vec<bool> = programs.into_iter().map(|one| one.join().expect("a run")).collect();
        assert_eq!(asked, [true; TRIES], "killed without being asked");
    });
    Ok(())
}

/// Whether a program that leaves orphans is asked to end before it is killed.
fn is_asked() -> bool {
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
    let world = World::new();
    let mut confined = world.confined(Network::Off, &[PYTHON, "-c", &code]);
    confined.spec.limits.processes = u64::from(ORPHANS);
    confined.spec.limits.grace = GRACE;
    confined.deadline = Instant::now() + TIME;
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(finished.end, End::TimedOut, "{}", String::from_utf8_lossy(&finished.stderr.head));
    world.workspace.join("asked").exists()
}

fn counted() -> Result<(), Failed> {
    let ends: Vec<End> =
        (0..3).map(|_| run("hop_from_process_to_process", SandboxTier::Full, &[], 0).end).collect();
    assert_eq!(ends, [End::OutOfMemory; 3]);
    Ok(())
}

/// Others on the machine: whoever looks through all processes takes longer by each of them.
struct Crowd(Vec<Child>);

impl Crowd {
    fn gather() -> Crowd {
        let one = || Command::new("/bin/sleep").arg("60").stdin(Stdio::null()).spawn().expect("a process");
        Crowd((0..CROWD).map(|_| one()).collect())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for one in &mut self.0 {
            let _ = one.kill();
            let _ = one.wait();
        }
    }
}

fn ended() -> Result<(), Failed> {
    let _crowd = Crowd::gather();
    let during = run("hop_for_a_second", SandboxTier::Reduced, &[], 1 << 30);
    assert_eq!(during.end, End::TooManyProcesses, "those who were not buried count");
    for _ in 0..5 {
        // Ended by itself, or for all that it began before that.
        let (after, word) = run_named("hop_past_the_end", SandboxTier::Reduced, &[], 1 << 30);
        // Each look misses it now and then, if it is there.
        let is_gone = (0..LOOKS).all(|_| alive(&word).is_empty());
        assert!(is_gone, "it goes on after {:?}", after.end);
    }
    Ok(())
}
