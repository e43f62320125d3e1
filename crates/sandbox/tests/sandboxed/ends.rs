//! Ends of runs: at the deadline, with the launcher, with the daemon; and checks that no process is left.

use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tool::result::SandboxTier;

use crate::block_on;
use crate::check;
use crate::controls::{TestWorkspace, run_without};
use crate::error::SandboxError;
use crate::launch;
use crate::launch::pool::Launcher;
use crate::launch::status::SetupStep;
use crate::layers::SandboxLayer;
use crate::layers::disabled::{disable_layers, inject_fault};
use crate::output::OutputSinks;
use crate::prepare::ConfinedCommand;
use crate::report::RunEnd;

/// Long enough for a loaded machine; only a failing test waits this long.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Long enough for a process to be gone if it had been killed.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

pub(crate) type Case = (&'static str, fn() -> Result<(), Failed>);

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 19] = [
        ("failed_setup_step_runs_nothing", failing_steps),
        ("probe_is_blocked_in_every_tier", probe_is_blocked),
        ("replaced_program_file_is_not_started", pinned),
        ("moved_path_is_protected_or_nothing_runs", moved),
        ("granted_folder_replaced_by_a_symlink_is_not_followed", links),
        ("run_ends_with_its_launcher", launcher_killed),
        ("run_ends_when_the_daemon_disconnects", daemon_disconnected),
        ("ended_launcher_leaves_no_process", ended_launcher),
        ("init_process_reports_the_process_count", process_count_reported),
        ("background_processes_are_gone_when_the_end_is_reported", left_behind),
        ("stopped_init_process_is_not_waited_for", stopped_init),
        ("real_time_signal_ends_a_process", nameless_signals),
        ("unread_stdin_does_not_block_a_run", unread_input),
        ("long_run_request_arrives_whole", long_request),
        ("init_process_has_no_privileges", init_privileges),
        ("memory_shared_after_vfork_is_counted_once", vfork_memory),
        ("mapped_scratch_files_are_counted_once", mapped_scratch),
        ("launcher_without_its_child_is_not_used", lost_child),
        ("launcher_without_a_request_exits_cleanly", no_request),
    ];
    cases.map(|(name, test)| Trial::test(name, test)).into()
}

/// Returns a number of seconds that no other process sleeps for, to identify processes by.
pub(crate) fn unique_seconds(number: u32) -> String {
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
pub(crate) fn kill_remaining(word: &str) {
    for process in alive(word) {
        let _ = kill(process, Signal::SIGKILL);
    }
    assert!(vanishes(word, TEST_TIMEOUT), "processes left on purpose are killed");
}

fn failing_steps() -> Result<(), Failed> {
    let both = [SandboxTier::Full, SandboxTier::Reduced];
    let steps: [(SetupStep, &[SandboxTier]); 7] = [
        (SetupStep::Namespaces, &both[..1]),
        (SetupStep::Mounts, &both[..1]),
        (SetupStep::Network, &both[..1]),
        (SetupStep::Capabilities, &both),
        (SetupStep::Landlock, &both),
        (SetupStep::Seccomp, &both),
        (SetupStep::Limits, &both),
    ];
    for (step, tiers) in steps {
        for tier in tiers {
            let fixture = TestWorkspace::new();
            let confined = fixture.confined(NetworkAccess::Loopback, &["touch", "made"]);
            inject_fault(step);
            let ran = block_on(async {
                let mut launcher = Launcher::start(*tier).await?;
                launch::run(&confined, *tier, &mut launcher, &mut OutputSinks::default()).await
            });
            disable_layers(&[]);
            let message = ran.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                message.contains("could not be built") && message.contains(step.as_str()),
                "{step:?}: {message}"
            );
            assert!(!fixture.workspace.join("made").exists(), "{step:?}: nothing ran");
        }
    }
    Ok(())
}

