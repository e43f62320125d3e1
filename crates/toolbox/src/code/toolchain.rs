//! Shared part of the tools that run a program of a project. Selects the linter or test runner that fits the
//! project, previews it for an approval request, finds its executable and version, and builds its command.
//!
//! The program is taken from the project's virtual environment, then from the program directories of the
//! policy and the system. Other programs in a workspace are never started by name. The selection reads names
//! and digests only; the search for the version runs in the sandbox, because it executes the program.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use governance::Permit;
use governance::policy_environment::SYSTEM_FOLDERS;
use registry::CallPreview;
use sandbox::{CommandPreview, RunEnd, SandboxCommand, WorkingDirectory, find_program};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tool::{Failure, FailureKind};

use super::{granted_root, path_directory, with_outcome};
use crate::sandboxed_tool::SandboxSession;
use crate::untrusted_text;

/// Searches from the current directory up to the granted one for a virtual environment with the program, then
/// the search path. Prints the path of the program and runs it to print its version.
const FIND_SCRIPT: &str = r#"name=$1; top=$2; shift 2; here=$PWD
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

/// Bytes captured of the search: enough for a path and a version.
const MAX_OUTPUT_BYTES: usize = 16 * 1024;

/// Home directories of cargo and rustup: name of the directory, and the variable that points to it. Set if
/// the policy lists such a directory as a program directory.
const TOOLCHAIN_HOMES: [(&str, &str); 2] = [(".cargo", "CARGO_HOME"), (".rustup", "RUSTUP_HOME")];

/// Linter or test runner that a caller can request.
pub(super) trait ProjectProgram: Copy + Send + 'static {
    /// Replaces `auto` by the program that fits the project.
    fn in_project(self, project: &Project) -> Self;

    /// Returns the name of the executable.
    fn executable(self) -> &'static str;

    /// Returns the subcommand of the executable, if the program is one.
    fn subcommand(self) -> Option<&'static str>;

    /// Returns the manifest that determines what the program runs.
    fn settings(self) -> Option<&'static str>;
}

/// Executable that ran.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct ToolchainProgram {
    /// Program name.
    pub(super) name: String,
    /// Path of the program.
    pub(super) path: String,
    /// Version that it reports.
    pub(super) version: String,
    /// True if it is from the project's virtual environment, false if it is from the system.
    pub(super) from_project: bool,
}

/// Project as a sandboxed program would see it.
pub(super) struct Project {
    folder: PathBuf,
    /// Granted directory that contains the project.
    top: PathBuf,
    /// Granted directories, and the program directories of the policy and the system.
    visible: Vec<PathBuf>,
}

impl Project {
    fn of(permit: &Permit) -> Result<Project, Failure> {
        let folder = path_directory(permit)?;
        let top = granted_root(permit, &folder).to_owned();
        let roots = permit.sandbox_folders().iter().map(|granted| granted.root().to_owned());
        let system = SYSTEM_FOLDERS.iter().map(PathBuf::from);
        let visible = roots.chain(permit.program_folders().to_vec()).chain(system).collect();
        Ok(Project { folder, top, visible })
    }

    /// Returns true if the project has a file of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.file(&self.folder.join(name)).is_some()
    }

    /// Returns the program of this name in the nearest virtual environment.
    fn in_environment(&self, name: &str) -> Option<PathBuf> {
        let folders = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.top));
        let environments = folders.flat_map(|folder| [folder.join(".venv"), folder.join("venv")]);
        let is_program = |path: &PathBuf| {
            let facts = self.file(path).and_then(|file| file.metadata().ok());
            facts.is_some_and(|facts| facts.permissions().mode() & 0o111 != 0)
        };
        let whole = environments.filter(|folder| self.file(&folder.join("pyvenv.cfg")).is_some());
        whole.map(|folder| folder.join("bin").join(name)).find(is_program)
    }

    /// Returns the canonical file of a path, if a sandboxed program can see it.
    fn file(&self, path: &Path) -> Option<PathBuf> {
        let file = path.canonicalize().ok().filter(|file| file.is_file())?;
        self.visible.iter().any(|root| file.starts_with(root)).then_some(file)
    }
}

