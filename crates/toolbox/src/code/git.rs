//! Runs git as a sandboxed process that executes no program chosen by the repository.
//!
//! By default, reading a repository executes code: its configuration names programs for many git operations.
//! They are disabled one by one, those without a fixed name are detected first, and the sandbox covers the
//! remaining ones: no network, no write access, and of the user's files only the workspaces.

mod git_arguments;
mod survey;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::{RunEnd, RunReport, SandboxCommand, WorkingDirectory};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

pub(super) use git_arguments::{RepoPath, Revision, exclude_pathspec};

use super::{granted_root, path_directory, with_outcome};
use crate::sandboxed_tool::SandboxSession;
use survey::RepositorySurvey;

/// Bytes captured of the survey. A repository whose configuration exceeds this is refused.
const MAX_SURVEY_BYTES: usize = 4 * 1024 * 1024;

/// Settings that override the repository's configuration. Settings that name a program name one that does
/// nothing.
const FORCED_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.sshCommand", "false"),
    ("core.askPass", "false"),
    ("core.editor", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "false"),
    ("core.quotePath", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.orderFile", "/dev/null"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("mailmap.file", "/dev/null"),
    ("maintenance.auto", "false"),
    ("protocol.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
];

/// Git program that ran.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct GitProgram {
    /// Path of the program.
    path: String,
    /// SHA-256 of that file.
    sha256: String,
    /// Version that it reports.
    version: String,
}

/// Repository that the policy allows git to read.
pub(super) struct Repository {
    directory: PathBuf,
    survey: RepositorySurvey,
    variables: Vec<(String, OsString)>,
}

impl Repository {
    /// Opens the repository of the call's directory. Fails if any part of it is outside the granted
    /// directories.
    pub(super) async fn open(session: &mut SandboxSession) -> Result<Repository, Failure> {
        let folder = path_directory(session.permit())?;
        let ceiling = granted_root(session.permit(), &folder).to_owned();
        let command = SandboxCommand {
            working_directory: WorkingDirectory::Granted(folder.clone()),
            variables: git_environment(&ceiling, None),
            output_bytes: MAX_SURVEY_BYTES,
            ..SandboxCommand::read_only(
                "sh",
                vec!["-c".into(), survey::SURVEY_SCRIPT.into()],
                session.deadline,
            )
        };
        let report = session.run(command).await?;
        if report.end != RunEnd::Exited(0) || report.stdout.omitted > 0 {
            return Err(git_failure(&folder, &report));
        }
        // Git skips an alternate that the sandbox hides and prints a warning; the repository still refers to
        // it.
        if String::from_utf8_lossy(&report.stderr.head).contains("alternate") {
            return Err(survey::repository_not_allowed(
                "it uses objects from a directory that was not granted",
            ));
        }
        // A name that is not UTF-8 could not be overridden by that name.
        let stdout = std::str::from_utf8(&report.stdout.head).map_err(|_| {
            survey::repository_not_allowed("its configuration has names that are not valid UTF-8")
        })?;
        let survey = RepositorySurvey::parse(stdout).ok_or_else(|| {
            survey::repository_not_allowed(
                "it is bare, has an unknown format, or has a path with a line break",
            )
        })?;
        let permit = session.permit();
        let granted =
            |part: &Path| permit.sandbox_folders().iter().any(|folder| part.starts_with(folder.root()));
        survey.check_access(|part| granted(part) && permit.is_visible(part))?;
        let variables = git_environment(&ceiling, Some(&survey));
        Ok(Repository { directory: folder, survey, variables })
    }

    /// Returns the root of its working tree.
    pub(super) fn worktree_root(&self) -> &Path {
        &self.survey.worktree_root
    }

    /// Runs git with these arguments and captures `output_bytes` of its output.
    pub(super) async fn run_git(
        &self,
        session: &mut SandboxSession,
        git_args: Vec<OsString>,
        output_bytes: usize,
    ) -> Result<(RunReport, GitProgram), Failure> {
        let fixed = ["--no-pager", "--no-optional-locks"].map(OsString::from);
        let command = SandboxCommand {
            working_directory: WorkingDirectory::Granted(self.directory.clone()),
            variables: self.variables.clone(),
            output_bytes,
            ..SandboxCommand::read_only("git", fixed.into_iter().chain(git_args).collect(), session.deadline)
        };
        let report = session.run(command).await?;
        if report.end != RunEnd::Exited(0) {
            return Err(git_failure(&self.directory, &report));
        }
        let program = GitProgram {
            path: report.executable.path.display().to_string(),
            sha256: report.executable.sha256.clone(),
            version: self.survey.version.clone(),
        };
        Ok((report, program))
    }
}

