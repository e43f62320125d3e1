//! Ends of runs: at the deadline, with the launcher, with the daemon; and checks that no process is left.

use std::time::{Duration, Instant};

use governance::Network;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tool::SandboxTier;

use crate::check;
use crate::controls::{World, run_without};
use crate::error::SandboxError;
use crate::launch;
use crate::launch::pool::Launcher;
use crate::launch::status::Step;
use crate::layers::Guard;
use crate::layers::left_out::{fail_at, leave_out};
use crate::output::Outlets;
use crate::prepare::Confined;
use crate::report::End;
use crate::wait_for;

/// Long enough for a loaded machine; only a failing test waits this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough for a process to be gone if it had been killed.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

pub(crate) type Case = (&'static str, fn() -> Result<(), Failed>);

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 19] = [
        ("failed_setup_step_runs_nothing", failing_steps),
        ("probe_is_blocked_in_every_tier", leant_against),
        ("replaced_program_file_is_not_started", pinned),
        ("moved_path_is_protected_or_nothing_runs", moved),
        ("granted_folder_replaced_by_a_symlink_is_not_followed", links),
        ("run_ends_with_its_launcher", launcher_killed),
        ("run_ends_when_the_daemon_disconnects", deserted),
        ("ended_launcher_leaves_no_process", waited_for),
        ("init_process_reports_the_process_count", counted_at_the_end),
        ("background_processes_are_gone_when_the_end_is_reported", left_behind),
        ("stopped_init_process_is_not_waited_for", silent_first),
        ("real_time_signal_ends_a_process", nameless_signals),
        ("unread_stdin_does_not_block_a_run", unread_input),
        ("long_run_request_arrives_whole", long_order),
        ("init_process_has_no_privileges", first_process),
        ("memory_shared_after_vfork_is_counted_once", one_memory_of_two),
        ("mapped_scratch_files_are_counted_once", mapped_scratch),
        ("launcher_without_its_child_is_not_used", lost_first_process),
        ("launcher_without_a_request_exits_cleanly", no_order),
    ];
    cases.map(|(name, test)| Trial::test(name, test)).into()
}

/// Returns a number of seconds that no other process sleeps for, to identify processes by.
pub(crate) fn word(number: u32) -> String {
    format!("61.{}{number:04}", std::process::id())
}

/// Returns the processes of this machine with this text in their command line.
pub(crate) fn alive(word: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_word = |id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    ids.filter(has_word).map(Pid::from_raw).collect()
}

