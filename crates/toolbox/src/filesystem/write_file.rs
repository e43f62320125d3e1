//! `write_file`: a file's content, replaced whole. Old or new, never half.

use std::borrow::Cow;
use std::sync::Arc;

use governance::Permit;
use registry::Preview;
use resources::{Expected, OpenedPath, UndoStore};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec, Usage, canonical,
};

use super::dry_run::{DryRun, current, foreseen, limit};
use super::{create_directory, shown, target};
use crate::on_thread::Changing;
use crate::tool_entry::{Answer, ToolEntry};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to write, absolute or relative to the workspace. Its directory must exist, unless create_dirs is set.
    #[schemars(extend("format" = "path", "x-sinew-access" = "write", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// The text to write.
    content: String,
    /// create: only if nothing is there; overwrite: whatever is there; append: after what is there.
    #[serde(default)]
    mode: WriteMode,
    /// Write only if the file still has this SHA-256 (read_file tells it).
    #[serde(default)]
    #[schemars(regex(pattern = "^[0-9a-fA-F]{64}$"))]
    expected_sha256: Option<String>,
    /// Make the directories on the way to the file that are not there. They come with the file or not at all.
    #[serde(default)]
    create_dirs: bool,
    /// Write nothing, and show what would change.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WriteMode {
    Create,
    #[default]
    Overwrite,
    Append,
}

#[derive(Serialize, JsonSchema)]
struct Written {
    /// The canonical name of the file.
    path: String,
    /// Whether it was not there before.
    created: bool,
    /// How many bytes it has now, or would have.
    size: u64,
    /// The digest of its content now, or as it would be.
    sha256: String,
    /// The directories that were made for it, or would be, the outermost first. Absent where none was.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    created_dirs: Vec<String>,
    /// What a dry run would change. Absent where it was changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    preview: Option<DryRun>,
}

pub(super) fn tool(undo: &Arc<UndoStore>) -> ToolEntry {
    let about = "Write a text file. The file is replaced whole: a failure leaves the old content.";
    let mut spec = ToolSpec::new("write_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "notes.txt", "content": "Remember the milk.\n"}));
    ToolEntry::changing(spec, write, foresee, undo)
}

fn write(change: &Changing<'_>, arguments: &Arguments) -> Result<Answer<Written>, Failure> {
    let file = target(change.permit)?;
    let (content, expected) = planned(change.permit, file, arguments)?;
    if arguments.dry_run {
        return rehearsed(change.permit, file, arguments, &content, &expected);
    }
    let (replaced, made) = match arguments.create_dirs {
        true => file.replace_with_folders(&content, &expected, &change.saving)?,
        false => (file.replace(&content, &expected, &change.saving)?, Vec::new()),
    };
    let created_dirs = create_directory::names(&made);
    let usage = Usage { written_bytes: replaced.bytes, ..Usage::default() };
    let files_touched = created_dirs.iter().cloned().chain([shown(file)]).collect();
    let facts = Output { files_touched, usage, ..Output::default() };
    let (created, size, sha256) = (replaced.created, replaced.bytes, replaced.sha256);
    let value = Written { path: shown(file), created, size, sha256, created_dirs, preview: None };
    Ok(Answer { value, facts })
}

/// The file before and after, for the person who is asked.
fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    let file = target(permit)?;
    let (content, _) = planned(permit, file, arguments)?;
    let mut preview = foreseen(file, current(permit, file)?, Some(content.into_owned()))?;
    if arguments.create_dirs {
        preview.facts.extend(create_directory::facts(&file.missing_folders()));
    }
    Ok(preview)
}

/// What the file would hold, and what must be there for that.
fn planned<'a>(
    permit: &Permit,
    file: &OpenedPath,
    arguments: &'a Arguments,
) -> Result<(Cow<'a, [u8]>, Expected), Failure> {
    let added = arguments.content.as_bytes();
    Ok(match (arguments.mode, arguments.expected_sha256.as_deref()) {
        (WriteMode::Create, Some(_)) => {
            let message = "a file that must not exist has no expected_sha256";
            return Err(Failure::new(FailureKind::Conflict, message).hint("leave one of the two out"));
        }
        (WriteMode::Create, None) => (Cow::Borrowed(added), Expected::Absent),
        (WriteMode::Append, asked) => appended(permit, file, added, asked)?,
        (WriteMode::Overwrite, None) => (Cow::Borrowed(added), Expected::Anything),
        (WriteMode::Overwrite, Some(sha256)) => {
            (Cow::Borrowed(added), Expected::Content { sha256: sha256.to_owned() })
        }
    })
}

fn rehearsed(
    permit: &Permit,
    file: &OpenedPath,
    arguments: &Arguments,
    content: &[u8],
    expected: &Expected,
) -> Result<Answer<Written>, Failure> {
    let made = match arguments.create_dirs {
        true => file.may_replace_with_folders(expected).map(|()| file.missing_folders())?,
        false => file.may_replace(expected).map(|()| Vec::new())?,
    };
    let created_dirs = create_directory::names(&made);
    let before = current(permit, file)?;
    let preview = Some(DryRun::of(permit, file, before.as_deref(), content));
    let (size, sha256) = (content.len() as u64, canonical::sha256_hex(content));
    let value = Written { path: shown(file), created: before.is_none(), size, sha256, created_dirs, preview };
    Ok(Answer { value, facts: Output::default() })
}

/// The old content with the new behind it, to be written only if the old is still what was read here.
fn appended<'a>(
    permit: &Permit,
    file: &OpenedPath,
    addition: &'a [u8],
    asked: Option<&str>,
) -> Result<(Cow<'a, [u8]>, Expected), Failure> {
    let Some(mut content) = current(permit, file)? else {
        // Asked for a certain content, nothing is not it; the write itself says so.
        let expected = match asked {
            Some(sha256) => Expected::Content { sha256: sha256.to_owned() },
            None => Expected::Absent,
        };
        return Ok((Cow::Borrowed(addition), expected));
    };
    let limit = limit(permit);
    if (content.len() + addition.len()) as u64 > limit {
        let message = format!("`{}` would grow past {limit} bytes", shown(file));
        return Err(Failure::new(FailureKind::TooLarge, message).hint("write a new file instead"));
    }
    let sha256 = canonical::sha256_hex(&content);
    if asked.is_some_and(|asked| !asked.eq_ignore_ascii_case(&sha256)) {
        let message = format!("`{}` has changed: its sha256 is now {sha256}", shown(file));
        return Err(Failure::new(FailureKind::Conflict, message).hint("read it again"));
    }
    content.extend_from_slice(addition);
    Ok((Cow::Owned(content), Expected::Content { sha256 }))
}
