//! Matching of unknown argument names with the argument names of a tool.

use tool::text::{is_typo_of, nearest_word};

/// Names that models use interchangeably. An unknown key matches another name of its row if the tool has exactly
/// one argument of that row.
const SYNONYMS: [&[&str]; 10] = [
    &[
        "path",
        "file_path",
        "filepath",
        "filename",
        "file_name",
        "file",
        "target_file",
        "absolute_path",
        "directory",
        "directory_path",
        "dir",
        "folder",
        "target",
        "location",
    ],
    &["content", "contents", "text", "file_text", "file_content", "data", "body", "new_content"],
    &["query", "q", "search", "search_query", "search_term", "keywords"],
    &["url", "uri", "link", "href", "address"],
    &["command", "cmd", "argv", "shell_command"],
    &["to", "recipient", "recipient_email", "email"],
    &["limit", "max_entries", "max_results", "count", "max"],
    &["offset", "start", "skip"],
    &["old_text", "old_string", "old_str"],
    &["new_text", "new_string", "new_str"],
];

/// Returns the one known name that `key` probably denotes: equal except for case and separators, a synonym,
/// or a typing error. `None` if the match is ambiguous.
pub(crate) fn likely_name<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let folded = fold(key);
    let equal_names: Vec<&&str> = known.iter().filter(|name| fold(name) == folded).collect();
    match equal_names.as_slice() {
        [name] => return Some(name),
        [] => {}
        _ => return None,
    }
    let row = SYNONYMS.iter().find(|row| row.iter().any(|word| fold(word) == folded));
    let synonyms: Vec<&&str> =
        row.into_iter().flat_map(|row| known.iter().filter(|name| row.contains(name))).collect();
    match synonyms.as_slice() {
        [name] => Some(name),
        [] => nearest_word(key, known.iter().copied()),
        _ => None,
    }
}

/// Like `likely_name`, but tolerates at most one typing error, because a similar name may mean the opposite
/// (`no_recursive`, `exclude_hidden`). A repair may use the result.
pub(crate) fn unambiguous_name<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let is_synonym = |name: &str| {
        SYNONYMS.iter().any(|row| row.contains(&name) && row.iter().any(|word| fold(word) == fold(key)))
    };
    likely_name(key, known)
        .filter(|name| fold(name) == fold(key) || is_synonym(name) || is_typo_of(key, name))
}

fn fold(word: &str) -> String {
    // A key that a caller sends may be megabytes long. The names of arguments are short.
    let letters =
        word.chars().take(tool::text::MAX_QUOTED_CHARS + 1).filter(|c| !matches!(c, '_' | '-' | ' ' | '.'));
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_one_name_matches() {
        let check = |key: &str, known: &[&str], expect: Option<&str>| {
            assert_eq!(likely_name(key, known), expect, "{key}")
        };
        let write = ["path", "content", "mode"];
        check("file_path", &write, Some("path"));
        check("FilePath", &write, Some("path"));
        check("Content", &write, Some("content"));
        check("contnet", &write, Some("content"));
        check("text", &write, Some("content"));
        check("colour", &write, None);
        check("file", &["path", "target"], None);
        check("max-entries", &["max_entries", "limit"], Some("max_entries"));
        check("A_B", &["ab", "a_b"], None);
        check(&"path".repeat(1 << 20), &write, None);
        let longest = "k".repeat(tool::text::MAX_QUOTED_CHARS);
        check(&format!("{longest}, and what goes on is another word"), &[&longest], None);
        check(&format!("{}, and so does this", &longest[1..]), &[&longest], None);
    }

    #[test]
    fn merely_similar_name_is_not_acted_on() {
        for (key, name) in [
            ("no_recursive", "recursive"),
            ("nonrecursive", "recursive"),
            ("no_dry_run", "dry_run"),
            ("exclude_hidden", "include_hidden"),
            ("case_insensitive", "case_sensitive"),
            ("expected_sha512", "expected_sha256"),
        ] {
            assert_eq!(
                (likely_name(key, &[name]), unambiguous_name(key, &[name])),
                (Some(name), None),
                "{key}"
            );
        }
        for (key, name) in [("Recursive", "recursive"), ("recursve", "recursive"), ("file_path", "path")] {
            assert_eq!(unambiguous_name(key, &[name]), Some(name), "{key}");
        }
    }
}
