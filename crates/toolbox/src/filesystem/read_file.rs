//! `read_file`: reads a file, whole or in part, with the digest needed to write it back safely.

use file_access::OpenedPath;
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::{Truncation, TruncationUnit, Usage};
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec, canonical};

use super::content_encoding::{self, ContentEncoding};
use super::file_part::{FilePart, FileSlice};
use super::{display_path, target, timestamp};
use crate::output_budget;
use crate::tool_registration::{ToolRegistration, TypedOutput};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// File to read, absolute or relative to the workspace.
    #[serde(rename = "path")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _path: String,
    /// Byte to start at, for example to continue a truncated result.
    #[serde(default)]
    offset: Option<u64>,
    /// Number of bytes to read from `offset`.
    #[serde(default)]
    #[schemars(range(min = 1))]
    length: Option<u64>,
    /// First line to read, from 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// Last line to read.
    #[serde(default)]
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
    /// Read only the first lines, this many.
    #[serde(default)]
    #[schemars(range(min = 1))]
    head: Option<u64>,
    /// Read only the last lines, this many.
    #[serde(default)]
    #[schemars(range(min = 1))]
    tail: Option<u64>,
    /// auto: text if it is text, otherwise base64; base64: always.
    #[serde(default)]
    encoding: ContentEncoding,
    /// Largest file to read whole, in MiB. Parts can be read from files of any size.
    #[serde(default = "usual_size")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1024))]
    max_size_mb: f64,
}

fn usual_size() -> f64 {
    10.0
}

#[derive(Serialize, JsonSchema)]
struct ReadFileOutput {
    /// Canonical path of the file.
    path: String,
    /// Content, in the encoding given by `encoding`.
    content: String,
    /// `utf-8`, or `base64` if the bytes are not text or it was requested. Both are lossless.
    encoding: &'static str,
    /// Byte offset of the content in the file.
    offset: u64,
    /// Number of the first line, if lines were requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    /// Size of the whole file, in bytes.
    size: u64,
    /// SHA-256 of the whole file. Pass it as expected_sha256 to write_file or edit_file to detect changes.
    /// Absent if the file is larger than max_size_mb.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// Modification time (RFC 3339).
    modified: Option<String>,
    /// True if another program changed the file during each of several reads: the content may mix versions.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    changed_while_read: bool,
}

pub(super) fn tool() -> ToolRegistration {
    let about = "Read a file: the whole file, a byte range, a line range, or its first or last lines.";
    let mut spec = ToolSpec::new("read_file", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"path": "README.md"}));
    ToolRegistration::new(spec, read)
}

impl Arguments {
    /// Returns the requested part, or a failure if the arguments name more than one.
    fn part(&self) -> Result<FilePart, Failure> {
        let bytes = self.offset.is_some() || self.length.is_some();
        let lines = self.start_line.is_some() || self.end_line.is_some();
        match (bytes, lines, self.head, self.tail) {
            (false, false, None, None) => Ok(FilePart::Whole),
            (true, false, None, None) => Ok(FilePart::Bytes {
                offset: self.offset.unwrap_or(0),
                length: self.length.unwrap_or(u64::MAX),
            }),
            (false, true, None, None) => {
                let (start, end) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(u64::MAX));
                Ok(FilePart::Lines { start, end })
            }
            (false, false, Some(lines), None) => Ok(FilePart::Lines { start: 1, end: lines }),
            (false, false, None, Some(lines)) => Ok(FilePart::Tail { lines }),
            _ => {
                Err(Failure::new(FailureKind::Conflict, "the arguments name more than one part of the file")
                    .with_hint("use one of: offset and length; start_line and end_line; head; tail"))
            }
        }
    }
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<ReadFileOutput>, Failure> {
    let file = target(permit)?;
    let part = arguments.part()?;
    // The schema bounds the number, so the conversion does not overflow.
    let requested = (arguments.max_size_mb * MEBIBYTE) as u64;
    let limit = permit.max_file_bytes().map_or(requested, |policy| policy.min(requested));
    let budget = output_budget::content_budget(permit);
    let size = file.metadata().map_or(0, |facts| facts.size);
    if part == FilePart::Whole && size > limit {
        return Err(too_large(file, size, limit));
    }
    let ((piece, digest), changed_while_read) = file.read_unchanged(|| {
        let piece = part.read(file, limit, budget)?;
        let is_whole = piece.offset == 0 && !piece.has_more;
        let digest = (!is_whole && piece.size <= limit).then(|| file.sha256()).transpose()?;
        Ok::<_, Failure>((piece, digest))
    })?;
    // Virtual files such as those in /proc report size 0; the bytes read are the only indication of their
    // size.
    let size = match piece.size {
        0 if !piece.bytes.is_empty() => piece.offset + piece.bytes.len() as u64,
        stated => stated,
    };
    if part == FilePart::Whole && size > limit {
        return Err(too_large(file, size, limit));
    }
    let (content, encoding, used) =
        content_encoding::encode_content(&piece.bytes, budget, piece.has_more, arguments.encoding);
    let truncated = truncation(&piece, used, size);
    let sha256 = match piece.offset == 0 && !piece.has_more {
        true => Some(canonical::sha256_hex(&piece.bytes)),
        false => digest,
    };
    let modified = file.metadata().and_then(|facts| timestamp(facts.modified));
    let (offset, first_line) = (piece.offset, piece.first_line);
    let value = ReadFileOutput {
        path: display_path(file),
        content,
        encoding,
        offset,
        first_line,
        size,
        sha256,
        modified,
        changed_while_read,
    };
    let usage = Usage { read_bytes: used, ..Usage::default() };
    Ok(TypedOutput { value, metadata: ToolOutput { usage, truncated, ..ToolOutput::default() } })
}

/// Describes the truncation if the file continues after the result or begins before it.
fn truncation(piece: &FileSlice, used: u64, size: u64) -> Option<Truncation> {
    let end = piece.offset + used;
    let goes_on = piece.has_more || used < piece.bytes.len() as u64;
    let how_to_continue = match (goes_on, piece.earlier_offset) {
        (true, _) => format!("call again with offset={end}"),
        (false, Some(offset)) => format!("call again with offset={offset} for the content before it"),
        (false, None) => return None,
    };
    Some(Truncation { unit: TruncationUnit::Bytes, total: size, returned: used, how_to_continue })
}

fn too_large(file: &OpenedPath, size: u64, limit: u64) -> Failure {
    let message = format!(
        "`{}` has {size} bytes; files of more than {limit} bytes are not read whole",
        display_path(file)
    );
    Failure::new(FailureKind::TooLarge, message).with_hint(
        "read a part with head, tail, start_line and end_line, or offset and length; or raise max_size_mb",
    )
}
