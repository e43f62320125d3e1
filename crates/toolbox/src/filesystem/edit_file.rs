//! `edit_file`: replaces exact pieces of text in a file, all of them or none.

use std::sync::Arc;

use file_access::{ContentPrecondition, UndoStore};
use governance::Permit;
use registry::CallPreview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::Usage;
use tool::{Category, Failure, FailureKind, Mode, RiskLevel, ToolOutput, ToolSpec, canonical};

use super::dry_run::{DryRunDiff, check_digest, max_file_bytes, preview_change, read_current};
use super::nearest_text::nearest_lines;
use super::{display_path, target};
use crate::blocking_tool::ChangeContext;
use crate::tool_registration::{ToolRegistration, TypedOutput};

/// Largest number of replacements in one call, over all its edits.
const MAX_REPLACEMENTS: usize = 1_000_000;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to edit, absolute or relative to the workspace.
    #[schemars(extend("format" = "path", "x-sinew-access" = "write", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Edits, applied in order to the result of the edits before them. Either all apply or none.
    #[schemars(length(min = 1, max = 100))]
    edits: Vec<TextEdit>,
    /// Edit only if the file still has this SHA-256 (reported by read_file).
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    expected_sha256: Option<String>,
    /// Change nothing; report what would change.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TextEdit {
    /// Text to replace, exactly as in the file, including spaces and line endings. It must occur once.
    #[schemars(length(min = 1))]
    old_text: String,
    /// Replacement text.
    new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
}

