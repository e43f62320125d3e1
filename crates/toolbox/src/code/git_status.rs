//! `git_status`: shows the branch of a repository and the files that differ from its last commit. Changes
//! nothing, not even the index.

use std::path::Path;

use governance::Permit;
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::{Category, RiskLevel, ToolOutput, ToolSpec};

use super::git::{GitProgram, Repository};
use crate::output_budget;
use crate::sandboxed_tool::{SandboxSession, SandboxedTool, ToolFuture};
use crate::tool_registration::{FolderArg, ToolRegistration, TypedOutput};

/// Bytes captured of git's output: several hundred thousand names.
const MAX_OUTPUT_BYTES: usize = 32 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Repository or a directory in it, absolute or relative to the workspace.
    #[serde(default, rename = "path")]
    _path: FolderArg,
    /// Maximum number of entries.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 10_000))]
    max_entries: usize,
}

fn usual_count() -> usize {
    1000
}

#[derive(Serialize, JsonSchema)]
struct GitStatusOutput {
    /// Root of the working tree.
    repository: String,
    /// Current branch.
    branch: BranchStatus,
    /// True if nothing differs.
    clean: bool,
    /// Files that differ.
    entries: Vec<GitStatusEntry>,
    /// Total number of entries.
    total: u64,
    /// Git program that produced this.
    git: GitProgram,
}

