//! Checks of the machine: sandbox, folders, disk, clock, and the programs that tools start.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use sandbox::{Sandbox, SandboxFinding};
use server::{LockHolder, StateLock};
use tool::result::SandboxTier;

use super::Row;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;

const SANDBOX: &str = "sandbox";
/// Disk usage from which the disk of the ledger counts as full.
const FULL_PERCENT: f64 = 97.0;
/// Tolerated difference between file times and the clock: file systems round, and time synchronisation steps
/// the clock by seconds.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);
/// Programs, each with the tools that need it.
const PROGRAMS: [(&str, &str); 8] = [
    ("git", "git_status, git_diff and git_log"),
    ("python3", "manifests with `runtime: python`"),
    ("node", "manifests with `runtime: node`, and run_tests of npm projects"),
    ("cargo", "run_tests and run_linter of Rust projects"),
    ("ruff", "run_linter of Python projects that do not bring their own"),
    ("mypy", "run_linter of Python projects that do not bring their own"),
    ("pytest", "run_tests of Python projects that do not bring their own"),
    ("rg", "the shipped ripgrep manifest"),
];
/// Timeout for `--version`. Interpreters take a while to load.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Tests the sandbox from inside, and checks the operator PIN.
pub(super) fn sandbox(context: &CommandContext) -> Result<Vec<Row>, CommandError> {
    let sandbox = Sandbox::of_this_process();
    let unusable = |error| CommandError::failed(format!("the sandbox cannot be tested: {error}"));
    // Use a temporary folder: before the first start the home does not exist, and two concurrent checks must
    // not share files.
    let own = tempfile::tempdir().map_err(unusable)?;
    let found = sandbox.check(own.path()).map_err(unusable)?;
    let mut rows = vec![tier_row(sandbox), limits_row(sandbox, context)];
    rows.extend(found.iter().map(finding_row));
    rows.push(pin_row(context));
    Ok(rows)
}

fn tier_row(sandbox: &Sandbox) -> Row {
    let availability = sandbox.availability();
    let (check, missing) = ("isolation of programs", availability.missing.join("; "));
    match availability.tier {
        SandboxTier::Full => Row::good(SANDBOX, check, "full"),
        SandboxTier::Reduced => Row::note(SANDBOX, check, format!("reduced: {missing}"))
            .remedy("enable what is missing, or set `min_isolation: reduced` in tools.yaml"),
        SandboxTier::None => Row::bad(SANDBOX, check, format!("none: {missing}"))
            .remedy("fix this: until then tools that must be sandboxed are refused"),
    }
}

/// Reports what enforces the resource limits of a run: in the daemon if one runs, else in this process.
fn limits_row(sandbox: &Sandbox, context: &CommandContext) -> Row {
    let check = "resource limits of a run";
    let daemon = match StateLock::holder(context.home()) {
        LockHolder::Process { pid } => pid,
        LockHolder::NoProcess => None,
    };
    match (sandbox.cgroup_controllers(), daemon) {
        (_, Some(daemon)) if sandbox.has_cgroups(daemon) => {
            Row::good(SANDBOX, check, "enforced by the kernel: the daemon has control groups")
        }
        (Ok(held), _) => Row::good(
            SANDBOX,
            check,
            format!("enforced by the kernel: control groups for {}", held.join(", ")),
        ),
        (Err(why), _) => {
            Row::note(SANDBOX, check, format!("enforced by a watcher, without control groups: {why}"))
        }
    }
}

fn finding_row(finding: &SandboxFinding) -> Row {
    if finding.blocked {
        return Row::good(SANDBOX, format!("cannot {}", finding.attempt), finding.cause.as_str());
    }
    let row = Row::bad(SANDBOX, format!("CAN {}", finding.attempt), finding.cause.as_str());
    match finding.remedy {
        Some(remedy) => row.remedy(remedy),
        None => row,
    }
}