/// Returns true if no process with this text is left within this time.
pub(crate) fn vanishes(word: &str, within: Duration) -> bool {
    let began = Instant::now();
    while !alive(word).is_empty() {
        if began.elapsed() > within {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Kills the processes that a test left on purpose.
pub(crate) fn clear(word: &str) {
    for process in alive(word) {
        let _ = kill(process, Signal::SIGKILL);
    }
    assert!(vanishes(word, PATIENCE), "processes left on purpose are killed");
}

fn failing_steps() -> Result<(), Failed> {
    let both = [SandboxTier::Full, SandboxTier::Reduced];
    let steps: [(Step, &[SandboxTier]); 7] = [
        (Step::Namespaces, &both[..1]),
        (Step::Mounts, &both[..1]),
        (Step::Network, &both[..1]),
        (Step::Capabilities, &both),
        (Step::Landlock, &both),
        (Step::Seccomp, &both),
        (Step::Limits, &both),
    ];
    for (step, tiers) in steps {
        for tier in tiers {
            let world = World::new();
            let confined = world.confined(Network::Loopback, &["touch", "made"]);
            fail_at(step);
            let ran = wait_for(async {
                let mut launcher = Launcher::start(*tier).await?;
                launch::run(&confined, *tier, &mut launcher, &mut Outlets::default()).await
            });
            leave_out(&[]);
            let said = ran.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(said.contains("could not be built") && said.contains(step.as_str()), "{step:?}: {said}");
            assert!(!world.workspace.join("made").exists(), "{step:?}: nothing ran");
        }
    }
    Ok(())
}

fn leant_against() -> Result<(), Failed> {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    for (tier, count) in [(SandboxTier::Full, 7), (SandboxTier::Reduced, 5)] {
        let found = check::findings(tier, folder.path()).expect("findings");
        assert_eq!(found.len(), count);
        let is_sound = |one: &check::Finding| one.held && one.remedy.is_none() && !one.cause.is_empty();
        let bad: Vec<_> = found.iter().filter(|one| !is_sound(one)).collect();
        assert!(bad.is_empty(), "{tier:?}: {bad:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "no file is left there");
    Ok(())
}

fn pinned() -> Result<(), Failed> {
    let mut confined = World::new().confined(Network::Off, &["true"]);
    confined.spec.writable.clear();
    confined.spec.readable.clear();
    confined.spec.hidden.clear();
    confined.spec.kept.clear();
    confined.spec.pinned.clear();
    confined.spec.folder = "/".into();
    confined.spec.inode += 1;
    let with = run_without(&[], &confined, SandboxTier::Full);
    assert!(matches!(with, Err(SandboxError::NotStarted { .. })));
    let without = run_without(&[Guard::Pin], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(without.end, End::Exited(0));
    Ok(())
}

/// Paths that were removed, replaced or moved between the scan and the set-up of the sandbox.
fn moved() -> Result<(), Failed> {
    let built = |without: &[Guard], confined: &Confined| run_without(without, confined, SandboxTier::Full);
    let rename = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).expect("a rename");
    for number in 0..2 {
        let world = World::new();
        let mut confined = world.confined(Network::Off, &["true"]);
        let list = if number == 0 { &mut confined.spec.hidden } else { &mut confined.spec.kept };
        let held = list.first().expect("something to hold").path.clone();
        let away = world.workspace.join("away");
        confined.spec.pinned.clear();
        assert_eq!(built(&[], &confined).expect("a run").end, End::Exited(0));
        rename(&held, &away);
        let gone = built(&[], &confined).err().expect("no run");
        assert!(gone.is_moved(), "{gone}");
        std::fs::write(&held, "another").expect("another file");
        let other = built(&[], &confined).err().expect("no run");
        assert!(other.is_moved(), "{other}");
        assert!(built(&[Guard::SameFile], &confined).is_ok(), "only its inode differs");
        std::fs::remove_file(&held).expect("a file removed");
        rename(&away, &held);
        assert!(built(&[], &confined).is_ok());
        confined.spec.pinned = vec![world.workspace.join("gone")];
        assert!(built(&[], &confined).err().expect("no run").is_moved());
    }
    Ok(())
}

fn links() -> Result<(), Failed> {
    let (world, elsewhere) = (World::new(), World::new());
    let mut confined = world.confined(Network::Off, &["touch", "made"]);
    confined.spec.hidden.clear();
    confined.spec.kept.clear();
    confined.spec.pinned.clear();
    std::fs::rename(&world.workspace, world.workspace.with_extension("away")).expect("a folder moved away");
    std::os::unix::fs::symlink(&elsewhere.workspace, &world.workspace).expect("a link in its place");
    let with = run_without(&[], &confined, SandboxTier::Full);
    assert!(matches!(with, Err(SandboxError::NotBuilt { .. })));
    assert!(!elsewhere.workspace.join("made").exists());
    let without = run_without(&[Guard::NoLinks], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(without.end, End::Exited(0));
    std::fs::remove_file(&world.workspace).expect("the link");
    std::fs::rename(world.workspace.with_extension("away"), &world.workspace).expect("the folder back");
    Ok(())
}

/// Starts a command and drops its launcher once it runs, optionally killing the launcher first.
fn abandon(without: &[Guard], confined: &Confined, tier: SandboxTier, word: &str, kill_launcher: bool) {
    leave_out(without);
    wait_for(async {
        let mut launcher = Launcher::start(tier).await.expect("a launcher");
        let process = launcher.process.id().expect("a launcher");
        let mut outlets = Outlets::default();
        let running = launch::run(confined, tier, &mut launcher, &mut outlets);
        tokio::select! {
            ended = running => assert!(kill_launcher && ended.is_err(), "it ended by itself"),
            () = async {
                // The shell's command line contains the text too, so there are two once the script runs.
                while alive(word).len() < 2 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                if kill_launcher {
                    let process = Pid::from_raw(process.cast_signed());
                    kill(process, Signal::SIGKILL).expect("a launcher to kill");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            } => {}
        }
    });
    leave_out(&[]);
}

fn launcher_killed() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(1));
    let script = format!("setsid sleep {word} & sleep {word}");
    let confined = world.confined(Network::Off, &["sh", "-c", &script]);
    abandon(&[], &confined, SandboxTier::Full, &word, true);
    assert!(vanishes(&word, PATIENCE), "they end with the launcher: {:?}", alive(&word));
    abandon(&[Guard::ParentDeath], &confined, SandboxTier::Full, &word, true);
    assert!(!vanishes(&word, LINGER), "without the parent death signal they stay");
    clear(&word);
    Ok(())
}

fn deserted() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(2));
    let script = format!("trap '' TERM; setsid sleep {word} & exec sleep {word}");
    let confined = world.confined(Network::Off, &["sh", "-c", &script]);
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        abandon(&[], &confined, tier, &word, false);
        assert!(vanishes(&word, PATIENCE), "{tier:?}: it ends with the connection: {:?}", alive(&word));
    }
    abandon(&[Guard::Desertion], &confined, SandboxTier::Full, &word, false);
    assert!(!vanishes(&word, LINGER), "without the check it runs to its deadline");
    clear(&word);
    Ok(())
}

fn waited_for() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(4));
    let script = format!("trap '' TERM; setsid sleep {word} & exec sleep {word}");
    let confined = world.confined(Network::Off, &["sh", "-c", &script]);
    for is_killed in [false, true] {
        wait_for(async {
            let mut launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
            let process = Pid::from_raw(launcher.process.id().expect("a launcher").cast_signed());
            let mut outlets = Outlets::default();
            tokio::select! {
                ended = launch::run(&confined, SandboxTier::Full, &mut launcher, &mut outlets) => {
                    panic!("it ended by itself: {:?}", ended.map(|finished| finished.end));
                }
                () = async {
                    while alive(&word).len() < 2 {
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                } => {}
            }
            if is_killed {
                kill(process, Signal::SIGKILL).expect("a launcher to kill");
            }
            launcher.end().await;
        });
        assert_eq!(alive(&word), [], "gone when `end` returns; launcher killed: {is_killed}");
    }
    Ok(())
}

/// A namespace that is killed from outside could not report its process count; the launcher only knows the
/// highest sample.
fn counted_at_the_end() -> Result<(), Failed> {
    let script = "trap '' TERM; for one in 1 2 3 4; do /bin/true; done; echo up; exec sleep 60";
    let world = World::new();
    let mut confined = world.confined(Network::Off, &["sh", "-c", script]);
    confined.deadline = Instant::now() + Duration::from_secs(3);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!((finished.end, finished.stdout.head.as_slice()), (End::TimedOut, &b"up\n"[..]));
    assert_eq!(finished.spent.processes, 5, "{:?}", finished.spent);
    Ok(())
}

fn left_behind() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(5));
    let script = format!("trap '' TERM; (setsid sleep {word} >/dev/null 2>&1 &) ; sleep {word} & exit 7");
    let confined = world.confined(Network::Off, &["sh", "-c", &script]);
    for _ in 0..20 {
        let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
        assert_eq!((finished.end, alive(&word)), (End::Exited(7), Vec::new()));
    }
    Ok(())
}

