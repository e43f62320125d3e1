//! How runs end: at their deadline, with their launcher, with the daemon; and what is left of them, which is nothing.

use std::time::{Duration, Instant};

use governance::Network;
use libtest_mimic::{Failed, Trial};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tool::SandboxTier;

use crate::check;
use crate::confined::Confined;
use crate::controls::{World, run_without};
use crate::error::SandboxError;
use crate::guard::Guard;
use crate::guard::left_out::{fail_at, leave_out};
use crate::outlets::Outlets;
use crate::pool::Launcher;
use crate::report::End;
use crate::run;
use crate::status::Step;
use crate::wait_for;

/// Long enough for a loaded machine; only a failure waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Long enough for what is to be killed to be gone, were it killed.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

pub(crate) type Case = (&'static str, fn() -> Result<(), Failed>);

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 19] = [
        ("where_a_step_fails_nothing_runs", failing_steps),
        ("walls_hold_when_they_are_leant_against", leant_against),
        ("another_file_than_was_found_is_not_started", pinned),
        ("what_moved_since_it_was_found_is_held_or_nothing_runs", moved),
        ("a_granted_folder_that_became_a_link_is_not_followed", links),
        ("a_run_ends_with_its_launcher", launcher_killed),
        ("a_run_ends_when_nobody_waits_for_it", deserted),
        ("what_was_waited_for_is_gone", waited_for),
        ("who_ends_the_others_counts_them_and_says_so", counted_at_the_end),
        ("whoever_a_program_left_is_gone_when_its_end_is_said", left_behind),
        ("a_first_process_that_says_nothing_is_not_waited_for", silent_first),
        ("who_ends_by_a_signal_without_a_name_has_ended", nameless_signals),
        ("a_program_that_reads_nothing_is_not_waited_for", unread_input),
        ("an_order_of_any_length_arrives_whole", long_order),
        ("the_first_process_has_given_up_all_powers", first_process),
        ("a_child_that_has_its_parents_memory_is_counted_once", one_memory_of_two),
        ("files_in_memory_that_are_mapped_are_counted_once", mapped_scratch),
        ("a_launcher_that_lost_its_first_process_is_not_used", lost_first_process),
        ("a_launcher_whose_order_does_not_come_ends_well", no_order),
    ];
    cases.map(|(name, test)| Trial::test(name, test)).into()
}

/// A number of seconds that no other process sleeps for.
pub(crate) fn word(number: u32) -> String {
    format!("61.{}{number:04}", std::process::id())
}

/// The processes of this machine with a word in their command line.
pub(crate) fn alive(word: &str) -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").expect("processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_word = |id: &i32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        line.windows(word.len()).any(|part| part == word.as_bytes())
    };
    ids.filter(has_word).map(Pid::from_raw).collect()
}

/// Whether nothing with this word is left, or comes to an end in this time.
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

/// Ends what a test left on purpose.
pub(crate) fn clear(word: &str) {
    for process in alive(word) {
        let _ = kill(process, Signal::SIGKILL);
    }
    assert!(vanishes(word, PATIENCE), "what was left on purpose is cleared away");
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
                run::run(&confined, *tier, &mut launcher, &mut Outlets::default()).await
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
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0, "and nothing is left there");
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

/// What was found, and is gone, another file, or not in its folder any more when the walls are built.
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
        assert!(built(&[Guard::SameFile], &confined).is_ok(), "only its number tells it");
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

/// Starts a command and drops everything about it once it runs, its launcher killed first if that is asked.
fn abandon(without: &[Guard], confined: &Confined, tier: SandboxTier, word: &str, kill_launcher: bool) {
    leave_out(without);
    wait_for(async {
        let mut launcher = Launcher::start(tier).await.expect("a launcher");
        let process = launcher.process.id().expect("a launcher");
        let mut outlets = Outlets::default();
        let running = run::run(confined, tier, &mut launcher, &mut outlets);
        tokio::select! {
            ended = running => assert!(kill_launcher && ended.is_err(), "it ended by itself"),
            () = async {
                // The shell names the word as well: two are there once its order is complete and it is at work.
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
    assert!(vanishes(&word, PATIENCE), "they end with it: {:?}", alive(&word));
    abandon(&[Guard::ParentDeath], &confined, SandboxTier::Full, &word, true);
    assert!(!vanishes(&word, LINGER), "without its last word they stay");
    clear(&word);
    Ok(())
}

fn deserted() -> Result<(), Failed> {
    let (world, word) = (World::new(), word(2));
    let script = format!("trap '' TERM; setsid sleep {word} & exec sleep {word}");
    let confined = world.confined(Network::Off, &["sh", "-c", &script]);
    for tier in [SandboxTier::Full, SandboxTier::Reduced] {
        abandon(&[], &confined, tier, &word, false);
        assert!(vanishes(&word, PATIENCE), "{tier:?}: nobody waits, so it ends: {:?}", alive(&word));
    }
    abandon(&[Guard::Desertion], &confined, SandboxTier::Full, &word, false);
    assert!(!vanishes(&word, LINGER), "without it, it runs to its deadline");
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
                ended = run::run(&confined, SandboxTier::Full, &mut launcher, &mut outlets) => {
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
        assert_eq!(alive(&word), [], "by now, and not later; launcher killed: {is_killed}");
    }
    Ok(())
}

/// Who was killed from outside could not say how many there were; the launcher has only seen the most at a time.
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

/// Somebody outside has stopped it: it neither hands on the request to end nor kills anybody.
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
        run::run(&confined, SandboxTier::Full, &mut launcher, &mut Outlets::default()).await
    });
    assert_eq!((finished.expect("an answer").end, alive(&word)), (End::TimedOut, Vec::new()));
    Ok(())
}

/// Libraries have no names for the signals from 34 on, and took who was reaped for somebody who lives on.
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

/// Most of its memory is resident in a parent whose child, not yet another program, waits for a file to be opened.
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
    // More than a socket takes at once.
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
                assert!(began.elapsed() < PATIENCE, "{tier:?}: it still counts as ready");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    });
    Ok(())
}

/// Who would become the program goes, and with it the first process, while who watches has yet to hear of limits.
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