fn pin_row(context: &CommandContext) -> Row {
    match approvals::Pin::at(context.home().state_dir()).is_set() {
        true => Row::good("approvals", "operator PIN", "set: nothing is approved without it"),
        false => {
            Row::note("approvals", "operator PIN", "not set: any process that runs as you can approve calls")
                .remedy("sinew pin set")
        }
    }
}

/// Checks the folders, the disk, the clock, and other copies of this program.
pub(super) fn folders(context: &CommandContext) -> Vec<Row> {
    let home = context.home();
    let mut rows: Vec<Row> = [("config", home.config_dir()), ("tools", home.tools_dir())]
        .map(|(name, path)| folder_row(name, path, |_| Ok(())))
        .into();
    let private = [("state", home.state_dir()), ("log", home.log_dir()), ("run", home.run_dir())];
    rows.extend(private.map(|(name, path)| folder_row(name, path, server::check_private)));
    rows.push(disk_row(home.state_dir()));
    rows.push(clock_row(&compose::ledger_dir(context)));
    rows.push(copies_row());
    rows
}

fn folder_row(name: &str, path: &Path, check: impl Fn(&Path) -> Result<(), server::ServeError>) -> Row {
    let shown = path.display().to_string();
    if !path.exists() {
        return Row::note("folders", name, format!("{shown} (not created yet)"));
    }
    match check(path) {
        Ok(()) => Row::good("folders", name, shown),
        Err(error) => {
            let row = Row::bad("folders", name, error.to_string());
            match error.hint() {
                Some(hint) => row.remedy(hint),
                None => row,
            }
        }
    }
}

fn disk_row(state: &Path) -> Row {
    let there = state.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match system_metrics::used_percent(there) {
        Some(used) if used < FULL_PERCENT => {
            Row::good("machine", "disk of the ledger", format!("{used:.0} % used"))
        }
        Some(used) => Row::bad("machine", "disk of the ledger", format!("{used:.0} % used"))
            .remedy("free some space: no call runs without a ledger record"),
        None => Row::note("machine", "disk of the ledger", "its usage cannot be read"),
    }
}

/// Checks that the newest ledger file is not in the future.
fn clock_row(ledger: &Path) -> Row {
    let newest = std::fs::read_dir(ledger).into_iter().flatten().flatten();
    let newest = newest.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    match newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok()) {
        Some(ahead) if ahead > CLOCK_TOLERANCE => {
            Row::bad("machine", "clock", format!("the last record is {} s in the future", ahead.as_secs()))
                .remedy("set the clock: limits and expiries depend on it")
        }
        _ => Row::good("machine", "clock", "not before the last record"),
    }
}

/// Reports other copies of this program in PATH, which a script might start instead.
fn copies_row() -> Row {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> =
        std::env::split_paths(&path).filter_map(|folder| folder.join("sinew").canonicalize().ok()).collect();
    found.extend(std::env::current_exe().and_then(|this| this.canonicalize()));
    found.sort();
    found.dedup();
    let listed = found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match found.len() {
        0 | 1 => Row::good("machine", "one copy of sinew", listed),
        _ => Row::note("machine", "copies of sinew", listed)
            .remedy("keep one, or use the full path of the one you want"),
    }
}

/// Checks the programs that tools start: the path that each resolves to in the PATH of tools, which differs from the
/// PATH of this shell, and its version.
pub(super) fn programs() -> Vec<Row> {
    PROGRAMS.iter().map(|(name, used_by)| program_row(name, used_by)).collect()
}

fn program_row(name: &str, used_by: &str) -> Row {
    match sandbox::find_program(OsStr::new(name)) {
        Ok(found) => {
            let version = version(&found.path).unwrap_or_else(|| "version unknown".to_owned());
            Row::good("programs", name, format!("{} ({version})", found.path.display()))
        }
        Err(_) => Row::note("programs", name, format!("not found; needed by {used_by}")),
    }
}

/// Returns the first line that `--version` prints.
fn version(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.current_dir("/").spawn().ok()?;
    let deadline = Instant::now() + CHECK_TIMEOUT;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    let output = child.wait_with_output().ok()?.stdout;
    let line = String::from_utf8_lossy(&output).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
