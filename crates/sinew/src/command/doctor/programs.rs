//! Checks of the programs that tools start: the path that each resolves to in the PATH of tools, which
//! differs from the PATH of this shell, and its version.

use std::ffi::OsStr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::row::Row;

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
const PATIENCE: Duration = Duration::from_secs(5);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

pub(super) fn rows() -> Vec<Row> {
    PROGRAMS.iter().map(|(name, used_by)| program(name, used_by)).collect()
}

fn program(name: &str, used_by: &str) -> Row {
    match sandbox::find_program(OsStr::new(name)) {
        Ok(found) => {
            let version = version(&found.path).unwrap_or_else(|| "version unknown".to_owned());
            Row::good("programs", name, format!("{} ({version})", found.path.display()))
        }
        Err(_) => Row::note("programs", name, format!("not found; needed by {used_by}")),
    }
}

/// Returns the first line that `--version` prints.
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
    let output = child.wait_with_output().ok()?.stdout;
    let line = String::from_utf8_lossy(&output).lines().next()?.trim().to_owned();
    (!line.is_empty()).then_some(line)
}
