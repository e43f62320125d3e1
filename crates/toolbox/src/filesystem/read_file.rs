//! `read_file`: the content of a file, whole or not at all, with what is needed to write it back safely.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Annotations, Category, Failure, FailureKind, Output, RiskLevel, ToolSpec, Usage, canonical};

use super::{shown, target, timestamp};
use crate::tool_entry::{Answer, ToolEntry};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The file to read, absolute or relative to the workspace.
    #[schemars(extend("format" = "path", "x-sinew-access" = "read", "minLength" = 1))]
    #[serde(rename = "path")]
    _path: String,
    /// Refuse files larger than this many MiB.
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
    /// `utf-8`, or `base64` where the bytes are not valid UTF-8.
    encoding: &'static str,
    /// In bytes.
    size: u64,
    /// Hand it to write_file as expected_sha256 to be sure nothing is lost.
    sha256: String,
    /// When the content last changed (RFC 3339).
    modified: Option<String>,
}

pub(super) fn tool() -> ToolEntry {
    let mut spec =
        ToolSpec::new("read_file", "Read the content of a file.", Category::READ_ONLY, RiskLevel::Low);
    spec.annotations = Annotations { read_only_hint: true, idempotent_hint: true, ..Annotations::default() };
    spec.example = Some(json!({"path": "README.md"}));
    ToolEntry::new(spec, read)
}

fn read(permit: &Permit, arguments: &Arguments) -> Result<Answer<Content>, Failure> {
    let file = target(permit)?;
    // The schema bounds the number, so the conversion keeps its meaning.
    let asked = (arguments.max_size_mb * MEBIBYTE) as u64;
    let limit = permit.max_file_bytes().map_or(asked, |policy| policy.min(asked));
    let portion = file.read_range(0, limit)?;
    if portion.more {
        let size = portion.size.max(limit);
        let message = format!("`{}` has {size} bytes; at most {limit} are read", shown(file));
        return Err(
            Failure::new(FailureKind::TooLarge, message).hint("raise max_size_mb as far as policy allows")
        );
    }
    let size = portion.bytes.len() as u64;
    let sha256 = canonical::sha256_hex(&portion.bytes);
    let (content, encoding) = match String::from_utf8(portion.bytes) {
        Ok(text) => (text, "utf-8"),
        Err(binary) => (STANDARD.encode(binary.as_bytes()), "base64"),
    };
    let modified = file.metadata().and_then(|facts| timestamp(facts.modified));
    let value = Content { path: shown(file), content, encoding, size, sha256, modified };
    let usage = Usage { read_bytes: size, ..Usage::default() };
    Ok(Answer { value, facts: Output { usage, ..Output::default() } })
}
