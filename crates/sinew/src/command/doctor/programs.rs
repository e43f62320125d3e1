//! The programs that tools start: which file each is on the path that tools have, whatever path this shell has, and
//! which version it says it is.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::row::Row;

/// What each is for, where it is missing.
const PROGRAMS: [(&str, &str); 8] = [
    ("git", "git_status, git_diff and git_log"),
    ("python3", "manifests with `runtime: python`"),
    ("node", "manifests with `runtime: node`, and run_tests of npm projects"),
    ("cargo", "run_tests and run_linter of Rust projects"),
    ("ruff", "run_linter of Python projects without one of their own"),
    ("mypy", "run_linter of Python projects without one of their own"),
    ("pytest", "run_tests of Python projects without one of their own"),
    ("rg", "the shipped ripgrep manifest"),
];
/// An interpreter takes a while to load.
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

pub(super) fn rows() -> Vec<Row> {
    PROGRAMS.iter().map(|(name, used_by)| program(name, used_by)).collect()
}

fn program(name: &str, used_by: &str) -> Row {
    match sandbox::find_program(OsStr::new(name)) {
        Ok(found) => {
            let version = version(&found.path).unwrap_or_else(|| "does not say its version".to_owned());
            Row::good("programs", name, format!("{} ({version})", found.path.display()))
        }
        Err(_) => Row::note("programs", name, format!("not found; wanted by {used_by}")),
    }
}

/// The first line it prints.
fn version(path: &std::path::Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.current_dir("/").spawn().ok()?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            child.kill().ok()?;
            child.wait().ok()?;
            return None;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    let said = child.wait_with_output().ok()?.stdout;
    let line = String::from_utf8_lossy(&said).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
