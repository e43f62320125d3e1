//! `git_diff`: shows changes as a patch, with added and deleted lines per file.

use std::ffi::OsString;

use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit};
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use super::git::{GitProgram, RepoPath, Repository, Revision, exclude_pathspec};
use crate::output_budget;
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

const MAX_NAME_BYTES: usize = 8 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Repository or a directory in it, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Compare the staged changes instead of the working tree.
    #[serde(default)]
    staged: bool,
    /// Commit to compare from. Default: the index, or the last commit if `staged`.
    #[serde(default)]
    from: Option<Revision>,
    /// Commit to compare to, instead of the working tree. Requires `from`.
    #[serde(default)]
    to: Option<Revision>,
    /// Exact paths of files or directories to include, relative to `path`.
    #[serde(default)]
    #[schemars(length(max = 200))]
    files: Vec<RepoPath>,
    /// Number of unchanged lines around each change.
    #[serde(default = "usual_context")]
    #[schemars(range(min = 0, max = 50))]
    context_lines: u32,
}

fn usual_context() -> u32 {
    3
}

#[derive(Serialize, JsonSchema)]
struct GitDiffOutput {
    /// Root of the working tree.
    repository: String,
    /// Files that differ.
    files: Vec<DiffFile>,
    /// Changes in unified format; bytes that are not UTF-8 are shown as replacement characters.
    patch: String,
    /// Git program that produced this.
    git: GitProgram,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct DiffFile {
    /// Path relative to the repository root.
    path: String,
    /// Added lines; absent for binary files.
    added: Option<u64>,
    /// Deleted lines; absent for binary files.
    deleted: Option<u64>,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about = "Show changes in a git repository: unstaged, staged, or between two commits.";
    let mut spec = ToolSpec::new("git_diff", about, Category::READ_ONLY, RiskLevel::Low);
    spec.requires_sandbox = true;
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": ".", "staged": true}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, diff))
}

fn diff<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, GitDiffOutput> {
    Box::pin(async move {
        let repository = Repository::open(session).await?;
        let names = diff_arguments(arguments, &["--name-only", "-z"], &[])?;
        let (report, git) = repository.run_git(session, names, MAX_NAME_BYTES).await?;
        // The names determine what is excluded from the patch, so the list must be complete.
        if report.stdout.omitted > 0 {
            let failure = Failure::new(FailureKind::TooLarge, "too many files differ");
            return Err(failure.with_hint("limit the diff with `files`"));
        }
        let Ok(text) = String::from_utf8(report.stdout.head) else {
            let failure = Failure::new(
                FailureKind::Unreadable,
                "a file that differs has a name that is not valid UTF-8",
            );
            return Err(failure.with_hint("limit the diff with `files`"));
        };
        let top = repository.worktree_root().to_owned();
        let split = session.offload(move |permit| {
            let is_shown = |name: &String| permit.is_visible(&top.join(name));
            text.split_terminator('\0').map(str::to_owned).partition::<Vec<_>, _>(is_shown)
        });
        let (names, hidden) = split.await?;
        // Versions of a forbidden file in the object database are forbidden too.
        let hidden: Vec<OsString> = hidden.iter().map(|name| exclude_pathspec(name)).collect();
        let budget = output_budget::content_budget(session.permit()) / 2;
        // The capture keeps one half from the start of the output and one from its end; only the first half
        // is used.
        let capture = usize::try_from(budget.saturating_mul(4)).unwrap_or(usize::MAX);
        let context = format!("-U{}", arguments.context_lines);
        let patch = diff_arguments(arguments, &["--numstat", "--patch", &context], &hidden)?;
        let (report, _) = repository.run_git(session, patch, capture).await?;
        let text = String::from_utf8_lossy(&report.stdout.head).into_owned();
        let (files, text) = parse_diff(&names, &text);
        let (total, files) = (files.len() as u64, output_budget::take_fitting(files, budget));
        let patch = output_budget::longest_prefix(text, budget).to_owned();
        let is_cut = report.stdout.omitted > 0 || patch.len() < text.len() || (files.len() as u64) < total;
        let truncated = is_cut.then(|| Truncation {
            unit: TruncationUnit::Bytes,
            total: report.stdout.total(),
            returned: patch.len() as u64,
            how_to_continue: "call again with `files` to limit the diff".to_owned(),
        });
        let repository = repository.worktree_root().to_string_lossy().into_owned();
        let value = GitDiffOutput { repository, files, patch, git };
        Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
    })
}

/// Builds the arguments. Options that the repository's configuration could change are explicit; values of the
/// caller come after all options.
fn diff_arguments(arguments: &Arguments, kind: &[&str], but: &[OsString]) -> Result<Vec<OsString>, Failure> {
    let fixed = [
        "diff",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--ignore-submodules=dirty",
        "--submodule=short",
        "--src-prefix=a/",
        "--dst-prefix=b/",
    ];
    let mut git_args: Vec<OsString> = fixed.iter().chain(kind).map(OsString::from).collect();
    if arguments.staged {
        git_args.push("--cached".into());
    }
    git_args.push("--end-of-options".into());
    git_args.extend(arguments.from.iter().chain(&arguments.to).map(Revision::to_commit_argument));
    git_args.push("--".into());
    for file in &arguments.files {
        git_args.push(file.to_pathspec()?);
    }
    git_args.extend_from_slice(but);
    Ok(git_args)
}

/// Parses one line `added TAB deleted TAB path` per file, with dashes for binary files, then an empty line
/// and the patch. The paths are quoted here, so the names come from the earlier `--name-only` output, in the
/// same order.
fn parse_diff<'a>(names: &[String], text: &'a str) -> (Vec<DiffFile>, &'a str) {
    let (counts, patch) = match text.find("\n\n") {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 2..).unwrap_or_default()),
        None => (text, ""),
    };
    let count = |line: &str| {
        let mut parts = line.splitn(3, '\t');
        (parts.next().and_then(|word| word.parse().ok()), parts.next().and_then(|word| word.parse().ok()))
    };
    let counts: Vec<(Option<u64>, Option<u64>)> = counts.lines().map(count).collect();
    let is_whole = counts.len() == names.len();
    let counts = counts.into_iter().filter(|_| is_whole).chain(std::iter::repeat((None, None)));
    let one = |(name, (added, deleted)): (&String, _)| DiffFile { path: name.clone(), added, deleted };
    (names.iter().zip(counts).map(one).collect(), patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_counts_are_parsed_and_absent_for_binary() {
        let changed = |path: &str, added, deleted| DiffFile { path: path.to_owned(), added, deleted };
        let text = "1\t2\t\"a\\tb\"\n-\t-\tpicture\n\ndiff --git\n\nx";
        let (files, patch) = parse_diff(&["a\tb", "picture"].map(str::to_owned), text);
        assert_eq!(files, [changed("a\tb", Some(1), Some(2)), changed("picture", None, None)]);
        assert_eq!(patch, "diff --git\n\nx");
        let (files, _) = parse_diff(&["a", "b", "c"].map(str::to_owned), text);
        assert_eq!(files.len(), 3, "more files than counts: {files:?}");
        assert!(files.iter().all(|file| file.added.is_none()));
        assert_eq!(parse_diff(&[], ""), (vec![], ""));
    }
}
