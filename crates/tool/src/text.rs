//! Text in messages: names that are shortened, quoted, compared or escaped before a person or a model reads
//! them. A name in a call or a schema may be megabytes long and contain anything.

mod shared_text;

use std::borrow::Cow;

use serde_json::Value;
pub use shared_text::SharedText;
use unicode_general_category::{GeneralCategory, get_general_category};

use crate::canonical;
pub use crate::path_text::{parse_path, path_to_text};
pub use crate::trace::random_id;

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

/// Returns true for controls, format characters, spaces other than U+0020, unassigned and private code
/// points, combining marks, and letters without a glyph of their own.
///
/// All marks count, not only nonspacing ones: programs disagree about the width of a mark, and a mark that
/// one program draws with zero width pushes the following text off the screen of another.
pub fn is_invisible(c: char) -> bool {
    !c.is_ascii_graphic() && c != ' ' && (has_invisible_category(c) || has_no_glyph(c))
}

fn has_invisible_category(c: char) -> bool {
    use GeneralCategory as Kind;
    matches!(
        get_general_category(c),
        Kind::Control
            | Kind::Format
            | Kind::Surrogate
            | Kind::PrivateUse
            | Kind::Unassigned
            | Kind::NonspacingMark
            | Kind::SpacingMark
            | Kind::EnclosingMark
            | Kind::SpaceSeparator
            | Kind::LineSeparator
            | Kind::ParagraphSeparator
    )
}

/// Returns true for letters and symbols that are blank or drawn into the preceding character: the vowels and
/// final consonants of Hangul syllables, fillers, the empty Braille cell, the musical note without a head.
fn has_no_glyph(c: char) -> bool {
    matches!(u32::from(c), 0x115f..=0x11ff | 0x2800 | 0x3164 | 0xd7b0..=0xd7ff | 0xffa0 | 0x1d159)
}

/// Returns the known word closest to `wanted`, if it is close enough to be a typing error.
///
/// Returns none if two words are equally close: a wrong suggestion is worse than none. A word longer than
/// `MAX_QUOTED_CHARS` has no match, so that a caller cannot make the comparison expensive.
pub fn nearest_word<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.chars().nth(MAX_QUOTED_CHARS).is_some() {
        return None;
    }
    let wanted = normalize(wanted);
    let limit = (wanted.chars().count() / 3).clamp(1, 3);
    let mut best: Option<(usize, &str)> = None;
    let mut tied = false;
    // No longer word can be within the largest distance, even if all its characters take four bytes.
    for word in known.into_iter().filter(|word| word.len() <= 4 * (MAX_QUOTED_CHARS + 3)) {
        let distance = strsim::osa_distance(&wanted, &normalize(word));
        if distance > limit {
            continue;
        }
        match best {
            Some((least, _)) if distance > least => {}
            Some((least, _)) if distance == least => tied = true,
            _ => (best, tied) = (Some((distance, word)), false),
        }
    }
    best.filter(|_| !tied).map(|(_, word)| word)
}

/// Returns true if `word` is `known_word` with one typing error: a letter too many, missing, wrong, or two
/// swapped. Digits must be equal: `sha512` is not a misspelling of `sha256`.
pub fn is_typo_of(word: &str, known_word: &str) -> bool {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    digits(word) == digits(known_word) && strsim::osa_distance(&normalize(word), &normalize(known_word)) <= 1
}

/// Removes case and separators: differences in them are the most common errors and count as no distance.
fn normalize(word: &str) -> String {
    word.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
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

    #[test]
    fn visible_and_invisible_characters_are_distinguished() {
        let unseen = "\0\u{1b}\r\n\t\u{7f}\u{9b}\u{a0}\u{ad}\u{301}\u{200b}\u{202e}\u{2028}\u{2800}\u{3000}\u{fe0f}\u{feff}\
                      \u{e0041}\u{10ffff}\u{9be}\u{302e}\u{1d165}\u{378}\u{2fe0}\u{5b0}\u{e31}\u{1161}\u{3164}\u{d7b0}\u{e000}";
        for c in unseen.chars() {
            assert!(is_invisible(c), "{c:?}");
        }
        for c in " aZ~é日🙂→…한яא".chars() {
            assert!(!is_invisible(c), "{c:?}");
        }
    }

    #[test]
    fn typing_errors_match_and_ties_do_not() {
        let known = ["read_file", "write_file", "list_directory"];
        let check = |wanted, expect| assert_eq!(nearest_word(wanted, known), expect, "{wanted}");
        check("raed_file", Some("read_file"));
        check("ReadFile", Some("read_file"));
        check("list_dir", None);
        check("delete_everything", None);
        assert_eq!(nearest_word("ab", ["ac", "ad"]), None, "a tie gives no suggestion");
    }

    #[test]
    fn overlong_word_matches_nothing() {
        let longest = "a".repeat(MAX_QUOTED_CHARS);
        assert_eq!(nearest_word(&longest, [longest.as_str()]), Some(longest.as_str()));
        let longer = "é".repeat(MAX_QUOTED_CHARS + 1);
        assert_eq!(nearest_word(&longer, [longer.as_str()]), None);
    }
}
