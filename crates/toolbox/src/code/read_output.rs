//! `read_output`: the rest of an output that was too long for its result, page by page.

use governance::Permit;
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Output, RiskLevel, ToolSpec, Usage};

use super::bytes;
use crate::tool_entry::{Answer, ToolEntry};

/// What a page has where nothing else is asked.
const PAGE: u64 = 32 * 1024;
const MOST: u64 = 256 * 1024;
/// How many bytes of an answer a byte of output can take.
const WORST_GROWTH: u64 = 6;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The id in `stdout_spill` or `stderr_spill` of a result.
    #[schemars(extend("minLength" = 32, "maxLength" = 32, "pattern" = "^[0-9a-f]+$"))]
    id: String,
    /// The byte to start at; `next_offset` of the page before.
    #[serde(default)]
    offset: u64,
    /// How many bytes at most.
    #[serde(default = "page")]
    #[schemars(extend("minimum" = 1, "maximum" = 262_144))]
    max_bytes: u64,
}

fn page() -> u64 {
    PAGE
}

#[derive(Serialize, JsonSchema)]
struct Part {
    /// The bytes, in the encoding below.
    content: String,
    /// `utf-8`, or `base64` where they are no text.
    encoding: &'static str,
    /// Where this page begins.
    offset: u64,
    /// Where the next one begins; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// How much is kept of the whole output.
    total_bytes: u64,
}

pub(super) fn tool() -> ToolEntry {
    let about = "Read on in an output that was too long for its result. Outputs are kept for a day.";
    let mut spec = ToolSpec::new("read_output", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::LOOKING;
    spec.example = Some(json!({"id": "0123456789abcdef0123456789abcdef", "offset": 32768}));
    ToolEntry::new(spec, read)
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<Answer<Part>, Failure> {
    let most = arguments.max_bytes.min(MOST).min(permit.max_output_bytes() / WORST_GROWTH);
    let spills = Sandbox::of_this_process().spills();
    let spills = spills.map(|spills| spills.of(&permit.call().party()));
    let found = spills.map(|spills| spills.page(&arguments.id, arguments.offset, most));
    let page = match found {
        Some(Ok(Some(page))) => page,
        Some(Ok(None)) | None => {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("no output `{}` is kept for this caller", arguments.id),
            )
            .hint("outputs are kept for a day, the newest longest; run the command again"));
        }
        Some(Err(error)) => {
            return Err(Failure::new(FailureKind::Io, format!("the output cannot be read: {error}")));
        }
    };
    if arguments.offset > page.total {
        let message = format!("offset `{}` is past the end of the output", arguments.offset);
        return Err(Failure::new(FailureKind::NotFound, message).hint(format!(
            "it has {} bytes; `next_offset` of the page before says where to go on",
            page.total
        )));
    }
    // A character that the page cuts in two begins the next one.
    let is_last = arguments.offset.saturating_add(page.bytes.len() as u64) >= page.total;
    let whole = if is_last { page.bytes.as_slice() } else { bytes::whole_at_end(&page.bytes) };
    let (content, encoding) = bytes::shown(whole);
    let next = arguments.offset.saturating_add(whole.len() as u64);
    let value = Part {
        content,
        encoding,
        offset: arguments.offset,
        next_offset: (next < page.total && !whole.is_empty()).then_some(next),
        total_bytes: page.total,
    };
    let usage = Usage { read_bytes: page.bytes.len() as u64, ..Usage::default() };
    Ok(Answer { value, facts: Output { usage, ..Output::default() } })
}
