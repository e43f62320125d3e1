//! `git_log`: lists the commits of a repository, newest first.

use std::ffi::OsString;

use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, RiskLevel, ToolOutput, ToolSpec};

use super::git::{GitProgram, RepoPath, Repository, Revision};
use crate::output_budget;
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Repository or a directory in it, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Commit, branch or tag to start at. Default: HEAD.
    #[serde(default)]
    revision: Option<Revision>,
    /// List only commits that changed these files or directories, given as exact paths relative to `path`.
    #[serde(default)]
    #[schemars(length(max = 200))]
    files: Vec<RepoPath>,
    /// Maximum number of commits.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 1000))]
    max_count: u64,
    /// Number of newest commits to skip, for example to continue an earlier result.
    #[serde(default)]
    #[schemars(range(max = 10_000_000))]
    skip: u64,
}

fn usual_count() -> u64 {
    20
}

#[derive(Serialize, JsonSchema)]
struct GitLogOutput {
    /// Root of the working tree.
    repository: String,
    /// Commits, newest first.
    commits: Vec<LogCommit>,
    /// Git program that produced this.
    git: GitProgram,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct LogCommit {
    /// Commit hash.
    commit: String,
    /// Hashes of the parent commits.
    parents: Vec<String>,
    /// Author name.
    author: String,
    /// Author email.
    email: String,
    /// Author date (RFC 3339).
    date: String,
    /// Commit date (RFC 3339).
    committed: String,
    /// Branches and tags that point to it.
    refs: Vec<String>,
    /// First line of the message.
    subject: String,
    /// Rest of the message.
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
}

/// Format with a NUL after each field; commit messages contain none.
const FORMAT: &str = "--format=tformat:%H%x00%P%x00%an%x00%ae%x00%aI%x00%cI%x00%D%x00%s%x00%b%x00";
const FIELDS_PER_COMMIT: usize = 9;

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about = "List the commits of a git repository, newest first.";
    let mut spec = ToolSpec::new("git_log", about, Category::READ_ONLY, RiskLevel::Low);
    spec.requires_sandbox = true;
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": ".", "max_count": 5}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, log))
}

fn log<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, GitLogOutput> {
    Box::pin(async move {
        let repository = Repository::open(session).await?;
        let budget = output_budget::content_budget(session.permit());
        let mut git_args: Vec<OsString> =
            ["log", FORMAT, "--no-color", "--encoding=UTF-8", "--no-show-signature"]
                .into_iter()
                .chain(["--no-ext-diff", "--no-textconv", "--no-notes", "--decorate=short"])
                .map(Into::into)
                .collect();
        // One commit more than requested shows whether there are more.
        git_args.push(format!("--max-count={}", arguments.max_count + 1).into());
        git_args.push(format!("--skip={}", arguments.skip).into());
        git_args.push("--end-of-options".into());
        git_args.push(arguments.revision.as_ref().map_or_else(|| "HEAD".into(), Revision::to_argument));
        git_args.push("--".into());
        for file in &arguments.files {
            git_args.push(file.to_pathspec()?);
        }
        // The capture keeps one half from the start of the output and one from its end; only the first half
        // is used.
        let capture = usize::try_from(budget.saturating_mul(2)).unwrap_or(usize::MAX);
        let (report, git) = repository.run_git(session, git_args, capture).await?;
        let commits = parse_commits(&String::from_utf8_lossy(&report.stdout.head));
        let found = commits.len() as u64;
        let max = usize::try_from(arguments.max_count).unwrap_or(usize::MAX);
        let commits = output_budget::take_fitting(commits.into_iter().take(max).collect(), budget);
        let how = format!("call again with skip={}", arguments.skip + commits.len() as u64);
        let truncated = output_budget::truncation(commits.len(), found, report.stdout.omitted > 0, &how);
        let repository = repository.worktree_root().to_string_lossy().into_owned();
        Ok(TypedOutput {
            value: GitLogOutput { repository, commits, git },
            metadata: ToolOutput { truncated, ..ToolOutput::default() },
        })
    })
}

fn parse_commits(text: &str) -> Vec<LogCommit> {
    let parts: Vec<&str> = text.split_terminator('\0').collect();
    let one = |parts: &[&str]| {
        let [commit, parents, author, email, date, committed, refs, subject, body] = parts else {
            return None;
        };
        let list = |text: &str, between: &str| {
            text.split(between).filter(|word| !word.is_empty()).map(str::to_owned).collect()
        };
        Some(LogCommit {
            commit: commit.trim_start().to_owned(),
            parents: list(parents, " "),
            author: (*author).to_owned(),
            email: (*email).to_owned(),
            date: (*date).to_owned(),
            committed: (*committed).to_owned(),
            refs: list(refs, ", "),
            subject: (*subject).to_owned(),
            body: body.trim_end().to_owned(),
        })
    };
    parts.chunks_exact(FIELDS_PER_COMMIT).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_parsed_and_incomplete_ones_dropped() {
        let text = "aa\0bb cc\0Ada\0ada@example.org\0date\0date\0HEAD -> main, tag: v1\0\
                    Subject\0Body\nof it\n\0\nbb\0\0B\0\0d\0d\0\0S\0\0\ncc\0";
        let commits = parse_commits(text);
        assert_eq!(commits.len(), 2);
        assert_eq!((commits[0].parents.len(), commits[0].refs.len()), (2, 2));
        assert_eq!(commits[0].body, "Body\nof it");
        assert_eq!((commits[1].commit.as_str(), commits[1].parents.len()), ("bb", 0));
    }
}
