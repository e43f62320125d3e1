//! Text in messages: names that are shortened, quoted, compared or escaped before a person or a model reads
//! them. A name in a call or a schema may be megabytes long and contain anything.

mod invisible;
mod nearest;
mod shared_text;

pub use crate::path_text::{parse_path, path_to_text};
pub use crate::trace::random_id;

use std::borrow::Cow;

use serde_json::Value;

pub use invisible::is_invisible;
pub use nearest::{is_typo_of, nearest_word};
pub use shared_text::SharedText;

use crate::canonical;

/// Maximum length, in characters, of a word that is quoted or compared. No name defined by Sinew is longer.
pub const MAX_QUOTED_CHARS: usize = 64;

/// Returns the first `max_chars` characters of a text, with `…` if it was longer. Does not escape anything.
pub fn shorten(text: &str, max_chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max_chars) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(max_chars).chain(['…']).collect()),
    }
}

/// Cuts `shown` to at most `longest` characters, including a mark with the first 16 hexadecimal digits of the
/// SHA-256 of `whole`, so that different names stay different after shortening.
pub fn shorten_with_digest(shown: &str, longest: usize, whole: &str) -> String {
    let digest = canonical::sha256_hex(whole.as_bytes());
    let mark: String = [" #"].into_iter().chain(digest.get(..16)).collect();
    let shown: String = shown.chars().take(longest.saturating_sub(mark.len())).collect();
    format!("{}{mark}", shown.trim_end())
}

/// Joins the streams of a program that ended to one text. `end` describes an end other than the exit code 0.
pub fn program_output(end: Option<&str>, stdout: &str, stderr: &str) -> String {
    let labelled = (!stderr.is_empty()).then(|| format!("stderr:\n{stderr}"));
    let stdout = (!stdout.is_empty()).then_some(stdout);
    let mut text = String::new();
    for part in [end, stdout, labelled.as_deref()].into_iter().flatten() {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(part);
    }
    match (text.is_empty(), end, stdout) {
        (true, ..) => "exit code 0, no output".to_owned(),
        (false, Some(end), None) if labelled.is_none() => format!("{end}, no output"),
        _ => text,
    }
}

/// Replaces every invisible character by its escape, so that untrusted text cannot move the cursor, hide text
/// or reverse a line. Line breaks and tabs stay.
pub fn escape_invisible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\t' => out.push(c),
            c if is_invisible(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// Like `escape_invisible`, and escapes line breaks and tabs too.
pub fn escape_invisible_line(text: &str) -> String {
    escape_invisible(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// Returns the name of the JSON type of a value, as JSON Schema spells it.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_longer_text_is_cut_at_a_character_boundary() {
        let check = |text: &str, expect: &str| assert_eq!(shorten(text, 3), expect, "{text}");
        check("", "");
        check("abc", "abc");
        check("abcd", "abc…");
        check("éèê", "éèê");
        check("éèêë", "éèê…");
    }

    #[test]
    fn every_invisible_character_is_escaped() {
        assert_eq!(
            escape_invisible("a\u{1b}[2Jb\rc\u{202e}d\u{200b}e\u{9b}f\u{e0041}"),
            "a\\u{1b}[2Jb\\u{d}c\\u{202e}d\\u{200b}e\\u{9b}f\\u{e0041}"
        );
        assert_eq!(escape_invisible("tab\tline\né 日本 🙂 C:\\x"), "tab\tline\né 日本 🙂 C:\\x");
        assert_eq!(escape_invisible_line("a\nb\tc"), "a\\nb\\tc");
    }
}