fn probe_is_blocked() -> Result<(), Failed> {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    for (tier, count) in [(SandboxTier::Full, 8), (SandboxTier::Reduced, 5)] {
        let found = check::findings(tier, folder.path()).expect("findings");
        assert_eq!(found.len(), count);
        let is_sound =
            |one: &check::SandboxFinding| one.blocked && one.remedy.is_none() && !one.cause.is_empty();
        let bad: Vec<_> = found.iter().filter(|one| !is_sound(one)).collect();
        assert!(bad.is_empty(), "{tier:?}: {bad:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "no file is left there");
    Ok(())
}

fn pinned() -> Result<(), Failed> {
    let mut confined = TestWorkspace::new().confined(NetworkAccess::Off, &["true"]);
    confined.spec.writable.clear();
    confined.spec.readable.clear();
    confined.spec.hidden.clear();
    confined.spec.protected.clear();
    confined.spec.pinned.clear();
    confined.spec.folder = "/".into();
    confined.spec.inode += 1;
    let with = run_without(&[], &confined, SandboxTier::Full);
    assert!(matches!(with, Err(SandboxError::StartFailed { .. })));
    let without = run_without(&[SandboxLayer::ProgramIdentity], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(without.end, RunEnd::Exited(0));
    Ok(())
}

/// Paths that were removed, replaced or moved between the scan and the set-up of the sandbox.
fn moved() -> Result<(), Failed> {
    let built = |without: &[SandboxLayer], confined: &ConfinedCommand| {
        run_without(without, confined, SandboxTier::Full)
    };
    let rename = |from: &std::path::Path, to: &std::path::Path| std::fs::rename(from, to).expect("a rename");
    for number in 0..2 {
        let fixture = TestWorkspace::new();
        let mut confined = fixture.confined(NetworkAccess::Off, &["true"]);
        let list = if number == 0 { &mut confined.spec.hidden } else { &mut confined.spec.protected };
        let held = list.first().expect("something to hold").path.clone();
        let away = fixture.workspace.join("away");
        confined.spec.pinned.clear();
        assert_eq!(built(&[], &confined).expect("a run").end, RunEnd::Exited(0));
        rename(&held, &away);
        let gone = built(&[], &confined).err().expect("no run");
        assert!(gone.is_path_moved(), "{gone}");
        std::fs::write(&held, "another").expect("another file");
        let other = built(&[], &confined).err().expect("no run");
        assert!(other.is_path_moved(), "{other}");
        assert!(built(&[SandboxLayer::FileIdentity], &confined).is_ok(), "only its inode differs");
        std::fs::remove_file(&held).expect("a file removed");
        rename(&away, &held);
        assert!(built(&[], &confined).is_ok());
        confined.spec.pinned = vec![fixture.workspace.join("gone")];
        assert!(built(&[], &confined).err().expect("no run").is_path_moved());
    }
    Ok(())
}

fn links() -> Result<(), Failed> {
    let (fixture, elsewhere) = (TestWorkspace::new(), TestWorkspace::new());
    let mut confined = fixture.confined(NetworkAccess::Off, &["touch", "made"]);
    confined.spec.hidden.clear();
    confined.spec.protected.clear();
    confined.spec.pinned.clear();
    std::fs::rename(&fixture.workspace, fixture.workspace.with_extension("away"))
        .expect("a folder moved away");
    std::os::unix::fs::symlink(&elsewhere.workspace, &fixture.workspace).expect("a link in its place");
    let with = run_without(&[], &confined, SandboxTier::Full);
    assert!(matches!(with, Err(SandboxError::SetupFailed { .. })));
    assert!(!elsewhere.workspace.join("made").exists());
    let without = run_without(&[SandboxLayer::NoSymlinks], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(without.end, RunEnd::Exited(0));
    std::fs::remove_file(&fixture.workspace).expect("the link");
    std::fs::rename(fixture.workspace.with_extension("away"), &fixture.workspace).expect("the folder back");
    Ok(())
}

/// Starts a command and drops its launcher once it runs, optionally killing the launcher first.
fn abandon(
    without: &[SandboxLayer],
    confined: &ConfinedCommand,
    tier: SandboxTier,
    word: &str,
    kill_launcher: bool,
) {
    disable_layers(without);
    block_on(async {
        let mut launcher = Launcher::start(tier).await.expect("a launcher");
        let process = launcher.process.id().expect("a launcher");
        let mut outlets = OutputSinks::default();
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
    disable_layers(&[]);
}

fn launcher_killed() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(1));
    let script = format!("setsid sleep {word} & sleep {word}");
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    abandon(&[], &confined, SandboxTier::Full, &word, true);
    assert!(vanishes(&word, TEST_TIMEOUT), "they end with the launcher: {:?}", alive(&word));
    abandon(&[SandboxLayer::ParentDeathSignal], &confined, SandboxTier::Full, &word, true);
    assert!(!vanishes(&word, LINGER), "without the parent death signal they stay");
    kill_remaining(&word);
    Ok(())
}

fn daemon_disconnected() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(2));
    let script = format!("trap '' TERM; setsid sleep {word} & exec sleep {word}");
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        abandon(&[], &confined, tier, &word, false);
        assert!(vanishes(&word, TEST_TIMEOUT), "{tier:?}: it ends with the connection: {:?}", alive(&word));
    }
    abandon(&[SandboxLayer::DaemonDisconnect], &confined, SandboxTier::Full, &word, false);
    assert!(!vanishes(&word, LINGER), "without the check it runs to its deadline");
    kill_remaining(&word);
    Ok(())
}

fn ended_launcher() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(4));
    let script = format!("trap '' TERM; setsid sleep {word} & exec sleep {word}");
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    for is_killed in [false, true] {
        block_on(async {
            let mut launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
            let process = Pid::from_raw(launcher.process.id().expect("a launcher").cast_signed());
            let mut outlets = OutputSinks::default();
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
fn process_count_reported() -> Result<(), Failed> {
    let script = "trap '' TERM; for one in 1 2 3 4; do /bin/true; done; echo up; exec sleep 60";
    let fixture = TestWorkspace::new();
    let mut confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", script]);
    confined.deadline = Instant::now() + Duration::from_secs(3);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!((finished.end, finished.stdout.head.as_slice()), (RunEnd::TimedOut, &b"up\n"[..]));
    assert_eq!(finished.usage.processes, 5, "{:?}", finished.usage);
    Ok(())
}

fn left_behind() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(5));
    let script = format!("trap '' TERM; (setsid sleep {word} >/dev/null 2>&1 &) ; sleep {word} & exit 7");
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    for _ in 0..20 {
        let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
        assert_eq!((finished.end, alive(&word)), (RunEnd::Exited(7), Vec::new()));
    }
    Ok(())
}

/// Stops the init process from outside, so that it neither forwards the request to terminate nor kills any
/// process.
fn stopped_init() -> Result<(), Failed> {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(7));
    let mut confined = fixture.confined(NetworkAccess::Off, &["sleep", &word]);
    confined.deadline = Instant::now() + Duration::from_secs(1);
    let finished = block_on(async {
        let mut launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
        let id = launcher.process.id().expect("a launcher");
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("a list");
        let first = children.trim().parse().expect("one child");
        kill(Pid::from_raw(first), Signal::SIGSTOP).expect("a process to stop");
        launch::run(&confined, SandboxTier::Full, &mut launcher, &mut OutputSinks::default()).await
    });
    assert_eq!((finished.expect("an answer").end, alive(&word)), (RunEnd::TimedOut, Vec::new()));
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
        let fixture = TestWorkspace::new();
        let confined = fixture.confined(NetworkAccess::Off, &[tests::hostile::PYTHON, "-c", CODE]);
        let finished = run_without(&[], &confined, tier).expect("a run");
        assert_eq!(finished.end, RunEnd::Signalled(34), "{tier:?}");
        let counted = finished.usage.processes;
        assert!(tier != SandboxTier::Full || counted == 9, "the program, four, and one of each: {counted}");
    }
    Ok(())
}

