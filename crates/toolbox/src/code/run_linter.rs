//! `run_linter`: what a project's linter complains about, in one shape. It runs in walls: its settings and plug-ins are the
//! project's code.

use std::ffi::OsString;
use std::path::Path;

use governance::Permit;
use registry::Preview;
use sandbox::{End, Grant, Report, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, CutUnit, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec, Truncation,
};

use super::complaints::{self, Complaint};
use super::foreseen::Foreseen;
use super::git::RepoPath;
use super::toolchain::{self, Tooling};
use super::{folder_of, outcome, project};
use crate::in_walls::{Errand, InWalls, Walls, Work};
use crate::room;
use crate::tool_entry::{Answer, ToolEntry, this_folder};

/// What is kept of what a linter says, half of it from the beginning, which is all that is read: some thousand complaints.
const MOST_OUTPUT: usize = 2 * 4 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The project, absolute or relative to the workspace.
    #[serde(default = "this_folder", rename = "path")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _path: String,
    /// Which linter; `auto` takes clippy where there is a Cargo.toml, and ruff elsewhere.
    #[serde(default)]
    linter: Linter,
    /// Only these files or folders, relative to `path`. Clippy always looks at the whole project.
    #[serde(default)]
    #[schemars(length(max = 200))]
    files: Vec<RepoPath>,
    /// At most this many complaints.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 5000))]
    max_entries: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Linter {
    #[default]
    Auto,
    Ruff,
    Mypy,
    Clippy,
}

fn usual_count() -> usize {
    500
}

#[derive(Serialize, JsonSchema)]
struct Linted {
    /// What ran.
    program: Tooling,
    /// Whether there is nothing to complain about.
    clean: bool,
    /// What there is.
    complaints: Vec<Complaint>,
    /// How many there are in all.
    total: u64,
    /// What it said besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolEntry {
    let about = "Run a project's linter (ruff, mypy or clippy) in a sandbox without network, and list its complaints.";
    let mut spec = ToolSpec::new("run_linter", about, Category::READ_ONLY, RiskLevel::Medium);
    spec.allowed_modes = vec![Mode::Normal, Mode::Alert, Mode::Degraded, Mode::Recovery];
    spec.requires_sandbox = true;
    spec.timeout_seconds = 120;
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"path": ".", "linter": "ruff"}));
    let executor = std::sync::Arc::new(InWalls::new(sandbox, lint).foretold(foresee));
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Linted>(), executor)
}

fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    let project = Foreseen::of(permit)?;
    let linter = arguments.linter.in_project(&project);
    let settings = (linter == Linter::Clippy).then_some("Cargo.toml");
    project.preview(permit, linter.program(), settings, words(linter, &arguments.files)?)
}

impl Linter {
    /// The one that `auto` stands for.
    fn in_project(self, project: &Foreseen) -> Linter {
        match self {
            Linter::Auto if project.has("Cargo.toml") => Linter::Clippy,
            Linter::Auto => Linter::Ruff,
            named => named,
        }
    }

    fn program(self) -> &'static str {
        match self {
            Linter::Mypy => "mypy",
            Linter::Clippy => "cargo",
            Linter::Auto | Linter::Ruff => "ruff",
        }
    }
}

