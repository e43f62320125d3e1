//! `read_output`: reads the rest of an output that was too long for its result, page by page.

use governance::Permit;
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::definition::Annotations;
use tool::result::Usage;
use tool::{Category, Failure, FailureKind, RiskLevel, ToolOutput, ToolSpec};

use super::output_encoding;
use crate::tool_registration::{ToolRegistration, TypedOutput};

/// Default page size in bytes.
const DEFAULT_PAGE_BYTES: u64 = 32 * 1024;
const MAX_PAGE_BYTES: u64 = 256 * 1024;
/// Largest growth of a byte of output in a JSON result.
const WORST_GROWTH: u64 = 6;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// `id` in `stdout_spill` or `stderr_spill` of a result.
    #[schemars(extend("minLength" = 32, "maxLength" = 32, "pattern" = "^[0-9a-f]+$"))]
    id: String,
    /// Byte to start at; `next_offset` of the previous page.
    #[serde(default)]
    offset: u64,
    /// Maximum number of bytes.
    #[serde(default = "page")]
    #[schemars(extend("minimum" = 1, "maximum" = 262_144))]
    max_bytes: u64,
}

fn page() -> u64 {
    DEFAULT_PAGE_BYTES
}

#[derive(Serialize, JsonSchema)]
struct StoredOutputPage {
    /// Content, in the encoding given by `encoding`.
    content: String,
    /// `utf-8`, or `base64` if the bytes are not text.
    encoding: &'static str,
    /// Byte offset of this page.
    offset: u64,
    /// Byte offset of the next page; absent after the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Number of bytes stored of the whole output.
    total_bytes: u64,
}

pub(super) fn tool() -> ToolRegistration {
    let about =
        "Read the rest of an output that was too long for its result. Outputs are stored for one day.";
    let mut spec = ToolSpec::new("read_output", about, Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations::READ_ONLY;
    spec.example = Some(json!({"id": "0123456789abcdef0123456789abcdef", "offset": 32768}));
    ToolRegistration::new(spec, read)
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<TypedOutput<StoredOutputPage>, Failure> {
    let max = arguments.max_bytes.min(MAX_PAGE_BYTES).min(permit.max_output_bytes() / WORST_GROWTH);
    let spills = Sandbox::of_this_process().spills();
    let spills = spills.map(|spills| spills.for_owner(&permit.call().party()));
    let found = spills.map(|spills| spills.page(&arguments.id, arguments.offset, max));
    let page = match found {
        Some(Ok(Some(page))) => page,
        Some(Ok(None)) | None => {
            return Err(Failure::new(
                FailureKind::NotFound,
                format!("no output `{}` is stored for this caller", arguments.id),
            )
            .with_hint(
                "outputs are stored for one day, and the oldest are removed first; run the command again",
            ));
        }
        Some(Err(error)) => {
            return Err(Failure::new(FailureKind::Io, format!("the output cannot be read: {error}")));
        }
    };
    if arguments.offset > page.total {
        let message = format!("offset `{}` is past the end of the output", arguments.offset);
        return Err(Failure::new(FailureKind::NotFound, message)
            .with_hint(format!("it has {} bytes; use `next_offset` of the previous page", page.total)));
    }
    // A character that is cut at the end of the page goes into the next page.
    let is_last = arguments.offset.saturating_add(page.bytes.len() as u64) >= page.total;
    let whole =
        if is_last { page.bytes.as_slice() } else { output_encoding::trim_partial_char_at_end(&page.bytes) };
    let (content, encoding) = output_encoding::encode(whole);
    let next = arguments.offset.saturating_add(whole.len() as u64);
    let value = StoredOutputPage {
        content,
        encoding,
        offset: arguments.offset,
        next_offset: (next < page.total && !whole.is_empty()).then_some(next),
        total_bytes: page.total,
    };
    let usage = Usage { read_bytes: page.bytes.len() as u64, ..Usage::default() };
    Ok(TypedOutput { value, metadata: ToolOutput { usage, ..ToolOutput::default() } })
}
