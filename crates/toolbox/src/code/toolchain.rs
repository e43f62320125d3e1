//! Finds the program of a project and its version: in the project's virtual environment, then in the program
//! directories of the policy and the system. Other programs in a workspace are never started by name. The
//! search runs in the sandbox, because asking a program for its version executes it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::{Command, End, Workplace};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

use super::outcome;
use crate::in_walls::Walls;

/// Searches from the current directory up to the granted one for a virtual environment with the program, then
/// the search path. Prints the path of the program and runs it to print its version.
const SCRIPT: &str = r#"name=$1; top=$2; shift 2; here=$PWD
while :; do
  for venv in .venv venv; do
    if [ -f "$here/$venv/pyvenv.cfg" ] && [ -x "$here/$venv/bin/$name" ]; then
      printf '%s\n' "$here/$venv/bin/$name"; exec "$here/$venv/bin/$name" "$@"
    fi
  done
  if [ "$here" = "$top" ] || [ "$here" = / ]; then break; fi
  here=${here%/*}; [ -n "$here" ] || here=/
done
found=$(command -v "$name") || exit 127
printf '%s\n' "$found"; exec "$found" "$@""#;

/// Bytes captured: enough for a path and a version.
const MOST: usize = 16 * 1024;

/// Program that ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Tooling {
    /// Program name.
    pub(super) name: String,
    /// Path of the program.
    pub(super) path: String,
    /// Version that it reports.
    pub(super) version: String,
    /// True if it is from the project's virtual environment, false if it is from the system.
    pub(super) from_project: bool,
}

/// Finds a program and runs it with `words` to get its version.
pub(super) async fn find(
    session: &mut Walls,
    folder: &Path,
    name: &str,
    words: &[&str],
    variables: &[(String, OsString)],
) -> Result<Tooling, Failure> {
    let roots = session.permit().folders().iter().map(|granted| granted.root());
    let root = roots.filter(|root| folder.starts_with(root)).max_by_key(|root| root.components().count());
    let top: PathBuf = root.unwrap_or(folder).to_owned();
    let fixed = ["-c".into(), SCRIPT.into(), "sh".into(), OsString::from(name), top.clone().into_os_string()];
    let arguments = fixed.into_iter().chain(words.iter().map(OsString::from)).collect();
    let command = Command {
        workplace: Workplace::In(folder.to_owned()),
        variables: variables.to_vec(),
        output_bytes: MOST,
        ..Command::read_only("sh", arguments, session.deadline)
    };
    let report = session.run(command).await?;
    let stdout = String::from_utf8_lossy(&report.stdout.head).into_owned();
    let mut lines = stdout.lines();
    let (path, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    match report.end {
        End::Exited(0) if !path.is_empty() => Ok(Tooling {
            name: name.to_owned(),
            path: path.to_owned(),
            version: version.trim().to_owned(),
            from_project: Path::new(path).starts_with(&top),
        }),
        End::Exited(127) if path.is_empty() => Err(not_installed(name, "is not installed")),
        _ => {
            let stderr = String::from_utf8_lossy(&report.stderr.head).into_owned();
            let why = stderr.lines().last().unwrap_or("it gave no reason").to_owned();
            Err(not_installed(name, &format!("is at `{path}` and cannot be used: {why}")))
        }
    }
}

fn not_installed(name: &str, how: &str) -> Failure {
    let hint = format!(
        "install `{name}` system-wide or into `.venv` of the project; if it is installed for one user, add \
         that directory to `program_folders` in tools.yaml. No other program in a workspace is run"
    );
    outcome(Failure::new(FailureKind::NotFound, format!("`{name}` {how}")).hint(hint), "not_installed")
}

/// Returns the arguments with which a program of the system starts the found program, because a program in
/// the workspace cannot be started by its own name.
pub(super) fn starting(tooling: &Tooling, words: Vec<OsString>) -> Vec<OsString> {
    [OsString::from(&tooling.path)].into_iter().chain(words).collect()
}
