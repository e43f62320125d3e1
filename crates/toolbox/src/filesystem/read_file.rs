//! `read_file`: the content of a file, in parts where it is long, with what is needed to write it back safely.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use governance::Permit;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{
    Annotations, Category, Failure, FailureKind, Output, RiskLevel, ToolSpec, Truncation, Usage, canonical,
};

use super::{answer_budget, shown, target, timestamp};
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
    offset: u64,
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
    /// Of the whole file, in bytes.
    size: u64,
    /// Of the whole file. Hand it to write_file as expected_sha256 to be sure nothing is lost.
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
    let budget = answer_budget(permit);
    let portion = file.read_range(arguments.offset, limit.min(budget))?;
    // Files the system makes up on the fly have no size; what was read of them is all there is to go by.
    let size = portion.size.max(arguments.offset + portion.bytes.len() as u64);
    if size > limit {
        let message = format!("`{}` has {size} bytes; at most {limit} are read", shown(file));
        return Err(
            Failure::new(FailureKind::TooLarge, message).hint("raise max_size_mb as far as policy allows")
        );
    }
    let (content, encoding, used) = encode(&portion.bytes, budget, portion.more);
    let end = arguments.offset + used;
    let truncated = (portion.more || used < portion.bytes.len() as u64).then(|| Truncation {
        total: size,
        returned: used,
        how_to_continue: format!("call again with offset={end}"),
    });
    let modified = file.metadata().and_then(|facts| timestamp(facts.modified));
    let is_whole = arguments.offset == 0 && !portion.more;
    let sha256 = if is_whole { canonical::sha256_hex(&portion.bytes) } else { file.sha256()? };
    let value = Content { path: shown(file), content, encoding, size, sha256, modified };
    let usage = Usage { read_bytes: used, ..Usage::default() };
    Ok(Answer { value, facts: Output { usage, truncated, ..Output::default() } })
}

/// The bytes as text where they are text, whole characters only, and no more than fits the budget once escaped.
fn encode(bytes: &[u8], budget: u64, more: bool) -> (String, &'static str, u64) {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // Cut in the middle of a character, and text up to there: the rest comes with the next part.
        Err(error) if more && error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).and_then(|head| std::str::from_utf8(head).ok())
        }
        Err(_) => None,
    };
    match text {
        Some(text) => {
            let head = fitting(text, budget);
            (head.to_owned(), "utf-8", head.len() as u64)
        }
        None => {
            let most = usize::try_from(budget / 4 * 3).unwrap_or(usize::MAX);
            let head = bytes.get(..most.min(bytes.len())).unwrap_or(bytes);
            (STANDARD.encode(head), "base64", head.len() as u64)
        }
    }
}

/// The longest beginning of a text that takes at most `budget` bytes as a JSON string.
fn fitting(text: &str, budget: u64) -> &str {
    let mut left = budget;
    for (at, c) in text.char_indices() {
        let cost = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_ascii_control() => 6,
            c => c.len_utf8() as u64,
        };
        if cost > left {
            return text.get(..at).unwrap_or_default();
        }
        left -= cost;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_between_characters_and_by_its_escaped_size() {
        let check =
            |text: &str, budget, expect: &str| assert_eq!(fitting(text, budget), expect, "{text:?} {budget}");
        check("abc", 3, "abc");
        check("abc", 2, "ab");
        check("aéb", 2, "a");
        check("a\nb", 3, "a\n");
        check("\u{1}\u{1}", 11, "\u{1}");
        check("", 0, "");
    }

    #[test]
    fn what_is_not_text_is_base64_and_loses_nothing() {
        assert_eq!(encode(b"\xff\xfe", 100, false), ("//4=".to_owned(), "base64", 2));
        assert_eq!(encode("é".as_bytes(), 100, false), ("é".to_owned(), "utf-8", 2));
        assert_eq!(encode(b"a\xc3", 100, true), ("a".to_owned(), "utf-8", 1), "half a character waits");
        assert_eq!(encode(b"a\xc3", 100, false).1, "base64", "half a character at the end is not text");
    }
}
