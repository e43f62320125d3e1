//! Git as a confined process that runs nothing of the repository's choosing.
//!
//! Reading a repository is running code by default: its configuration names programs for half of what git does. They are
//! switched off one by one, those that have no fixed name are looked for first, and the walls are there for what was
//! forgotten: no network, nothing to write, nothing of the user's but the workspaces.

mod names;
mod survey;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use sandbox::{End, Grant, Report};
use schemars::JsonSchema;
use serde::Serialize;
use tool::{Failure, FailureKind};

pub(super) use names::{RepoPath, Revision, all_but};

use super::{folder_of, outcome};
use crate::in_walls::{Errand, Walls};
use survey::Survey;

/// Enough for the settings of any repository; one that has more is not surveyed half.
const MOST_SURVEYED: usize = 4 * 1024 * 1024;

/// Settings that hold whatever the repository says. What names a program names one that does nothing.
const SETTINGS: &[(&str, &str)] = &[
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

/// The program that ran.
#[derive(Clone, Serialize, JsonSchema)]
pub(super) struct Program {
    /// Its file.
    path: String,
    /// The digest of that file.
    sha256: String,
    /// What it calls its version.
    version: String,
}

/// A repository that may be read.
pub(super) struct Repository {
    folder: PathBuf,
    survey: Survey,
    variables: Vec<(String, OsString)>,
}

impl Repository {
    /// The repository that the folder of the call belongs to, unless a part of it is elsewhere.
    pub(super) async fn open(walls: &mut Walls) -> Result<Repository, Failure> {
        let folder = folder_of(walls.permit())?;
        let roots = walls.permit().folders().iter().map(|granted| granted.root());
        let root = roots.filter(|root| folder.starts_with(root)).max_by_key(|root| root.components().count());
        let ceiling = root.unwrap_or(&folder).to_owned();
        let errand = Errand {
            program: "sh".into(),
            arguments: vec!["-c".into(), survey::SCRIPT.into()],
            folder: folder.clone(),
            grant: Grant::ReadOnly,
            variables: variables(&ceiling, None),
            output_bytes: MOST_SURVEYED,
        };
        let report = walls.run(errand).await?;
        if report.end != End::Exited(0) || report.stdout.omitted > 0 {
            return Err(refused(&folder, &report));
        }
        // An alternate that the walls hide is skipped by git with a complaint; the repository still asked for it.
        if String::from_utf8_lossy(&report.stderr.head).contains("alternate") {
            return Err(survey::not_allowed("it borrows objects from another folder"));
        }
        // A name that is not Unicode could not be switched off by that name.
        let said = std::str::from_utf8(&report.stdout.head)
            .map_err(|_| survey::not_allowed("its configuration has names that are not Unicode"))?;
        let survey = Survey::read(said).ok_or_else(|| {
            survey::not_allowed("it is bare, or of a kind that is not known, or git would read something")
        })?;
        let permit = walls.permit();
        let granted = |part: &Path| permit.folders().iter().any(|folder| part.starts_with(folder.root()));
        survey.check(|part| granted(part) && permit.shows(part))?;
        let variables = variables(&ceiling, Some(&survey));
        Ok(Repository { folder, survey, variables })
    }

    /// The folder of its working tree.
    pub(super) fn top(&self) -> &Path {
        &self.survey.top
    }

    /// Runs git with these words, and keeps so much of what it says.
    pub(super) async fn git(
        &self,
        walls: &mut Walls,
        words: Vec<OsString>,
        output_bytes: usize,
    ) -> Result<(Report, Program), Failure> {
        let fixed = ["--no-pager", "--no-optional-locks"].map(OsString::from);
        let errand = Errand {
            program: "git".into(),
            arguments: fixed.into_iter().chain(words).collect(),
            folder: self.folder.clone(),
            grant: Grant::ReadOnly,
            variables: self.variables.clone(),
            output_bytes,
        };
        let report = walls.run(errand).await?;
        if report.end != End::Exited(0) {
            return Err(refused(&self.folder, &report));
        }
        let program = Program {
            path: report.executable.path.display().to_string(),
            sha256: report.executable.sha256.clone(),
            version: self.survey.version.clone(),
        };
        Ok((report, program))
    }
}

/// Git's environment, made from nothing: no settings but the repository's own, and ours above them.
fn variables(root: &Path, survey: Option<&Survey>) -> Vec<(String, OsString)> {
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
    // A repository is looked for up to the granted folder and not above it.
    all.push(("GIT_CEILING_DIRECTORIES".to_owned(), root.parent().unwrap_or(root).into()));
    let programs = survey.map(|survey| survey.programs.as_slice()).unwrap_or_default();
    if let Some(survey) = survey.filter(|survey| !survey.programs.is_empty()) {
        // Attributes choose among programs; without any program to choose they decide line ends and stay.
        all.push(("GIT_ATTR_SOURCE".to_owned(), survey.empty_tree.into()));
    }
    let blank = |key: &String| {
        let nothing = if key.ends_with(".required") { "false" } else { "" };
        (key.clone(), nothing)
    };
    let fixed = SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), *value));
    let settings: Vec<(String, &str)> = fixed.chain(programs.iter().map(blank)).collect();
    all.push(("GIT_CONFIG_COUNT".to_owned(), settings.len().to_string().into()));
    for (number, (key, value)) in settings.into_iter().enumerate() {
        all.push((format!("GIT_CONFIG_KEY_{number}"), key.into()));
        all.push((format!("GIT_CONFIG_VALUE_{number}"), value.into()));
    }
    all
}

