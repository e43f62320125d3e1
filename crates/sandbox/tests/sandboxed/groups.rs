//! Runs in their own control groups, where these are delegated. If root starts the test program, it delegates
//! a group to the user that it becomes. Otherwise, start the program in a delegated group: `systemd-run
//! --user --scope -p Delegate=yes target/debug/deps/sandboxed-… group`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use governance::files::NetworkAccess;
use libtest_mimic::{Failed, Trial};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use tool::result::SandboxTier;

use crate::backend;
use crate::block_on;
use crate::controls::{TestWorkspace, attempt_in_group, is_escape, run_in_group_without};
use crate::ends::{alive, kill_remaining, unique_seconds, vanishes};
use crate::error::SandboxError;
use crate::launch::pool::Launcher;
use crate::layers::SandboxLayer::{
    self, CgroupKill, CgroupMemory, CgroupProcesses, CpuLimit, KillDescendants, Landlock, MemoryMonitor,
    ProcessLimit, ReadOnlyRoot,
};
use crate::report::RunEnd;

/// Text that the names of these tests contain, and no others.
const SELECTOR: &str = "group";
/// Name prefix of a test's group, followed by its process id.
const TEST_PREFIX: &str = "sinew-test-";
/// Long enough for a loaded machine; only a failing test waits this long.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);
const LINGER: Duration = Duration::from_millis(500);
const BOTH: [SandboxTier; 2] = [SandboxTier::Full, SandboxTier::Reduced];

/// Name, required controller and function of a test; the function receives the folder of the groups.
type Case = (&'static str, &'static str, fn(&Path));

pub(crate) fn trials() -> Vec<Trial> {
    let cases: [Case; 7] = [
        ("each_run_has_its_own_group_that_is_removed_with_it", "", own_group),
        ("memory_is_limited_by_the_group", "memory", memory),
        ("processes_are_limited_by_the_group", "pids", processes),
        ("all_processes_of_a_group_are_killed_with_it", "", killed),
        ("run_cannot_change_its_group", "pids", closed),
        ("group_of_a_killed_launcher_is_removed", "", swept),
        ("nothing_runs_if_no_group_can_be_created", "", refused),
    ];
    let trial = |(name, needs, test): Case| Trial::test(name, move || check(needs, test));
    cases.map(trial).into()
}

fn check(needs: &str, test: fn(&Path)) -> Result<(), Failed> {
    match backend::cgroup_controllers() {
        Ok(held) if needs.is_empty() || held.contains(&needs) => {
            println!("the kernel limits {held:?}");
            test(&folder());
        }
        Ok(held) => ::tests::left_out(&format!("the groups here limit {held:?}, but not {needs}")),
        Err(why) => ::tests::left_out(why),
    }
    Ok(())
}

/// Returns the folder in which the groups of runs are created, next to that of this process.
fn folder() -> PathBuf {
    let word = backend::cgroup_argument().into_string().expect("text");
    PathBuf::from(word.split_once(':').expect("controllers and a folder").1)
}

fn groups_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("a folder of groups").flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.contains("-run-"))
        .collect()
}

