//! Normalization of tool names that no tool has. It never matches a part of a name: `overwrite` is not
//! `write`.

/// Strips the prefix that an MCP host adds: `mcp__server__tool` becomes `tool`.
pub fn strip_host_prefix(name: &str) -> Option<&str> {
    let prefix = name.get(..5).filter(|prefix| prefix.eq_ignore_ascii_case("mcp__"))?;
    let (server, tool) = name.get(prefix.len()..)?.rsplit_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some(tool)
}

/// Strips markup from a name: before it, as in `<tool>write_file</tool>`, `<function=write_file>` or ``
/// `write_file` ``, or after it, as in `write_file<arg_key>…`, `write_file{"path"…` or `write_file(path=…`.
/// The text that follows is not part of any name and may contain anything, so it is dropped.
pub fn strip_markup(name: &str) -> Option<&str> {
    let inside = strip_opening_markup(name);
    let rest = inside.unwrap_or(name);
    let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '@')));
    let (plain, after) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
    let after = after.trim_start();
    let glued = after.starts_with(MARKUP_CHARS) || (inside.is_some() && after.is_empty());
    (glued && !plain.is_empty()).then_some(plain)
}

/// Characters that start arguments in the formats that models were observed to write.
const MARKUP_CHARS: [char; 15] = ['<', '>', '{', '}', '[', ']', '(', ')', '"', '\'', '=', ':', ',', '`', '|'];

/// Tags around a call in those formats. No other tag is stripped.
const CALL_TAGS: [&str; 8] =
    ["tool", "tool_call", "tool_name", "tool_use", "function", "function_call", "invoke", "name"];

/// Maximum nesting of tags, as in `<tool_call><function=read_file>`. Deeper nesting was not observed.
const MAX_TAGS: usize = 3;

/// Returns the text after the opening tags or quote of a name, or `None` if it starts with neither.
fn strip_opening_markup(name: &str) -> Option<&str> {
    let mut rest = name.trim_start();
    for taken in 0..MAX_TAGS {
        match strip_tag(rest) {
            Some((inside, NamePosition::AfterTag)) => rest = inside.trim_start(),
            Some((inside, NamePosition::InsideTag)) => return Some(inside),
            None if taken > 0 => return Some(rest),
            None => return rest.strip_prefix(['"', '\'', '`']),
        }
    }
    Some(rest)
}

/// Position of the name relative to a tag.
enum NamePosition {
    /// After the tag: `<tool>`.
    AfterTag,
    /// Inside the tag: `<function=NAME>`, `<invoke name="NAME">`.
    InsideTag,
}

fn strip_tag(text: &str) -> Option<(&str, NamePosition)> {
    let inner = text.strip_prefix('<')?;
    let end = inner.find(|c: char| !(c.is_ascii_alphabetic() || c == '_'))?;
    let (word, after) = inner.split_at_checked(end)?;
    if !CALL_TAGS.iter().any(|tag| word.eq_ignore_ascii_case(tag)) {
        return None;
    }
    if let Some(inside) = after.strip_prefix('>') {
        return Some((inside, NamePosition::AfterTag));
    }
    let value = match after.strip_prefix('=') {
        Some(value) => value,
        None => after.trim_start().strip_prefix("name")?.strip_prefix('=')?,
    };
    Some((value.strip_prefix(['"', '\'']).unwrap_or(value), NamePosition::InsideTag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_prefix_is_stripped_completely() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(strip_host_prefix(name), expect, "{name}");
        check("mcp__local_toolkit__write_local_file", Some("write_local_file"));
        check("MCP__Local__WRITE", Some("WRITE"));
        check("mcp__a__b__tool", Some("tool"));
        check("mcp__a_b__tool_x", Some("tool_x"));
        for other in
            ["write", "mcp__", "mcp__write", "mcp____write", "mcp__a__", "xmcp__a__write", "a__write", ""]
        {
            check(other, None);
        }
    }

    #[test]
    fn markup_around_a_name_is_stripped() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(strip_markup(name), expect, "{name}");
        check("write_file<arg_key>path</arg_key>", Some("write_file"));
        check("write_file{\"path\": \"a\"}", Some("write_file"));
        check("write_file(path='a')", Some("write_file"));
        check("write_file [\"a\"]", Some("write_file"));
        check("write_file\n<parameter>", Some("write_file"));
        check("mcp__x__Write=1", Some("mcp__x__Write"));
        check("read_file@2(", Some("read_file@2"));
        check("<tool>read_file</tool>", Some("read_file"));
        check("<tool>read_file", Some("read_file"));
        check("<function=read_file>", Some("read_file"));
        check("<Function=\"read_file\">{\"path\": 1}", Some("read_file"));
        check("<invoke name=\"mcp__x__Write\">", Some("mcp__x__Write"));
        check("<tool_call>\n<function=read_file>\n<parameter=path>", Some("read_file"));
        check("<tool_call><tool><name>read_file</name>", Some("read_file"));
        check("`read_file`", Some("read_file"));
        check("\"read_file\"", Some("read_file"));
        for other in [
            "write_file",
            "",
            "<write_file>",
            "<b>write_file</b>",
            "<tools>write_file</tools>",
            "<tool",
            "<tool>",
            "<tool></tool>",
            "<tool>write file</tool>",
            "<tool>../write_file</tool>",
            "<tool>schreibe_ö</tool>",
            "<function=>",
            "<function class=write_file>",
            "< tool>write_file",
            "<tool_call><tool><name><tool>write_file",
            "``write_file``",
            "write file",
            "write_file/",
            "schreibe_datei_ö",
        ] {
            check(other, None);
        }
    }
}
