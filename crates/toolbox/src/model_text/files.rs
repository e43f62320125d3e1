//! Outputs of the file tools.

use serde_json::Value;

use super::{flag, items, number, push_line, text, texts};

pub(super) fn file_content(output: &Value) -> Option<String> {
    let mut shown = content(output)?;
    if flag(output, "changed_while_read") {
        push_line(&mut shown, "[the file changed while it was read]");
    }
    Some(shown)
}

pub(super) fn stored_output(output: &Value) -> Option<String> {
    let mut shown = content(output)?;
    if let (Some(next), Some(total)) = (number(output, "next_offset"), number(output, "total_bytes")) {
        push_line(&mut shown, &format!("[continues at offset={next} of {total} bytes]"));
    }
    Some(shown)
}

fn content(output: &Value) -> Option<String> {
    let content = text(output, "content")?;
    Some(match text(output, "encoding") {
        _ if content.is_empty() => "(empty)".to_owned(),
        Some("base64") => format!("base64:\n{content}"),
        _ => content.to_owned(),
    })
}

pub(super) fn written(output: &Value) -> Option<String> {
    let (path, size) = (text(output, "path")?, number(output, "size")?);
    if let Some(preview) = dry_run_diff(output) {
        return Some(preview);
    }
    let done = if flag(output, "created") { "created" } else { "wrote" };
    let folders: Vec<&str> = texts(output, "created_dirs").collect();
    let folders = if folders.is_empty() { String::new() } else { format!(", with {}", folders.join(", ")) };
    Some(format!("{done} {path} ({size} bytes){folders}"))
}

pub(super) fn edited(output: &Value) -> Option<String> {
    let (path, replacements) = (text(output, "path")?, number(output, "replacements")?);
    Some(dry_run_diff(output).unwrap_or_else(|| format!("edited {path} (replacements: {replacements})")))
}

fn dry_run_diff(output: &Value) -> Option<String> {
    let preview = output.get("preview")?;
    let cut = if flag(preview, "cut") { "\n[parts of the diff are omitted]" } else { "" };
    Some(format!("dry run, nothing changed\n{}{cut}", text(preview, "diff")?))
}

pub(super) fn created_directory(output: &Value) -> Option<String> {
    let path = text(output, "path")?;
    Some(match (items(output, "created_dirs").is_empty(), flag(output, "dry_run")) {
        (true, _) => format!("{path} existed already"),
        (false, true) => format!("would create {path}"),
        (false, false) => format!("created {path}"),
    })
}

pub(super) fn deleted(output: &Value) -> Option<String> {
    let (kind, path) = (text(output, "kind")?, text(output, "path")?);
    let done = if flag(output, "dry_run") { "would delete" } else { "deleted" };
    let entries = number(output, "entries").filter(|count| *count > 1);
    let entries = entries.map(|count| format!(" (entries: {count})")).unwrap_or_default();
    Some(format!("{done} {kind} {path}{entries}"))
}

pub(super) fn listing(output: &Value) -> Option<String> {
    output.get("entries")?;
    let mut shown = items(output, "entries").iter().filter_map(entry).collect::<Vec<_>>().join("\n");
    if shown.is_empty() {
        shown.push_str("(no entries)");
    }
    push_rest(&mut shown, output);
    Some(shown)
}

fn entry(entry: &Value) -> Option<String> {
    let name = text(entry, "name")?;
    Some(match (text(entry, "kind")?, text(entry, "target"), number(entry, "size")) {
        ("directory", ..) => format!("{name}/"),
        ("symlink", Some(target), _) => format!("{name} -> {target}"),
        ("file", _, Some(size)) => format!("{name} ({size} bytes)"),
        ("file", ..) => name.to_owned(),
        (kind, ..) => format!("{name} ({kind})"),
    })
}

pub(super) fn matches(output: &Value) -> Option<String> {
    let found = output.get("matches")?.as_array()?;
    let mut shown = String::new();
    for found in found {
        push_match(&mut shown, found)?;
    }
    items(output, "files").iter().filter_map(|file| text(file, "path")).for_each(|path| {
        push_line(&mut shown, path);
    });
    if shown.is_empty() {
        let searched = number(output, "searched_files").unwrap_or(0);
        shown = format!("no matches (files searched: {searched})");
    }
    push_rest(&mut shown, output);
    Some(shown)
}

/// Adds a match in the form of `grep -n`, with its context lines.
fn push_match(shown: &mut String, found: &Value) -> Option<()> {
    let (path, line) = (text(found, "path")?, number(found, "line")?);
    let first = line.saturating_sub(items(found, "before").len() as u64);
    for (number, context) in (first..).zip(texts(found, "before")) {
        push_line(shown, &format!("{path}-{number}-{context}"));
    }
    push_line(shown, &format!("{path}:{line}:{}", text(found, "text")?));
    for (number, context) in (line + 1..).zip(texts(found, "after")) {
        push_line(shown, &format!("{path}-{number}-{context}"));
    }
    Some(())
}

/// Adds what a list does not contain, and how to get it.
fn push_rest(shown: &mut String, output: &Value) {
    for folder in texts(output, "unreadable") {
        push_line(shown, &format!("[unreadable: {folder}]"));
    }
    if output.get("complete").and_then(Value::as_bool) == Some(false) {
        push_line(shown, "[not everything was visited]");
    }
    if let Some(cursor) = text(output, "next_cursor") {
        push_line(shown, &format!("[continues with cursor={cursor}]"));
    }
}