#[derive(Default, Debug, PartialEq, Serialize, JsonSchema)]
struct BranchStatus {
    /// Branch name; absent if HEAD is detached.
    head: Option<String>,
    /// Commit hash; absent if there is no commit yet.
    commit: Option<String>,
    /// Upstream branch.
    upstream: Option<String>,
    /// Number of commits that `upstream` does not have.
    ahead: Option<u64>,
    /// Number of commits that only `upstream` has.
    behind: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct GitStatusEntry {
    /// Path relative to the repository root; bytes that are not UTF-8 are shown as replacement characters.
    path: String,
    /// `changed`, `renamed`, `unmerged` or `untracked`.
    kind: &'static str,
    /// Staged change: unmodified, modified, added, deleted, renamed, copied, type_changed or unmerged.
    staged: &'static str,
    /// Unstaged change, with the same values.
    unstaged: &'static str,
    /// Previous path of a renamed or copied file.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_path: Option<String>,
    /// True if it is a submodule. Changes inside a submodule are not inspected, because it has its own
    /// configuration.
    submodule: bool,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolRegistration {
    let about = "Show the branch of a git repository and which files differ from its last commit.";
    let mut spec = ToolSpec::new("git_status", about, Category::READ_ONLY, RiskLevel::Low);
    spec.requires_sandbox = true;
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": "."}));
    ToolRegistration::sandboxed(spec, SandboxedTool::new(sandbox, status))
}

fn status<'a>(session: &'a mut SandboxSession, arguments: &'a Arguments) -> ToolFuture<'a, GitStatusOutput> {
    Box::pin(async move {
        let repository = Repository::open(session).await?;
        let git_args = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let (report, git) =
            repository.run_git(session, git_args.map(Into::into).to_vec(), MAX_OUTPUT_BYTES).await?;
        let (top, omitted, max) =
            (repository.worktree_root().to_owned(), report.stdout.omitted, arguments.max_entries);
        let read = session.offload(move |permit| {
            let (branch, entries) = parse_status(&String::from_utf8_lossy(&report.stdout.head));
            let entries = visible_entries(permit, &top, entries);
            (branch, output_budget::listed(permit, entries, max))
        });
        let (branch, (entries, total)) = read.await?;
        let how = "raise max_entries, or add files that need not be listed to .gitignore";
        let truncated = output_budget::truncation(entries.len(), total, omitted > 0, how);
        let repository = repository.worktree_root().to_string_lossy().into_owned();
        let value = GitStatusOutput { repository, branch, clean: total == 0, entries, total, git };
        Ok(TypedOutput { value, metadata: ToolOutput { truncated, ..ToolOutput::default() } })
    })
}

/// Filters out entries that the policy hides; they are not counted either.
fn visible_entries(permit: &Permit, top: &Path, entries: Vec<GitStatusEntry>) -> Vec<GitStatusEntry> {
    let visible = |path: &str| permit.is_visible(&top.join(path));
    let is_shown =
        |entry: &GitStatusEntry| visible(&entry.path) && entry.original_path.as_deref().is_none_or(visible);
    entries.into_iter().filter(is_shown).collect()
}

/// Parses porcelain v2 with NUL-separated records. Unknown records are skipped.
fn parse_status(text: &str) -> (BranchStatus, Vec<GitStatusEntry>) {
    let (mut branch, mut entries) = (BranchStatus::default(), Vec::new());
    let mut records = text.split_terminator('\0');
    while let Some(record) = records.next() {
        match record.split_once(' ') {
            Some(("#", fact)) => apply_branch_header(&mut branch, fact),
            // The number is the count of space-separated fields before the path.
            Some(("1", rest)) => entries.extend(parse_entry("changed", rest, 7, None)),
            Some(("2", rest)) => {
                let original = records.next().map(str::to_owned);
                entries.extend(parse_entry("renamed", rest, 8, original));
            }
            Some(("u", rest)) => entries.extend(parse_entry("unmerged", rest, 9, None)),
            Some(("?", path)) => entries.push(GitStatusEntry {
                path: path.to_owned(),
                kind: "untracked",
                staged: "unmodified",
                unstaged: "added",
                original_path: None,
                submodule: false,
            }),
            _ => {}
        }
    }
    (branch, entries)
}

fn apply_branch_header(branch: &mut BranchStatus, fact: &str) {
    let Some((name, value)) = fact.split_once(' ') else { return };
    let known = |word: &str| (!value.starts_with('(')).then(|| word.to_owned());
    match name {
        "branch.oid" => branch.commit = known(value),
        "branch.head" => branch.head = known(value),
        "branch.upstream" => branch.upstream = known(value),
        "branch.ab" => {
            let mut counts = value.split(' ').map(|count| count.trim_start_matches(['+', '-']).parse().ok());
            branch.ahead = counts.next().flatten();
            branch.behind = counts.next().flatten();
        }
        _ => {}
    }
}

fn parse_entry(
    kind: &'static str,
    rest: &str,
    field_count: usize,
    original_path: Option<String>,
) -> Option<GitStatusEntry> {
    let mut parts = rest.splitn(field_count + 1, ' ');
    let (letters, submodule) = (parts.next()?, parts.next()?.starts_with('S'));
    let path = parts.nth(field_count - 2)?.to_owned();
    let mut letters = letters.chars().map(change_name);
    let (staged, unstaged) = (letters.next()??, letters.next()??);
    Some(GitStatusEntry { path, kind, staged, unstaged, original_path, submodule })
}

fn change_name(letter: char) -> Option<&'static str> {
    Some(match letter {
        '.' => "unmodified",
        'M' => "modified",
        'T' => "type_changed",
        'A' => "added",
        'D' => "deleted",
        'R' => "renamed",
        'C' => "copied",
        'U' => "unmerged",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_record_kinds_are_parsed() {
        let text = "# branch.oid (initial)\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -3\0\
                    1 .M N... 100644 100644 100644 aa bb a b\0\
                    1 A. S..U 160000 160000 160000 aa bb sub\0\
                    2 R. N... 100644 100644 100644 aa bb R100 new name\0old name\0\
                    u UU N... 100644 100644 100644 100644 aa bb cc both\0\
                    ? new\n\0! ignored\0x unknown\0";
        let (branch, entries) = parse_status(text);
        let expect = BranchStatus {
            head: Some("main".into()),
            upstream: Some("origin/main".into()),
            ahead: Some(2),
            behind: Some(3),
            ..BranchStatus::default()
        };
        assert_eq!(branch, expect);
        let fields: Vec<_> =
            entries.iter().map(|e| (e.path.as_str(), e.kind, e.staged, e.unstaged, e.submodule)).collect();
        assert_eq!(
            fields,
            [
                ("a b", "changed", "unmodified", "modified", false),
                ("sub", "changed", "added", "unmodified", true),
                ("new name", "renamed", "renamed", "unmodified", false),
                ("both", "unmerged", "unmerged", "unmerged", false),
                ("new\n", "untracked", "unmodified", "added", false),
            ]
        );
        assert_eq!(entries[2].original_path.as_deref(), Some("old name"));
        assert_eq!(parse_status("1 .M").1, [], "an incomplete record is skipped");
    }
}