fn assert_groups_removed(folder: &Path, what: &str) {
    let began = Instant::now();
    while !groups_in(folder).is_empty() {
        assert!(began.elapsed() < TEST_TIMEOUT, "{what}: {:?}", groups_in(folder));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Makes an attempt without the CPU limit: on an emulated machine, a second of processor time passes quickly.
fn attempt(
    tier: SandboxTier,
    without: &[SandboxLayer],
    name: &str,
) -> Result<(RunEnd, String), SandboxError> {
    attempt_in_group(tier, NetworkAccess::Off, &[without, &[CpuLimit]].concat(), name)
}

fn own_group(folder: &Path) {
    for tier in BOTH {
        let fixture = TestWorkspace::new();
        let confined = fixture.confined(NetworkAccess::Off, &["cat", "/proc/self/cgroup"]);
        let finished = run_in_group_without(&[], &confined, tier).expect("a run");
        let text = String::from_utf8_lossy(&finished.stdout.head).into_owned();
        let line = text.lines().find(|line| line.starts_with("0::")).expect("a group");
        assert!(line.contains("/sinew-run-"), "{tier:?}: {line}");
        assert_groups_removed(folder, "after a run");
        block_on(async { Launcher::start(tier).await.expect("a launcher").end().await });
        assert_groups_removed(folder, "after an unused launcher");
    }
}

fn memory(folder: &Path) {
    let fill =
        |tier, without: &[SandboxLayer]| attempt(tier, without, "fill_memory_in_children").expect("a run");
    for tier in BOTH {
        assert_eq!(fill(tier, &[MemoryMonitor]).0, RunEnd::OutOfMemory, "{tier:?}: by the kernel");
        assert_eq!(fill(tier, &[CgroupMemory]).0, RunEnd::OutOfMemory, "{tier:?}: by the watcher");
        let escaped = Ok(fill(tier, &[MemoryMonitor, CgroupMemory]));
        assert!(is_escape(&escaped), "{tier:?}: {escaped:?}");
        let hops = attempt(tier, &[MemoryMonitor], "hop_from_process_to_process");
        assert_eq!(hops.expect("a run").0, RunEnd::OutOfMemory, "{tier:?}: in whichever process");
    }
    let fixture = TestWorkspace::new();
    let confined = fixture.confined(NetworkAccess::Off, &["tail", "/dev/zero"]);
    let finished =
        run_in_group_without(&[MemoryMonitor, CpuLimit], &confined, SandboxTier::Full).expect("a run");
    assert_eq!(finished.end, RunEnd::OutOfMemory);
    let most = finished.usage.max_rss_bytes >> 20;
    assert!((100..160).contains(&most), "128 MiB were granted, program pages not included: {most}");
    assert_groups_removed(folder, "after the runs");
}

fn processes(folder: &Path) {
    let fork = |tier, without: &[SandboxLayer]| attempt(tier, without, "fork_many");
    let text = |tried: &Result<(RunEnd, String), SandboxError>| format!("{tried:?}");
    let held = fork(SandboxTier::Full, &[ProcessLimit]);
    assert!(text(&held).contains("EAGAIN"), "{held:?}");
    let free = fork(SandboxTier::Full, &[ProcessLimit, CgroupProcesses]);
    assert!(is_escape(&free), "{free:?}");
    let held = fork(SandboxTier::Reduced, &[]);
    assert!(text(&held).contains("EAGAIN"), "the fork is refused and the run goes on: {held:?}");
    assert_groups_removed(folder, "after the runs");
}

fn killed(folder: &Path) {
    let (fixture, word) = (TestWorkspace::new(), unique_seconds(5));
    let script = format!(
        "(setsid sh -c 'echo > up; exec sleep {word}' >/dev/null 2>&1 &) ; while [ ! -e up ]; do :; done; rm up; echo done"
    );
    let confined = fixture.confined(NetworkAccess::Off, &["sh", "-c", &script]);
    let run = |without: &[SandboxLayer]| {
        let finished = run_in_group_without(without, &confined, SandboxTier::Reduced).expect("a run");
        assert_eq!((finished.end, finished.stdout.head.as_slice()), (RunEnd::Exited(0), &b"done\n"[..]));
    };
    run(&[KillDescendants]);
    assert!(vanishes(&word, LINGER), "{:?}", alive(&word));
    run(&[KillDescendants, CgroupKill]);
    assert_groups_removed(folder, "a group is removed with its processes");
    kill_remaining(&word);
}

fn closed(_: &Path) {
    let raise = |tier, without: &[SandboxLayer]| attempt(tier, without, "raise_limits_of_group");
    for tier in BOTH {
        // The reduced tier has no mounts.
        let held: &[&[SandboxLayer]] = match tier {
            SandboxTier::Full => &[&[], &[Landlock], &[ReadOnlyRoot]],
            SandboxTier::Reduced | SandboxTier::None => &[&[]],
        };
        for without in held {
            let text = raise(tier, without);
            assert!(!is_escape(&text), "{tier:?} without {without:?}: {text:?}");
        }
        let open = raise(tier, &[Landlock, ReadOnlyRoot]);
        assert!(is_escape(&open), "{tier:?}: {open:?}");
    }
}

fn swept(folder: &Path) {
    block_on(async {
        let launcher = Launcher::start(SandboxTier::Full).await.expect("a launcher");
        let process = launcher.process.id().expect("a launcher");
        kill(Pid::from_raw(process.cast_signed()), Signal::SIGKILL).expect("a launcher to kill");
        launcher.end().await;
        assert_eq!(groups_in(folder), [format!("sinew-run-{process}")], "the launcher could not remove it");
        Launcher::start(SandboxTier::Full).await.expect("another").end().await;
    });
    assert_groups_removed(folder, "the next launcher removes it");
}

fn refused(folder: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let set = |mode| std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).expect("a mode");
    let fixture = TestWorkspace::new();
    let confined = fixture.confined(NetworkAccess::Off, &["touch", "made"]);
    set(0o500);
    let ran = BOTH.map(|tier| run_in_group_without(&[], &confined, tier).err());
    set(0o755);
    for problem in ran {
        let text = problem.map(|problem| problem.to_string()).unwrap_or_default();
        assert!(text.contains("could not be built") && text.contains("control group"), "{text}");
    }
    assert!(!fixture.workspace.join("made").exists(), "nothing ran");
}

/// As root, and if these tests are selected: moves this process into a group that is delegated to the user it
/// becomes.
pub(crate) fn delegate() {
    if geteuid().is_root()
        && std::env::args().any(|word| word.contains(SELECTOR))
        && let Err(error) = delegate_group()
    {
        println!("no group can be delegated: {error}");
    }
}

fn delegate_group() -> io::Result<()> {
    const WHO: u32 = 65534;
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let line = mounts.lines().find(|line| line.contains(" - cgroup2 ")).ok_or(io::ErrorKind::NotFound)?;
    let top = PathBuf::from(line.split(' ').nth(4).ok_or(io::ErrorKind::InvalidData)?);
    remove_stale_groups(&top);
    for controller in ["+memory", "+pids"] {
        // A controller may be in use by cgroup v1.
        let _ = std::fs::write(top.join("cgroup.subtree_control"), controller);
    }
    let own = top.join(format!("{TEST_PREFIX}{}", std::process::id()));
    match std::fs::create_dir(&own) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        std::os::unix::fs::chown(own.join(name), Some(WHO), Some(WHO))?;
    }
    std::fs::write(own.join("cgroup.procs"), std::process::id().to_string())
}

/// A process cannot remove its own group, so the next one does. Other test programs may run at the same time.
fn remove_stale_groups(top: &Path) {
    let is_gone = |name: &str| {
        let process =
            name.strip_prefix(TEST_PREFIX).and_then(|number| number.parse().ok()).map(Pid::from_raw);
        process.is_some_and(|process| kill(process, None) == Err(Errno::ESRCH))
    };
    for entry in std::fs::read_dir(top).into_iter().flatten().flatten() {
        if is_gone(&entry.file_name().to_string_lossy()) {
            for below in std::fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                let _ = std::fs::remove_dir(below.path());
            }
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}