/// Stops the init process from outside, so that it neither forwards the request to terminate nor kills any
/// process.
fn silent_first() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(7));
    let mut confined = world.confined(Network::Off, &["sleep", &word]);
    confined.deadline = Instant::now() + Duration::from_secs(1);
    let finished = wait_for(async {
        let mut launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
        let id = launcher.process.id().expect("a launcher");
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("a list");
        let first = children.trim().parse().expect("one child");
        kill(Pid::from_raw(first), Signal::SIGSTOP).expect("a process to stop");
        launch::run(&confined, SandboxTier::Full, &mut launcher, &mut Outlets::default()).await
    });
    assert_eq!((finished.expect("an answer").end, alive(&word)), (End::TimedOut, Vec::new()));
    Ok(())
}

/// The signal library has no names for signals from 34 on, and reported processes ended by them as still
/// running.
fn nameless_signals() -> Result<(), Failed> {
    const CODE: &str = "
import os
for _ in range(4):
    if os.fork() == 0:
        if os.fork() == 0: os.kill(os.getpid(), 40)
        os._exit(0)
    os.wait()
os.kill(os.getpid(), 34)";
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        let world = World::new();
        let confined = world.confined(Network::Off, &[tests::hostile::PYTHON, "-c", CODE]);
        let finished = run_without(&[], &confined, tier).expect("a run");
        assert_eq!(finished.end, End::Signalled(34), "{tier:?}");
        let counted = finished.spent.processes;
        assert!(tier != SandboxTier::Full || counted == 9, "the program, four, and one of each: {counted}");
    }
    Ok(())
}

