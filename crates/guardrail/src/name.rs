//! What a caller may have meant by a name that no tool has. Never by a part of it: `overwrite` is not `write`.

/// The name without what an MCP host puts before it: `mcp__server__tool` is `tool`.
pub fn without_host(name: &str) -> Option<&str> {
    let prefix = name.get(..5).filter(|prefix| prefix.eq_ignore_ascii_case("mcp__"))?;
    let (server, tool) = name.get(prefix.len()..)?.rsplit_once("__")?;
    (!server.is_empty() && !tool.is_empty()).then_some(tool)
}

/// The name in front of arguments that were glued to it, as in `write_file<arg_key>…`, `write_file{"path"…` or
/// `write_file(path=…`. What follows is no part of any name and may hold anything, so it is not repeated.
pub fn before_markup(name: &str) -> Option<&str> {
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '@')))?;
    let (plain, rest) = name.split_at_checked(end)?;
    (!plain.is_empty() && rest.trim_start().starts_with(MARKUP)).then_some(plain)
}

/// What arguments begin with, in the dialects that models have been seen to write.
const MARKUP: [char; 15] = ['<', '>', '{', '}', '[', ']', '(', ')', '"', '\'', '=', ':', ',', '`', '|'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b20_the_prefix_of_a_host_is_taken_off_whole() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(without_host(name), expect, "{name}");
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
    fn b28_arguments_glued_to_a_name_are_told_from_it() {
        let check = |name: &str, expect: Option<&str>| assert_eq!(before_markup(name), expect, "{name}");
        check("write_file<arg_key>path</arg_key>", Some("write_file"));
        check("write_file{\"path\": \"a\"}", Some("write_file"));
        check("write_file(path='a')", Some("write_file"));
        check("write_file [\"a\"]", Some("write_file"));
        check("write_file\n<parameter>", Some("write_file"));
        check("mcp__x__Write=1", Some("mcp__x__Write"));
        check("read_file@2(", Some("read_file@2"));
        for plain in ["write_file", "", "<write_file>", "write file", "write_file/", "schreibe_datei_ö"] {
            check(plain, None);
        }
    }
}