/// Most of the memory is resident in a parent whose vforked child waits for a file to be opened.
fn vfork_memory() -> Result<(), Failed> {
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
        let fixture = TestWorkspace::new();
        let confined = fixture.confined(NetworkAccess::Off, &[tests::hostile::PYTHON, "-c", CODE]);
        let finished = run_without(&[], &confined, tier).expect("a run");
        let text = String::from_utf8_lossy(&finished.stdout.head).into_owned();
        assert_eq!((finished.end, text.trim()), (RunEnd::Exited(0), "0 80"), "{tier:?}");
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
    let fixture = TestWorkspace::new();
    let mut confined = fixture.confined(NetworkAccess::Off, &[tests::hostile::PYTHON, "-c", CODE]);
    confined.spec.limits.file_bytes = 0;
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    let text = String::from_utf8_lossy(&finished.stdout.head).into_owned();
    assert_eq!((finished.end, text.trim()), (RunEnd::Exited(0), "80"));
    Ok(())
}

fn unread_input() -> Result<(), Failed> {
    let fixture = TestWorkspace::new();
    let mut confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", "echo done"]);
    confined.input = Some(vec![b'x'; 8 << 20]);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    assert_eq!((finished.end, finished.stdout.head.as_slice()), (RunEnd::Exited(0), &b"done\n"[..]));
    let mut counts = fixture.confined(NetworkAccess::Off, &["wc", "-c"]);
    counts.input = Some(vec![b'x'; 3 << 20]);
    let finished = run_without(&[], &counts, SandboxTier::Full).expect("a run");
    assert_eq!(String::from_utf8_lossy(&finished.stdout.head).trim(), (3 << 20).to_string());
    Ok(())
}

