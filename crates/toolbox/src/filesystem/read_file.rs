//! `read_file`: the content of a file, whole or in part, with what is needed to write it back safely.

use governance::Permit;
use resources::OpenedPath;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, CutUnit, Failure, FailureKind, Output, RiskLevel, ToolSpec, Truncation, Usage,
    canonical,
};

use super::part::{Part, Piece};
use super::text::{self, Encoding};
use super::{shown, target, timestamp};
use crate::room;
use crate::tool_entry::{Answer, ToolEntry};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to read, absolute or relative to the workspace.
    #[serde(rename = "path")]
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    _path: String,
    /// Start at this byte; for reading on where an answer was cut.
    #[serde(default)]
    offset: Option<u64>,
    /// Read so many bytes from `offset` on.
    #[serde(default)]
    #[schemars(range(min = 1))]
    length: Option<u64>,
    /// Start at this line; the first is 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    start_line: Option<u64>,
    /// End with this line.
    #[serde(default)]
    #[schemars(range(min = 1))]
    end_line: Option<u64>,
    /// Only the first so many lines.
    #[serde(default)]
    #[schemars(range(min = 1))]
    head: Option<u64>,
    /// Only the last so many lines.
    #[serde(default)]
    #[schemars(range(min = 1))]
    tail: Option<u64>,
    /// auto: text where it is text, else base64; base64: always.
    #[serde(default)]
    encoding: Encoding,
    /// Refuse to read a larger file whole, in MiB. Parts are read of files of any size.
    #[serde(default = "usual_size")]
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1024))]
    max_size_mb: f64,
}

fn usual_size() -> f64 {
    10.0
}

#[derive(Serialize, JsonSchema)]
struct Content {
    /// The canonical name of the file.
    path: String,
    /// The content, in the encoding below.
    content: String,
    /// `utf-8`, or `base64` where the bytes are not valid UTF-8 or that was asked for. Neither loses anything.
    encoding: &'static str,
    /// Where the content begins in the file, in bytes.
    offset: u64,
    /// The number of its first line, where lines were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    first_line: Option<u64>,
    /// Of the whole file, in bytes.
    size: u64,
    /// Of the whole file. Hand it to write_file or edit_file as expected_sha256 to be sure nothing is lost. Absent for a
    /// file larger than max_size_mb.
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    /// When the content last changed (RFC 3339).
    modified: Option<String>,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Read the content of a file: whole, by bytes, by lines, or its first or last lines.";
    let mut spec = ToolSpec::new("read_file", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"path": "README.md"}));
    ToolEntry::new(spec, read)
}

impl Arguments {
    /// The part that is asked for, in one way.
    fn part(&self) -> Result<Part, Failure> {
        let bytes = self.offset.is_some() || self.length.is_some();
        let lines = self.start_line.is_some() || self.end_line.is_some();
        match (bytes, lines, self.head, self.tail) {
            (false, false, None, None) => Ok(Part::Whole),
            (true, false, None, None) => {
                Ok(Part::Bytes { offset: self.offset.unwrap_or(0), length: self.length.unwrap_or(u64::MAX) })
            }
            (false, true, None, None) => {
                let (start, end) = (self.start_line.unwrap_or(1), self.end_line.unwrap_or(u64::MAX));
                Ok(Part::Lines { start, end })
            }
            (false, false, Some(lines), None) => Ok(Part::Lines { start: 1, end: lines }),
            (false, false, None, Some(lines)) => Ok(Part::Tail { lines }),
            _ => Err(Failure::new(FailureKind::Conflict, "more than one part of the file is asked for")
                .hint("use one of: offset and length; start_line and end_line; head; tail")),
        }
    }
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<Answer<Content>, Failure> {
    let file = target(permit)?;
    let part = arguments.part()?;
    // The schema bounds the number, so the conversion keeps its meaning.
    let asked = (arguments.max_size_mb * MEBIBYTE) as u64;
    let limit = permit.max_file_bytes().map_or(asked, |policy| policy.min(asked));
    let budget = room::for_content(permit);
    let size = file.metadata().map_or(0, |facts| facts.size);
    if part == Part::Whole && size > limit {
        return Err(too_large(file, size, limit));
    }
    let piece = part.read(file, limit, budget)?;
    // Files the system makes up on the fly have no size; what was read of them is all there is to go by.
    let size = match piece.size {
        0 if !piece.bytes.is_empty() => piece.offset + piece.bytes.len() as u64,
        stated => stated,
    };
    if part == Part::Whole && size > limit {
        return Err(too_large(file, size, limit));
    }
    let (content, encoding, used) = text::encode(&piece.bytes, budget, piece.more, arguments.encoding);
    let truncated = cut(&piece, used, size);
    let sha256 = match piece.offset == 0 && !piece.more {
        true => Some(canonical::sha256_hex(&piece.bytes)),
        false if size <= limit => Some(file.sha256()?),
        false => None,
    };
    let modified = file.metadata().and_then(|facts| timestamp(facts.modified));
    let (offset, first_line) = (piece.offset, piece.first_line);
    let value = Content { path: shown(file), content, encoding, offset, first_line, size, sha256, modified };
    let usage = Usage { read_bytes: used, ..Usage::default() };
    Ok(Answer { value, facts: Output { usage, truncated, ..Output::default() } })
}

/// What says that the file goes on where the answer ends, or begins before it does.
fn cut(piece: &Piece, used: u64, size: u64) -> Option<Truncation> {
    let end = piece.offset + used;
    let goes_on = piece.more || used < piece.bytes.len() as u64;
    let how_to_continue = match (goes_on, piece.before) {
        (true, _) => format!("call again with offset={end}"),
        (false, Some(offset)) => format!("call again with offset={offset} for what comes before"),
        (false, None) => return None,
    };
    Some(Truncation { unit: CutUnit::Bytes, total: size, returned: used, how_to_continue })
}

fn too_large(file: &OpenedPath, size: u64, limit: u64) -> Failure {
    let message = format!("`{}` has {size} bytes; at most {limit} are read as a whole", shown(file));
    Failure::new(FailureKind::TooLarge, message).hint(
        "read a part with head, tail, start_line and end_line, or offset and length; or raise max_size_mb",
    )
}
