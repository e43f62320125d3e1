//! Outputs of the git tools.

use serde_json::Value;

use super::{flag, items, number, push_line, text, texts};

/// Number of digits of a commit hash: enough to name a commit in a large repository.
const COMMIT_DIGITS: usize = 12;

/// Renders the status in the form of `git status --short --branch`.
pub(super) fn status(output: &Value) -> Option<String> {
    let branch = output.get("branch")?;
    let mut shown = format!("## {}", text(branch, "head").unwrap_or("(detached)"));
    if let Some(upstream) = text(branch, "upstream") {
        shown.push_str(&format!("...{upstream}"));
    }
    if let (Some(ahead), Some(behind)) = (number(branch, "ahead"), number(branch, "behind")) {
        shown.push_str(&format!(" [ahead {ahead}, behind {behind}]"));
    }
    for entry in items(output, "entries") {
        let path = text(entry, "path")?;
        let from = text(entry, "original_path").map(|from| format!("{from} -> ")).unwrap_or_default();
        let code = match text(entry, "kind")? {
            "untracked" => "??".to_owned(),
            _ => ["staged", "unstaged"].map(|side| letter(text(entry, side).unwrap_or_default())).join(""),
        };
        push_line(&mut shown, &format!("{code} {from}{path}"));
    }
    if flag(output, "clean") {
        push_line(&mut shown, "clean");
    }
    Some(shown)
}

fn letter(change: &str) -> &'static str {
    match change {
        "modified" => "M",
        "added" => "A",
        "deleted" => "D",
        "renamed" => "R",
        "copied" => "C",
        "type_changed" => "T",
        "unmerged" => "U",
        _ => " ",
    }
}

pub(super) fn diff(output: &Value) -> Option<String> {
    let patch = text(output, "patch")?;
    if !patch.is_empty() {
        return Some(patch.to_owned());
    }
    let files: Vec<&str> = items(output, "files").iter().filter_map(|file| text(file, "path")).collect();
    Some(if files.is_empty() { "no differences".to_owned() } else { files.join("\n") })
}

pub(super) fn log(output: &Value) -> Option<String> {
    let commits = output.get("commits")?.as_array()?;
    let mut shown = String::new();
    for commit in commits {
        let hash = text(commit, "commit")?;
        let hash = hash.get(..COMMIT_DIGITS).unwrap_or(hash);
        let refs = texts(commit, "refs").collect::<Vec<_>>().join(", ");
        let refs = if refs.is_empty() { refs } else { format!(" ({refs})") };
        let (date, author, subject) =
            (text(commit, "date")?, text(commit, "author")?, text(commit, "subject")?);
        push_line(&mut shown, &format!("{hash} {date} {author}{refs}: {subject}"));
        for line in text(commit, "body").unwrap_or_default().lines() {
            push_line(&mut shown, &format!("    {line}"));
        }
    }
    Some(if shown.is_empty() { "no commits".to_owned() } else { shown })
}