/// Checks that the project has these files or directories. A hidden one counts as missing, as it does for a
/// sandboxed program.
pub(super) fn check_files_exist(permit: &Permit, names: &[String]) -> Result<(), Failure> {
    let folder = path_directory(permit)?;
    let is_there = |name: &&String| {
        let path = folder.join(name).canonicalize();
        path.is_ok_and(|path| path.starts_with(granted_root(permit, &folder)) && permit.is_visible(&path))
    };
    match names.iter().find(|name| !is_there(name)) {
        None => Ok(()),
        Some(missing) => {
            let message = format!("`{missing}` does not exist in the project directory");
            let hint = "list_directory shows what is there; paths are relative to `path`";
            Err(with_outcome(Failure::new(FailureKind::NotFound, message).with_hint(hint), "tests_not_run"))
        }
    }
}

/// Previews running the requested program with the arguments that `build_args` builds. An approval is bound to the
/// returned facts. Runs nothing.
pub(super) fn preview<P: ProjectProgram>(
    permit: &Permit,
    requested: P,
    build_args: impl FnOnce(P) -> Result<Vec<OsString>, Failure>,
) -> Result<CallPreview, Failure> {
    let project = Project::of(permit)?;
    let selected = requested.in_project(&project);
    let (name, args) = (selected.executable(), build_args(selected)?);
    let line = [name.into()].into_iter().chain(args.iter().map(|word| word.to_string_lossy()));
    let line = json!(line.collect::<Vec<_>>()).to_string();
    let own = project.in_environment(name);
    // Files that the program loads from its environment: the interpreter and its configuration.
    let beside = own.iter().flat_map(|own| {
        let environment = own.parent().and_then(Path::parent).map(|folder| folder.join("pyvenv.cfg"));
        [Some(own.clone()), Some(own.with_file_name("python")), environment].into_iter().flatten()
    });
    let settings = selected.settings().map(|settings| project.folder.join(settings));
    let named = beside.chain(settings).map(PathBuf::into_os_string);
    let program = if own.is_some() { "sh" } else { name };
    let command = SandboxCommand {
        working_directory: WorkingDirectory::Granted(project.folder),
        variables: variables(permit),
        ..SandboxCommand::read_only(program, named.chain(args).collect(), Instant::now() + permit.timeout())
    };
    let mut command_preview = CommandPreview::of(permit, &command)?;
    if let Some(own) = &own {
        command_preview.program = find_program(own.as_os_str())?;
    }
    let facts = [("runs".to_owned(), line)].into_iter().chain(command_preview.facts()).collect();
    Ok(CallPreview { facts, ..CallPreview::default() })
}

/// Program selected for a project, found and ready to run.
pub(super) struct SelectedProgram<P> {
    pub(super) program: P,
    pub(super) tooling: ToolchainProgram,
    pub(super) folder: PathBuf,
    variables: Vec<(String, OsString)>,
}

impl<P: ProjectProgram> SelectedProgram<P> {
    /// Selects and finds the requested program. Fails if the sandbox finds another executable than the
    /// selection did, which an approval may be bound to.
    pub(super) async fn find(session: &mut SandboxSession, requested: P) -> Result<Self, Failure> {
        let project = Project::of(session.permit())?;
        // On the blocking pool, because disk access may block.
        let select = move || {
            let program = requested.in_project(&project);
            (program, project.in_environment(program.executable()), project)
        };
        let selected = tokio::task::spawn_blocking(select).await;
        let (program, own, project) =
            selected.map_err(|_| Failure::new(FailureKind::Crashed, "inspecting the project failed"))?;
        let variables = variables(session.permit());
        let tooling = tooling(session, &project, program, &variables).await?;
        let is_same = match &own {
            Some(own) => tooling.from_project && own == Path::new(&tooling.path),
            None => !tooling.from_project,
        };
        if !is_same {
            let message = "the project changed since it was inspected: another program would run";
            let failure = Failure::new(FailureKind::Conflict, message);
            return Err(failure.with_hint("nothing of the project was run; try again"));
        }
        Ok(SelectedProgram { program, tooling, folder: project.folder, variables })
    }

    /// Builds the command by which `launcher`, a program of the system, starts the program. A program in the
    /// workspace cannot be started by its own name.
    pub(super) fn command(
        &self,
        (launcher, fixed): (&str, &[&str]),
        args: Vec<OsString>,
        (output_bytes, deadline): (usize, Instant),
    ) -> SandboxCommand {
        let fixed = fixed.iter().map(OsString::from).chain([OsString::from(&self.tooling.path)]);
        SandboxCommand {
            working_directory: WorkingDirectory::Granted(self.folder.clone()),
            variables: self.variables.clone(),
            output_bytes,
            ..SandboxCommand::read_only(launcher, fixed.chain(args).collect(), deadline)
        }
    }
}