#[derive(Serialize, JsonSchema)]
struct EditOutput {
    /// Canonical path of the file.
    path: String,
    /// Number of replacements made, or that would be made.
    replacements: u64,
    /// Size of the new content, in bytes.
    size: u64,
    /// SHA-256 of the new content.
    sha256: String,
    /// Change that a dry run would make. Absent if the change was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<DryRunDiff>,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolRegistration {
    let about =
        "Replace exact text in a file. Each old_text must occur once; either all edits apply or none.";
    let mut spec = ToolSpec::new("edit_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    let edits = json!([{"old_text": "milk", "new_text": "bread"}]);
    spec.example = Some(json!({"path": "notes.txt", "edits": edits}));
    ToolRegistration::file_changing(spec, edit, preview, undo)
}

fn edit(change: &ChangeContext<'_>, arguments: &Arguments) -> Result<TypedOutput<EditOutput>, Failure> {
    let file = target(change.permit)?;
    let Some(before) = read_current(change.permit, file)? else {
        // Reading the missing file gives the same failure as in every other tool.
        let missing = file.reader().err().map(Failure::from);
        let missing =
            missing.unwrap_or_else(|| Failure::new(FailureKind::NotFound, "the file does not exist"));
        return Err(missing.with_hint("write_file creates a file"));
    };
    let old_sha256 = canonical::sha256_hex(&before);
    check_digest(file, &old_sha256, arguments.expected_sha256.as_deref())?;
    let (after, replacements) = apply(&before, &arguments.edits, max_file_bytes(change.permit))?;
    let (path, size, sha256) = (display_path(file), after.len() as u64, canonical::sha256_hex(&after));
    if arguments.dry_run {
        let preview = Some(DryRunDiff::new(change.permit, file, Some(&before), &after));
        let value = EditOutput { path, replacements, size, sha256, preview };
        return Ok(TypedOutput { value, metadata: ToolOutput::default() });
    }
    file.replace(&after, &ContentPrecondition::Content { sha256: old_sha256 }, &change.saving)?;
    let usage = Usage { read_bytes: before.len() as u64, written_bytes: size, ..Usage::default() };
    let facts = ToolOutput { files_touched: vec![display_path(file)], usage, ..ToolOutput::default() };
    Ok(TypedOutput { value: EditOutput { path, replacements, size, sha256, preview: None }, metadata: facts })
}

/// Previews the file before and after, for the approval request.
fn preview(permit: &Permit, arguments: &Arguments) -> Result<CallPreview, Failure> {
    let file = target(permit)?;
    // A missing file fails when the call runs, so there is no change to approve.
    let Some(before) = read_current(permit, file)? else { return Ok(CallPreview::default()) };
    let (after, _) = apply(&before, &arguments.edits, max_file_bytes(permit)).map_err(without_content)?;
    preview_change(file, Some(before), Some(after))
}

/// Removes file content from a failure: reading the file is not permitted while the approval is pending.
fn without_content(failure: Failure) -> Failure {
    failure.with_hint("use read_file to see the content")
}

/// Applies all edits and returns the new content and the number of replacements. Edits compare bytes, so they
/// work in any encoding and change nothing else. No intermediate result may exceed `limit` bytes: the caller
/// chooses the texts, and a few edits can multiply a file beyond the memory of the machine.
fn apply(before: &[u8], edits: &[TextEdit], limit: u64) -> Result<(Vec<u8>, u64), Failure> {
    let mut content = before.to_vec();
    let mut replaced = 0;
    for (at, edit) in edits.iter().enumerate() {
        let number = at + 1;
        let offsets = find_matches(&content, edit.old_text.as_bytes());
        match offsets.as_slice() {
            [] => return Err(not_found(&content, edit, number)),
            [_, _, ..] if !edit.replace_all => return Err(ambiguous_match(&content, &offsets, number)),
            _ => {}
        }
        replaced += offsets.len();
        if replaced > MAX_REPLACEMENTS {
            let message = format!("edit {number} would make more than {MAX_REPLACEMENTS} replacements");
            return Err(too_large(&message));
        }
        let size = size_after(content.len(), offsets.len(), edit);
        let Some(size) = size.filter(|size| *size as u64 <= limit) else {
            return Err(too_large(&format!("edit {number} would make the file grow past {limit} bytes")));
        };
        content = apply_replacements(&content, &offsets, edit, size);
    }
    Ok((content, replaced as u64))
}

fn too_large(message: &str) -> Failure {
    Failure::new(FailureKind::TooLarge, format!("{message}; nothing was changed"))
        .with_hint("make fewer replacements, or shorter ones")
}

/// Offsets of a piece in the content, ascending and without overlap, at most one more than the limit.
fn find_matches(content: &[u8], piece: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(content, piece).take(MAX_REPLACEMENTS + 1).collect()
}

/// Returns the size of the content after the replacements, or nothing on overflow.
fn size_after(before: usize, replacements: usize, edit: &TextEdit) -> Option<usize> {
    let removed = replacements.checked_mul(edit.old_text.len())?;
    before.checked_sub(removed)?.checked_add(replacements.checked_mul(edit.new_text.len())?)
}

fn apply_replacements(content: &[u8], offsets: &[usize], edit: &TextEdit, size: usize) -> Vec<u8> {
    let (old, new) = (edit.old_text.len(), edit.new_text.as_bytes());
    let mut result = Vec::with_capacity(size);
    let mut rest = 0;
    for offset in offsets {
        result.extend_from_slice(content.get(rest..*offset).unwrap_or_default());
        result.extend_from_slice(new);
        rest = offset + old;
    }
    result.extend_from_slice(content.get(rest..).unwrap_or_default());
    result
}

fn ambiguous_match(content: &[u8], offsets: &[usize], number: usize) -> Failure {
    let line = |offset: usize| 1 + content.iter().take(offset).filter(|byte| **byte == b'\n').count();
    let lines: Vec<String> = offsets.iter().take(5).map(|offset| line(*offset).to_string()).collect();
    let more = if offsets.len() > lines.len() { " and more" } else { "" };
    let message = format!(
        "old_text of edit {number} occurs {} times, in lines {}{more}; nothing was changed",
        offsets.len(),
        lines.join(", ")
    );
    Failure::new(FailureKind::Conflict, message)
        .with_hint("include surrounding lines so that it occurs once, or set replace_all")
}

/// Failure for a text that is not in the file. The most similar lines go into the hint, because the message
/// is recorded in the ledger and must not contain file content.
fn not_found(content: &[u8], edit: &TextEdit, number: usize) -> Failure {
    let message = format!("old_text of edit {number} is not in the file; nothing was changed");
    let failure = Failure::new(FailureKind::Conflict, message);
    let Ok(text) = std::str::from_utf8(content) else {
        return failure.with_hint("the file is not UTF-8 text: read it with encoding base64");
    };
    if text.contains("\r\n") && !edit.old_text.contains("\r\n") && edit.old_text.contains('\n') {
        let unix = text.replace("\r\n", "\n");
        if unix.contains(&edit.old_text) {
            return failure.with_hint("the lines end in \\r\\n: use \\r\\n in old_text and new_text");
        }
    }
    match nearest_lines(text, &edit.old_text) {
        Some(near) => {
            let (first, last) = (near.first_line, near.last_line);
            failure.with_hint(format!("the most similar text is in lines {first} to {last}:\n{}", near.text))
        }
        None => failure.with_hint("the file has no similar text: read it again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, replace_all: bool) -> TextEdit {
        TextEdit { old_text: old.to_owned(), new_text: new.to_owned(), replace_all }
    }

    #[test]
    fn edits_apply_to_the_result_of_earlier_edits() {
        let check = |before: &[u8], edits: &[TextEdit], expect: (&[u8], u64)| {
            let (after, count) = apply(before, edits, 1 << 20).unwrap();
            assert_eq!((after.as_slice(), count), expect);
        };
        check(b"one two", &[edit("one", "1", false)], (b"1 two", 1));
        check(b"a a a", &[edit("a", "b", true)], (b"b b b", 3));
        check(b"aaa", &[edit("aa", "b", true)], (b"ba", 1));
        check(b"one", &[edit("one", "two", false), edit("two", "three", false)], (b"three", 2));
        check(b"x\xffy", &[edit("y", "z", false)], (b"x\xffz", 1));
        check(b"gone", &[edit("gone", "", false)], (b"", 1));
    }

    #[test]
    fn text_without_a_unique_match_fails_with_a_hint() {
        let fail = |before: &str, edits: &[TextEdit]| apply(before.as_bytes(), edits, 1 << 20).unwrap_err();
        let often = fail("a\nb\na\n", &[edit("a", "c", false)]);
        assert_eq!(often.message, "old_text of edit 1 occurs 2 times, in lines 1, 3; nothing was changed");
        let near =
            fail("fn main() {\n    run();\n}\n", &[edit("{", "{", false), edit("  run( );", "", false)]);
        assert!(near.message.starts_with("old_text of edit 2 is not in the file"), "{near:?}");
        assert!(!near.message.contains("run"), "no content in what is recorded");
        assert_eq!(near.hint.unwrap(), "the most similar text is in lines 2 to 2:\n    run();");
        let ends = fail("a\r\nb\r\n", &[edit("a\nb", "x", false)]);
        assert!(ends.hint.unwrap().contains("\\r\\n"));
        assert_eq!(
            fail("", &[edit("x", "y", false)]).hint.unwrap(),
            "the file has no similar text: read it again"
        );
    }

    #[test]
    fn edits_cannot_grow_a_file_past_its_limit() {
        let check = |before: &str, edits: &[TextEdit], limit: u64, expect: Option<&str>| {
            let found = apply(before.as_bytes(), edits, limit).err().map(|failure| failure.message);
            let expect = expect.map(|message| format!("{message}; nothing was changed"));
            assert_eq!(found, expect);
        };
        let past =
            |number: u32, limit: u64| format!("edit {number} would make the file grow past {limit} bytes");
        // A terabyte: allocating it would abort the process.
        let (many, long) = ("a".repeat(1 << 20), "b".repeat(1 << 20));
        check(&many[..1_000_000], &[edit("a", &long, true)], 64 << 20, Some(&past(1, 64 << 20)));
        check("aa", &[edit("a", "bb", true)], 4, None);
        check("aa", &[edit("a", "bbb", true)], 4, Some(&past(1, 4)));
        let back = [edit("a", "bbb", true), edit("bbb", "a", true)];
        check("aa", &back, 4, Some(&past(1, 4)));
        check("aaaa", &[edit("a", "", true)], 2, None);
        let often = format!("edit 1 would make more than {MAX_REPLACEMENTS} replacements");
        check(&many, &[edit("a", "b", true)], 64 << 20, Some(&often));
        let half = &many[..MAX_REPLACEMENTS / 2 + 1];
        let twice = [edit("a", "b", true), edit("b", "a", true)];
        check(half, &twice, 64 << 20, Some(&often.replace("edit 1", "edit 2")));
    }
}