/// Builds the complete environment of git: only the repository's own configuration applies, and ours
/// overrides it.
fn git_environment(root: &Path, survey: Option<&RepositorySurvey>) -> Vec<(String, OsString)> {
    let mut all: Vec<(String, OsString)> = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_ASKPASS", "false"),
        ("SSH_ASKPASS", "false"),
        ("GIT_PAGER", "cat"),
        ("LC_ALL", "C"),
    ]
    .map(|(name, value)| (name.to_owned(), value.into()))
    .to_vec();
    // Git searches for a repository up to the granted directory and not above it.
    all.push(("GIT_CEILING_DIRECTORIES".to_owned(), root.parent().unwrap_or(root).into()));
    let programs = survey.map(|survey| survey.program_keys.as_slice()).unwrap_or_default();
    if let Some(survey) = survey.filter(|survey| !survey.program_keys.is_empty()) {
        // Attributes select filter programs. Without any program they only set line endings, and stay active.
        all.push(("GIT_ATTR_SOURCE".to_owned(), survey.empty_tree.into()));
    }
    let blank = |key: &String| {
        let nothing = if key.ends_with(".required") { "false" } else { "" };
        (key.clone(), nothing)
    };
    let fixed = FORCED_SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), *value));
    let settings: Vec<(String, &str)> = fixed.chain(programs.iter().map(blank)).collect();
    all.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string().into()));
    for (number, (key, value)) in settings.into_iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
    }
    all
}

/// Converts an error of git into a failure for the caller.
fn git_failure(folder: &Path, report: &RunReport) -> Failure {
    let stderr = String::from_utf8_lossy(&report.stderr.head).into_owned();
    let has = |phrase: &str| stderr.contains(phrase);
    let directory = folder.display();
    if has("cannot use bare repository") {
        return survey::repository_not_allowed(
            "it is bare, so any directory could provide git's configuration",
        );
    }
    if has("dubious ownership") {
        let message = format!("the repository of `{directory}` is owned by another user");
        let hint = "the owner of a repository controls what git runs in it; use a repository that you own";
        return with_outcome(
            Failure::new(FailureKind::Unreadable, message).with_hint(hint),
            "repo_not_allowed",
        );
    }
    if has("not a git repository:") || has(survey::UNUSABLE_MARKER) {
        return survey::repository_not_allowed(
            "its `.git` is broken, or points to another directory that git would read",
        );
    }
    if has("not a git repository") {
        let message = format!("`{directory}` is not in a git repository");
        let hint = "pass the directory of a repository; directories above the workspace are not searched";
        return with_outcome(
            Failure::new(FailureKind::NotFound, message).with_hint(hint),
            "not_a_repository",
        );
    }
    if has("bad revision 'HEAD'") || has("does not have any commits yet") {
        let failure = Failure::new(FailureKind::NotFound, format!("`{directory}` has no commits yet"));
        return with_outcome(failure, "unknown_revision");
    }
    if ["unknown revision", "bad revision", "ambiguous argument", "bad object", "Invalid revision"]
        .iter()
        .any(|phrase| has(phrase))
    {
        let message = format!("`{directory}` has no such commit: {}", first_line(&stderr));
        let hint = "use git_log to list the commits";
        return with_outcome(
            Failure::new(FailureKind::NotFound, message).with_hint(hint),
            "unknown_revision",
        );
    }
    let reason =
        if report.stdout.omitted > 0 { "its configuration is too large" } else { first_line(&stderr) };
    Failure::new(FailureKind::Io, format!("git could not read the repository of `{directory}`: {reason}"))
        .with_hint("run [\"git\", \"status\"] with run_command to see the full error")
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_named_by_the_repository_are_overridden() {
        let survey = RepositorySurvey {
            version: String::new(),
            empty_tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            worktree_root: "/w/r".into(),
            git_dirs: Vec::new(),
            program_keys: vec!["filter.x=y.clean".into(), "filter.x=y.required".into()],
        };
        let all = git_environment(Path::new("/w/r"), Some(&survey));
        let get = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let count = FORCED_SETTINGS.len() + 2;
        assert_eq!(get("GIT_CONFIG_COUNT"), Some(count.to_string().into()));
        let pair = |number: usize| {
            (get(&format!("GIT_CONFIG_KEY_{number}")), get(&format!("GIT_CONFIG_VALUE_{number}")))
        };
        assert_eq!(pair(count - 2), (Some("filter.x=y.clean".into()), Some("".into())));
        assert_eq!(pair(count - 1), (Some("filter.x=y.required".into()), Some("false".into())));
        assert_eq!(get("GIT_CEILING_DIRECTORIES"), Some("/w".into()));
        assert!(get("GIT_ATTR_SOURCE").is_some());
        let plain = RepositorySurvey { program_keys: Vec::new(), ..survey };
        let all = git_environment(Path::new("/w/r"), Some(&plain));
        assert!(
            !all.iter().any(|(name, _)| name == "GIT_ATTR_SOURCE"),
            "attributes for line endings stay active"
        );
    }
}
