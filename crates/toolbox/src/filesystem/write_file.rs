//! `write_file`: a file's content, replaced whole. Old or new, never half.

use std::borrow::Cow;
use std::io::Read;

use governance::Permit;
use registry::{Change, Preview};
use resources::{Expected, ObjectKind, OpenedPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, Failure, FailureKind, Mode, Output, RiskLevel, ToolSpec, Usage, canonical,
};

use super::{shown, target};
use crate::tool_entry::{Answer, ToolEntry};

/// Nobody reads a change of a larger file.
const MOST_FORESEEN: u64 = 8 * 1024 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to write, absolute or relative to the workspace. Its folder must exist.
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
    /// How many bytes it has now.
    size: u64,
    /// The digest of its content now.
    sha256: String,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Write a text file. The file is replaced whole: a failure leaves the old content.";
    let mut spec = ToolSpec::new("write_file", about, Category::SYSTEM_WRITE, RiskLevel::High);
    spec.allowed_modes = vec![Mode::Normal];
    spec.annotations = Annotations { destructive_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "notes.txt", "content": "Remember the milk.\n"}));
    ToolEntry::foreseen(spec, write, foresee)
}

fn write(permit: &Permit, arguments: &Arguments) -> Result<Answer<Written>, Failure> {
    let file = target(permit)?;
    let (content, expected) = planned(permit, file, arguments)?;
    let replaced = file.replace(&content, &expected)?;
    let usage = Usage { written_bytes: replaced.bytes, ..Usage::default() };
    let facts = Output { files_touched: vec![shown(file)], usage, ..Output::default() };
    let value = Written {
        path: shown(file),
        created: replaced.created,
        size: replaced.bytes,
        sha256: replaced.sha256,
    };
    Ok(Answer { value, facts })
}

/// The file before and after, for the person who is asked.
fn foresee(permit: &Permit, arguments: &Arguments) -> Result<Preview, Failure> {
    let file = target(permit)?;
    let (content, _) = planned(permit, file, arguments)?;
    let before = match file.kind() {
        ObjectKind::File => Some(file.read_range(0, MOST_FORESEEN)?).map(|old| (old.bytes, old.more)),
        _ => None,
    };
    if before.as_ref().is_some_and(|(_, more)| *more) {
        let message = format!("`{}` is too large for its change to be shown", shown(file));
        return Err(Failure::new(FailureKind::TooLarge, message));
    }
    let change = Change {
        path: file.canonical().to_owned(),
        before: before.map(|(bytes, _)| bytes),
        after: Some(content.into_owned()),
    };
    Ok(Preview { changes: vec![change], ..Preview::default() })
}

/// What the file would hold, and what must be there for that.
fn planned<'a>(
    permit: &Permit,
    file: &OpenedPath,
    arguments: &'a Arguments,
) -> Result<(Cow<'a, [u8]>, Expected), Failure> {
    let whole = Cow::Borrowed(arguments.content.as_bytes());
    Ok(match (arguments.mode, &arguments.expected_sha256) {
        (WriteMode::Append, asked) if file.kind() == ObjectKind::File => {
            appended(permit, file, &arguments.content, asked.as_deref())?
        }
        (WriteMode::Create, None) => (whole, Expected::Absent),
        (WriteMode::Create, Some(_)) => {
            let message = "a file that must not exist has no expected_sha256";
            return Err(Failure::new(FailureKind::Conflict, message).hint("leave one of the two out"));
        }
        (_, None) => (whole, Expected::Anything),
        (_, Some(sha256)) => (whole, Expected::Content { sha256: sha256.clone() }),
    })
}

/// The old content with the new behind it, to be written only if the old is still what was read here.
fn appended<'a>(
    permit: &Permit,
    file: &OpenedPath,
    addition: &str,
    asked: Option<&str>,
) -> Result<(Cow<'a, [u8]>, Expected), Failure> {
    let limit = permit.max_file_bytes().unwrap_or(u64::MAX);
    let room = limit.saturating_sub(addition.len() as u64);
    let mut content = Vec::new();
    file.reader()?
        .take(room.saturating_add(1))
        .read_to_end(&mut content)
        .map_err(|error| Failure::from_io(&format!("reading `{}`", shown(file)), &error))?;
    if content.len() as u64 > room {
        let message = format!("`{}` would grow past {limit} bytes", shown(file));
        return Err(Failure::new(FailureKind::TooLarge, message));
    }
    let sha256 = canonical::sha256_hex(&content);
    if asked.is_some_and(|asked| !asked.eq_ignore_ascii_case(&sha256)) {
        let message = format!("`{}` has changed: its sha256 is now {sha256}", shown(file));
        return Err(Failure::new(FailureKind::Conflict, message).hint("read it again"));
    }
    content.extend_from_slice(addition.as_bytes());
    Ok((Cow::Owned(content), Expected::Content { sha256 }))
}
