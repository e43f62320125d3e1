//! `git_status`: the branch of a repository and what differs from its last commit. Changes nothing, not even the index.

use std::path::Path;

use governance::Permit;
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, CutUnit, Output, RiskLevel, ToolSpec, Truncation};

use super::git::{Program, Repository};
use crate::in_walls::{InWalls, Walls, Work};
use crate::room;
use crate::tool_entry::{Answer, ToolEntry, this_folder};

/// What git may say before the rest is counted as cut: some hundred thousand names.
const MOST_OUTPUT: usize = 32 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The repository, or a folder in it, absolute or relative to the workspace.
    #[serde(default = "this_folder", rename = "path")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _path: String,
    /// At most this many entries.
    #[serde(default = "usual_count")]
    #[schemars(range(min = 1, max = 10_000))]
    max_entries: usize,
}

fn usual_count() -> usize {
    1000
}

#[derive(Serialize, JsonSchema)]
struct Status {
    /// The folder of the working tree.
    repository: String,
    /// Where it stands.
    branch: Branch,
    /// Whether nothing differs.
    clean: bool,
    /// What differs.
    entries: Vec<Entry>,
    /// How many entries there are in all.
    total: u64,
    /// Which git this is from.
    git: Program,
}

#[derive(Default, Debug, PartialEq, Serialize, JsonSchema)]
struct Branch {
    /// The branch; absent where no branch is checked out.
    head: Option<String>,
    /// The commit; absent where there is none yet.
    commit: Option<String>,
    /// The branch it follows.
    upstream: Option<String>,
    /// Commits that `upstream` does not have.
    ahead: Option<u64>,
    /// Commits that only `upstream` has.
    behind: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Entry {
    /// From the top of the repository; bytes that are not UTF-8 are shown as replacement characters.
    path: String,
    /// `changed`, `renamed`, `unmerged` or `untracked`.
    kind: &'static str,
    /// What is staged: unmodified, modified, added, deleted, renamed, copied, type_changed or unmerged.
    staged: &'static str,
    /// What is not staged, in the same words.
    unstaged: &'static str,
    /// What it was called before.
    #[serde(skip_serializing_if = "Option::is_none")]
    original_path: Option<String>,
    /// Whether it is a submodule. What changed inside one is not looked at: it has settings of its own.
    submodule: bool,
}

pub(super) fn tool(sandbox: &Sandbox) -> ToolEntry {
    let about = "Show the branch of a git repository and which files differ from its last commit.";
    let mut spec = ToolSpec::new("git_status", about, Category::READ_ONLY, RiskLevel::Low);
    spec.requires_sandbox = true;
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"path": "."}));
    let executor = std::sync::Arc::new(InWalls::new(sandbox, status));
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Status>(), executor)
}

fn status<'a>(walls: &'a mut Walls, arguments: &'a Arguments) -> Work<'a, Status> {
    Box::pin(async move {
        let repository = Repository::open(walls).await?;
        let words = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=dirty",
        ];
        let (report, git) = repository.git(walls, words.map(Into::into).to_vec(), MOST_OUTPUT).await?;
        let (top, omitted, most) =
            (repository.top().to_owned(), report.stdout.omitted, arguments.max_entries);
        let read = walls.read(move |permit| {
            let (branch, entries) = read(&String::from_utf8_lossy(&report.stdout.head));
            let entries = shown(permit, &top, entries);
            let total = entries.len() as u64;
            let first = entries.into_iter().take(most).collect();
            (branch, total, room::first(first, room::for_content(permit)))
        });
        let (branch, total, entries) = read.await?;
        let returned = entries.len() as u64;
        let is_cut = returned < total || omitted > 0;
        let truncated = is_cut.then(|| Truncation {
            unit: CutUnit::Entries,
            total,
            returned,
            how_to_continue: "raise max_entries, or let .gitignore name what need not be listed".to_owned(),
        });
        let repository = repository.top().to_string_lossy().into_owned();
        let value = Status { repository, branch, clean: total == 0, entries, total, git };
        Ok(Answer { value, facts: Output { truncated, ..Output::default() } })
    })
}

/// What policy hides is not listed, and not counted.
fn shown(permit: &Permit, top: &Path, entries: Vec<Entry>) -> Vec<Entry> {
    let visible = |path: &str| permit.shows(&top.join(path));
    let is_shown = |entry: &Entry| visible(&entry.path) && entry.original_path.as_deref().is_none_or(visible);
    entries.into_iter().filter(is_shown).collect()
}

/// Porcelain v2 with NUL between records. What is not understood is left out rather than guessed.
fn read(text: &str) -> (Branch, Vec<Entry>) {
    let (mut branch, mut entries) = (Branch::default(), Vec::new());
    let mut records = text.split_terminator('\0');
    while let Some(record) = records.next() {
        match record.split_once(' ') {
            Some(("#", fact)) => note(&mut branch, fact),
            // The kind, the two letters, and so many words before the path.
            Some(("1", rest)) => entries.extend(entry("changed", rest, 7, None)),
            Some(("2", rest)) => {
                let original = records.next().map(str::to_owned);
                entries.extend(entry("renamed", rest, 8, original));
            }
            Some(("u", rest)) => entries.extend(entry("unmerged", rest, 9, None)),
            Some(("?", path)) => entries.push(Entry {
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

fn note(branch: &mut Branch, fact: &str) {
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

fn entry(kind: &'static str, rest: &str, words: usize, original_path: Option<String>) -> Option<Entry> {
    let mut parts = rest.splitn(words + 1, ' ');
    let (letters, submodule) = (parts.next()?, parts.next()?.starts_with('S'));
    let path = parts.nth(words - 2)?.to_owned();
    let mut letters = letters.chars().map(word);
    let (staged, unstaged) = (letters.next()??, letters.next()??);
    Some(Entry { path, kind, staged, unstaged, original_path, submodule })
}

fn word(letter: char) -> Option<&'static str> {
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
    fn every_kind_of_record_is_read() {
        let text = "# branch.oid (initial)\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -3\0\
                    1 .M N... 100644 100644 100644 aa bb a b\0\
                    1 A. S..U 160000 160000 160000 aa bb sub\0\
                    2 R. N... 100644 100644 100644 aa bb R100 new name\0old name\0\
                    u UU N... 100644 100644 100644 100644 aa bb cc both\0\
                    ? new\n\0! ignored\0x unknown\0";
        let (branch, entries) = read(text);
        let expect = Branch {
            head: Some("main".into()),
            upstream: Some("origin/main".into()),
            ahead: Some(2),
            behind: Some(3),
            ..Branch::default()
        };
        assert_eq!(branch, expect);
        let told: Vec<_> =
            entries.iter().map(|e| (e.path.as_str(), e.kind, e.staged, e.unstaged, e.submodule)).collect();
        assert_eq!(
            told,
            [
                ("a b", "changed", "unmodified", "modified", false),
                ("sub", "changed", "added", "unmodified", true),
                ("new name", "renamed", "renamed", "unmodified", false),
                ("both", "unmerged", "unmerged", "unmerged", false),
                ("new\n", "untracked", "unmodified", "added", false),
            ]
        );
        assert_eq!(entries[2].original_path.as_deref(), Some("old name"));
        assert_eq!(read("1 .M").1, [], "half a record is none");
    }
}