fn lint<'a>(walls: &'a mut Walls, arguments: &'a Arguments) -> Work<'a, Linted> {
    Box::pin(async move {
        let folder = folder_of(walls.permit())?;
        let asked = arguments.linter;
        let in_project = move |project: &Foreseen| {
            let linter = asked.in_project(project);
            (linter, linter.program())
        };
        let chosen = Foreseen::of(walls.permit())?.choose(in_project).await?;
        let linter = chosen.runner;
        let variables = project::variables(walls.permit());
        let asked: &[&str] = if linter == Linter::Clippy { &["clippy", "--version"] } else { &["--version"] };
        let program = toolchain::find(walls, &folder, linter.program(), asked, &variables).await?;
        chosen.agrees(&program)?;
        walls.tell(format!("{} {}", program.name, program.version));
        let errand = Errand {
            program: "env".into(),
            arguments: toolchain::starting(&program, words(linter, &arguments.files)?),
            folder: folder.clone(),
            grant: Grant::ReadOnly,
            variables,
            output_bytes: MOST_OUTPUT,
        };
        let report = walls.run(errand).await?;
        let (end, omitted, most) = (report.end, report.stdout.omitted, arguments.max_entries);
        let read = walls.read(move |permit| {
            let (found, note) = read(linter, &folder, &report)?;
            let is_shown = |one: &Complaint| permit.shows(&folder.join(&one.file));
            let found: Vec<Complaint> = found.into_iter().filter(is_shown).collect();
            let total = found.len() as u64;
            let first = found.into_iter().take(most).collect();
            Ok::<_, Failure>((room::first(first, room::for_content(permit)), total, note))
        });
        let (complaints, total, note) = read.await??;
        let returned = complaints.len() as u64;
        let truncated = (returned < total || omitted > 0).then(|| Truncation {
            unit: CutUnit::Entries,
            total,
            returned,
            how_to_continue: "raise max_entries, or name some of `files`".to_owned(),
        });
        let clean = total == 0 && omitted == 0 && end == End::Exited(0);
        let value = Linted { program, clean, complaints, total, note };
        Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
    })
}

/// No cache and no fix: it only looks. Callers' names stand behind `--`.
fn words(linter: Linter, files: &[RepoPath]) -> Result<Vec<OsString>, Failure> {
    let fixed: &[&str] = match linter {
        Linter::Mypy => {
            &["--output=json", "--no-error-summary", "--cache-dir=/dev/null", "--show-column-numbers", "--"]
        }
        Linter::Clippy => {
            return Ok(["clippy", "--message-format=json", "--offline", "--quiet", "--all-targets"]
                .map(OsString::from)
                .to_vec());
        }
        Linter::Auto | Linter::Ruff => &["check", "--output-format=json", "--no-cache", "--no-fix", "--"],
    };
    let mut words: Vec<OsString> = fixed.iter().map(OsString::from).collect();
    for file in files {
        words.push(file.plain()?);
    }
    if files.is_empty() {
        words.push(".".into());
    }
    Ok(words)
}

/// What a linter says in no known form is not "no complaints".
fn unreadable() -> Failure {
    let failure = Failure::new(FailureKind::Unreadable, "the linter's answer cannot be read, or was cut");
    outcome(failure.hint("name some of `files`"), "linter_failed")
}

/// All three answer 0 where all is well and 1 (or 101) where they complain; what they did not understand is 2.
fn read(linter: Linter, folder: &Path, report: &Report) -> Result<(Vec<Complaint>, Option<String>), Failure> {
    let stdout = String::from_utf8_lossy(&report.stdout.head);
    let stderr = String::from_utf8_lossy(&report.stderr.head);
    let found = match linter {
        Linter::Mypy => complaints::of_mypy(&stdout),
        Linter::Clippy => complaints::of_clippy(&stdout),
        Linter::Auto | Linter::Ruff => {
            let is_cut = report.stdout.omitted > 0;
            complaints::of_ruff(folder, &stdout, is_cut).ok_or_else(unreadable)?
        }
    };
    let note = stderr.lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    match report.end {
        End::Exited(0 | 1) => Ok((found, note)),
        End::Exited(_) if !found.is_empty() => Ok((found, note)),
        _ => {
            let why = project::reason(&stderr);
            // Cargo would write the versions it chose, and what only looks writes nothing.
            let hint = match why.contains("Cargo.lock") {
                true => {
                    "the project needs a Cargo.lock that fits: run_tests writes one, and so does `cargo generate-lockfile`"
                }
                false => "the settings of the project may be wrong; it runs without network and cannot write",
            };
            let failure =
                Failure::new(FailureKind::Unreadable, format!("the linter did not run: {why}")).hint(hint);
            Err(outcome(failure, "linter_failed"))
        }
    }
}