/// Finds the executable of a program and runs it to get its version.
async fn tooling<P: ProjectProgram>(
    session: &mut SandboxSession,
    project: &Project,
    program: P,
    variables: &[(String, OsString)],
) -> Result<ToolchainProgram, Failure> {
    let (name, top) = (program.executable(), &project.top);
    let fixed =
        ["-c".into(), FIND_SCRIPT.into(), "sh".into(), OsString::from(name), top.clone().into_os_string()];
    let version_args = program.subcommand().into_iter().chain(["--version"]).map(OsString::from);
    let command = SandboxCommand {
        working_directory: WorkingDirectory::Granted(project.folder.clone()),
        variables: variables.to_vec(),
        output_bytes: MAX_OUTPUT_BYTES,
        ..SandboxCommand::read_only("sh", fixed.into_iter().chain(version_args).collect(), session.deadline)
    };
    let report = session.run(command).await?;
    let stdout = String::from_utf8_lossy(&report.stdout.head);
    let mut lines = stdout.lines();
    let (path, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    match report.end {
        RunEnd::Exited(0) if !path.is_empty() => Ok(ToolchainProgram {
            name: name.to_owned(),
            path: path.to_owned(),
            version: version.trim().to_owned(),
            from_project: Path::new(path).starts_with(top),
        }),
        RunEnd::Exited(127) if path.is_empty() => Err(not_installed(name, "is not installed")),
        _ => {
            let stderr = String::from_utf8_lossy(&report.stderr.head);
            let reason = stderr.lines().last().unwrap_or("it gave no reason");
            Err(not_installed(name, &format!("is at `{path}` and cannot be used: {reason}")))
        }
    }
}

fn not_installed(name: &str, how: &str) -> Failure {
    let hint = format!(
        "install `{name}` system-wide or into `.venv` of the project; if it is installed for one user, add \
         that directory to `program_folders` in tools.yaml. No other program in a workspace is run"
    );
    with_outcome(
        Failure::new(FailureKind::NotFound, format!("`{name}` {how}")).with_hint(hint),
        "not_installed",
    )
}

/// Returns why a program failed, from its stderr: the first error line and the last line.
pub(super) fn failure_reason(stderr: &str) -> String {
    let stderr = untrusted_text::sanitize(stderr);
    let mut lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.clone().find(|line| line.starts_with("error"));
    match (first, lines.next_back()) {
        (Some(first), Some(last)) if first != last => format!("{first}: {last}"),
        (_, Some(last)) => last.to_owned(),
        (_, None) => "it gave no reason".to_owned(),
    }
}

/// Returns the environment variables for programs of a project: offline, non-interactive, without extra files
/// in the project.
fn variables(permit: &Permit) -> Vec<(String, OsString)> {
    let homes = permit.program_folders().iter().filter_map(|folder| {
        let (_, variable) = TOOLCHAIN_HOMES.iter().find(|(name, _)| folder.ends_with(name))?;
        Some(((*variable).to_owned(), folder.clone().into_os_string()))
    });
    let fixed = [
        ("PYTHONDONTWRITEBYTECODE", "1"),
        ("PYTHONNOUSERSITE", "1"),
        ("CARGO_TARGET_DIR", "/tmp/target"),
        ("CARGO_NET_OFFLINE", "true"),
        ("CARGO_TERM_COLOR", "never"),
        ("npm_config_offline", "true"),
        ("npm_config_update_notifier", "false"),
        ("CI", "1"),
    ]
    .map(|(name, value)| (name.to_owned(), OsString::from(value)));
    fixed.into_iter().chain(homes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_has_the_first_error_and_the_last_line() {
        let check = |stderr: &str, expect: &str| assert_eq!(failure_reason(stderr), expect, "{stderr:?}");
        check("", "it gave no reason");
        check("warning: x\n\nno such file\n\n", "no such file");
        check("error: no lock\n\nCaused by:\n  read-only\n", "error: no lock: read-only");
        check("error: only this\n", "error: only this");
    }
}