/// What git's refusal means for the caller.
fn refused(folder: &Path, report: &Report) -> Failure {
    let said = String::from_utf8_lossy(&report.stderr.head).into_owned();
    let has = |words: &str| said.contains(words);
    let place = folder.display();
    if has("cannot use bare repository") {
        return survey::not_allowed(
            "it is bare, and git would take its settings from a folder like any other",
        );
    }
    if has("dubious ownership") {
        let message = format!("the repository of `{place}` belongs to another user");
        let hint = "whoever owns a repository decides what git runs in it; use one of your own";
        return outcome(Failure::new(FailureKind::Unreadable, message).hint(hint), "repo_not_allowed");
    }
    if has("not a git repository:") || has(survey::UNUSABLE) {
        return survey::not_allowed("its `.git` is broken, or leads to another folder that git would read");
    }
    if has("not a git repository") {
        let message = format!("`{place}` is in no git repository");
        let hint = "give the folder of a repository; nothing above the workspace is looked at";
        return outcome(Failure::new(FailureKind::NotFound, message).hint(hint), "not_a_repository");
    }
    if ["unknown revision", "bad revision", "ambiguous argument", "bad object", "Invalid revision"]
        .iter()
        .any(|words| has(words))
    {
        let message = format!("`{place}` has no such commit: {}", first_line(&said));
        let hint = "git_log shows which commits there are";
        return outcome(Failure::new(FailureKind::NotFound, message).hint(hint), "unknown_revision");
    }
    let why = if report.stdout.omitted > 0 { "its settings are too large" } else { first_line(&said) };
    Failure::new(FailureKind::Io, format!("git could not read the repository of `{place}`: {why}"))
        .hint("run_command with [\"git\", \"status\"] shows all that git says")
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or("it gave no reason")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_the_repository_names_is_blanked_last() {
        let survey = Survey {
            version: String::new(),
            empty_tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
            top: "/w/r".into(),
            parts: Vec::new(),
            programs: vec!["filter.x=y.clean".into(), "filter.x=y.required".into()],
        };
        let all = variables(Path::new("/w/r"), Some(&survey));
        let get = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        let count = SETTINGS.len() + 2;
        assert_eq!(get("GIT_CONFIG_COUNT"), Some(count.to_string().into()));
        let pair = |number: usize| {
            (get(&format!("GIT_CONFIG_KEY_{number}")), get(&format!("GIT_CONFIG_VALUE_{number}")))
        };
        assert_eq!(pair(count - 2), (Some("filter.x=y.clean".into()), Some("".into())));
        assert_eq!(pair(count - 1), (Some("filter.x=y.required".into()), Some("false".into())));
        assert_eq!(get("GIT_CEILING_DIRECTORIES"), Some("/w".into()));
        assert!(get("GIT_ATTR_SOURCE").is_some());
        let plain = Survey { programs: Vec::new(), ..survey };
        let all = variables(Path::new("/w/r"), Some(&plain));
        assert!(!all.iter().any(|(name, _)| name == "GIT_ATTR_SOURCE"), "line ends stay as they are meant");
    }
}