fn long_request() -> Result<(), Failed> {
    // Longer than a socket buffer.
    const WORDS: usize = 12;
    let word = "x".repeat(100 << 10);
    let words: Vec<&str> =
        ["sh", "-c", "echo $#", "sh"].into_iter().chain(std::iter::repeat_n(word.as_str(), WORDS)).collect();
    let fixture = TestWorkspace::new();
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        let finished = run_without(&[], &fixture.confined(NetworkAccess::Off, &words), tier).expect("a run");
        assert_eq!(String::from_utf8_lossy(&finished.stdout.head).trim(), WORDS.to_string());
    }
    Ok(())
}

fn init_privileges() -> Result<(), Failed> {
    let read = "while read -r name value; do case $name in Cap*|NoNewPrivs:|Seccomp:) echo $name $value;; esac; done";
    let fixture = TestWorkspace::new();
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &format!("{read} < /proc/1/status")]);
    let finished = run_without(&[], &confined, SandboxTier::Full).expect("a run");
    let none = "0000000000000000";
    let caps =
        ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(|name| format!("{name}: {none}\n")).concat();
    let expected = format!("{caps}NoNewPrivs: 1\nSeccomp: 2\n");
    assert_eq!(String::from_utf8_lossy(&finished.stdout.head), expected);
    Ok(())
}

fn lost_child() -> Result<(), Failed> {
    block_on(async {
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
                assert!(began.elapsed() < TEST_TIMEOUT, "{tier:?}: it is still considered ready");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    Ok(())
}

/// The child that would become the program exits, and the init process with it, before the watcher has
/// received limits.
fn no_request() -> Result<(), Failed> {
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        block_on(async {
            let Launcher { setup, control, mut process, .. } =
                Launcher::start(tier).await.expect("a launcher");
            drop(setup);
            let ended = tokio::time::timeout(TEST_TIMEOUT, process.wait()).await.expect("an end");
            assert!(ended.as_ref().is_ok_and(std::process::ExitStatus::success), "{tier:?}: {ended:?}");
            drop(control);
        });
    }
    Ok(())
}
