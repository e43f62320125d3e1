//! Which file a project's own program is, and which version: from the project's virtual environment, else from the
//! folders that policy names for programs and the system's. Nothing else in a workspace is ever started by its name. Looking happens inside the walls too: asking
//! a program for its version runs it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::{End, Grant};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

use super::outcome;
use crate::in_walls::{Errand, Walls};

/// Looks from where it stands up to the granted folder for a virtual environment that has the program, then on the search
/// path. What it finds it names, and asks for its version.
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

/// Enough for a path and a version.
const MOST: usize = 16 * 1024;

/// The program that ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct Tooling {
    /// What it is called.
    pub(super) name: String,
    /// Its file.
    pub(super) path: String,
    /// What it calls its version.
    pub(super) version: String,
    /// Whether it is from the project's virtual environment, instead of the system.
    pub(super) from_project: bool,
}

/// Finds a program and asks it these words for its version.
pub(super) async fn find(
    walls: &mut Walls,
    folder: &Path,
    name: &str,
    words: &[&str],
    variables: &[(String, OsString)],
) -> Result<Tooling, Failure> {
    let roots = walls.permit().folders().iter().map(|granted| granted.root());
    let root = roots.filter(|root| folder.starts_with(root)).max_by_key(|root| root.components().count());
    let top: PathBuf = root.unwrap_or(folder).to_owned();
    let fixed = ["-c".into(), SCRIPT.into(), "sh".into(), OsString::from(name), top.clone().into_os_string()];
    let errand = Errand {
        program: "sh".into(),
        arguments: fixed.into_iter().chain(words.iter().map(OsString::from)).collect(),
        folder: folder.to_owned(),
        grant: Grant::ReadOnly,
        variables: variables.to_vec(),
        output_bytes: MOST,
    };
    let report = walls.run(errand).await?;
    let said = String::from_utf8_lossy(&report.stdout.head).into_owned();
    let mut lines = said.lines();
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
            let complaint = String::from_utf8_lossy(&report.stderr.head).into_owned();
            let why = complaint.lines().last().unwrap_or("it gave no reason").to_owned();
            Err(not_installed(name, &format!("is at `{path}` and cannot be used: {why}")))
        }
    }
}

fn not_installed(name: &str, how: &str) -> Failure {
    let hint = format!(
        "install `{name}` for the whole machine, or into `.venv` of the project; where it is installed for one user, name \
         that folder in `program_folders` of tools.yaml. Nothing else in a workspace is run"
    );
    outcome(Failure::new(FailureKind::NotFound, format!("`{name}` {how}")).hint(hint), "not_installed")
}

/// The words that start a program that was found: by a program of the system, because one of the workspace is not started
/// by its own name.
pub(super) fn starting(tooling: &Tooling, words: Vec<OsString>) -> Vec<OsString> {
    [OsString::from(&tooling.path)].into_iter().chain(words).collect()
}