/// Most of the memory is resident in a parent whose vforked child waits for a file to be opened.
fn one_memory_of_two() -> Result<(), Failed> {
    const CODE: &str = "
import os, time
os.mkfifo('way')
if os.fork() == 0:
    time.sleep(1)
    os.close(os.open('way', os.O_WRONLY))
    os._exit(0)
held = b'x' * (80 << 20)
action = (os.POSIX_SPAWN_OPEN, 0, 'way', os.O_RDONLY, 0)
child = os.posix_spawn('/bin/true', ['true'], {}, file_actions=[action])
print(os.waitpid(child, 0)[1], len(held) >> 20)";
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        let world = World::new();
        let confined = world.confined(Network::Off, &[tests::hostile::PYTHON, "-c", CODE]);
        let finished = run_without(&[], &confined, tier).expect("a run");
        let said = String::from_utf8_lossy(&finished.stdout.head).into_owned();
        assert_eq!((finished.end, said.trim()), (End::Exited(0), "0 80"), "{tier:?}");
    }
    Ok(())
}

fn mapped_scratch() -> Result<(), Failed> {
    const CODE: &str = "
import mmap, time
with open('/dev/shm/shared', 'w+b') as file:
    file.truncate(80 << 20)
    shared = mmap.mmap(file.fileno(), 80 << 20)
for start in range(0, len(shared), 1 << 20): shared[start:start + (1 << 20)] = b'x' * (1 << 20)
time.sleep(0.5)
print(len(shared) >> 20)";
    let world = World::new();
    let mut confined = world.confined(Network::Off, &[tests::hostile::PYTHON, "-c", CODE]);
    confined.spec.limits.file_bytes = 0;
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    let said = String::from_utf8_lossy(&finished.stdout.head).into_owned();
    assert_eq!((finished.end, said.trim()), (End::Exited(0), "80"));
    Ok(())
}

fn unread_input() -> Result<(), Failed> {
    let world = World::new();
    let mut confined = world.confined(Network::Off, &["sh", "-c", "echo done"]);
    confined.input = Some(vec![b'x'; 8 << 20]);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!((finished.end, finished.stdout.head.as_slice()), (End::Exited(0), &b"done\n"[..]));
    let mut counts = world.confined(Network::Off, &["wc", "-c"]);
    counts.input = Some(vec![b'x'; 3 << 20]);
    let finished = run_without(&[], &counts, SandboxTier::Full).expect("a run");
    assert_eq!(String::from_utf8_lossy(&finished.stdout.head).trim(), (3 << 20).to_string());
    Ok(())
}

fn long_order() -> Result<(), Failed> {
    // Longer than a socket buffer.
    const WORDS: usize = 12;
    let word = "x".repeat(100 << 10);
    let words: Vec<&str> =
        ["sh", "-c", "echo $#", "sh"].into_iter().chain(std::iter::repeat_n(word.as_str(), WORDS)).collect();
    let world = World::new();
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        let finished = run_without(&[], &world.confined(Network::Off, &words), tier).expect("a run");
        assert_eq!(String::from_utf8_lossy(&finished.stdout.head).trim(), WORDS.to_string());
    }
    Ok(())
}

fn first_process() -> Result<(), Failed> {
    let read = "while read -r name value; do case $name in Cap*|NoNewPrivs:|Seccomp:) echo $name $value;; esac; done";
    let world = World::new();
    let confined = world.confined(Network::Off, &["sh", "-c", &format!("{read} < /proc/1/status")]);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    let none = "0000000000000000";
    let caps =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| format!("{name}: {none}\n")).concat();
    let expected = format!("{caps}NoNewPrivs: 1\nSeccomp: 2\n");
    assert_eq!(String::from_utf8_lossy(&finished.stdout.head), expected);
    Ok(())
}

fn lost_first_process() -> Result<(), Failed> {
    wait_for(async {
        for tier in [SandboxTier::Full, SandboxTier::Reduced] {
            let launcher = Launcher::start(tier).await.expect("a launcher");
            assert!(launcher.is_alive());
            let id = launcher.process.id().expect("a launcher");
            let children =
                std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("children");
            kill(Pid::from_raw(children.trim().parse().expect("one child")), Signal::SIGKILL)
                .expect("a kill");
            let began = Instant::now();
            while launcher.is_alive() {
                assert!(began.elapsed() < PATIENCE, "{tier:?}: it is still considered ready");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    Ok(())
}

/// The child that would become the program exits, and the init process with it, before the watcher has
/// received limits.
fn no_order() -> Result<(), Failed> {
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        wait_for(async {
            let Launcher { setup, control, mut process, .. } =
                Launcher::start(tier).await.expect("a launcher");
            drop(setup);
            let ended = tokio::time::timeout(PATIENCE, process.wait()).await.expect("an end");
            assert!(ended.as_ref().is_ok_and(std::process::ExitStatus::success), "{tier:?}: {ended:?}");
            drop(control);
        });
    }
    Ok(())
}
