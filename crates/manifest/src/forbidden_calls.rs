//! Search for module imports and file access in the text of a function.
//!
//! Safety does not depend on it, because the engine provides neither. It turns a failure during a call into a
//! message when the manifest is loaded.

/// Use of something unavailable, with its line and column in the text, counted from 0.
pub(crate) struct ForbiddenCall {
    pub(crate) capability: &'static str,
    pub(crate) line: usize,
    pub(crate) column: usize,
}

const MODULES: [&str; 2] = ["require", "import"];
const FILES: [&str; 6] =
    ["readFileSync", "writeFileSync", "readFile", "writeFile", "createReadStream", "createWriteStream"];

/// Returns the first use of something unavailable.
pub(crate) fn find_forbidden_call(text: &str) -> Option<ForbiddenCall> {
    let code = blank_strings_and_comments(text);
    let mut position = (0, 0);
    let mut before = ' ';
    let mut rest = code.as_str();
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        if length == 0 {
            position = if first == '\n' { (position.0 + 1, 0) } else { (position.0, position.1 + 1) };
            before = if first.is_whitespace() { before } else { first };
            rest = rest.get(first.len_utf8()..).unwrap_or_default();
            continue;
        }
        let (word, after) = rest.split_at(length);
        if let Some(capability) = forbidden_kind(word, before, after.trim_start()) {
            return Some(ForbiddenCall { capability, line: position.0, column: position.1 });
        }
        position.1 += word.chars().count();
        before = 'w';
        rest = after;
    }
    None
}

fn forbidden_kind(word: &str, before: char, after: &str) -> Option<&'static str> {
    let called = after.starts_with('(');
    if MODULES.contains(&word) && before != '.' && (called || word == "import") {
        return Some(if word == "require" { "`require`" } else { "`import`" });
    }
    (FILES.contains(&word) && called || word == "fs" && before != '.' && after.starts_with('.'))
        .then_some("files")
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Replaces strings and comments by spaces.
pub(crate) fn blank_strings_and_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
    while let Some(c) = characters.next() {
        match (c, characters.peek()) {
            ('/', Some('/')) => {
                out.push(' ');
                while let Some(c) = characters.next_if(|c| *c != '\n') {
                    out.push(blank(c));
                }
            }
            ('/', Some('*')) => {
                out.push(' ');
                let mut last = ' ';
                for c in characters.by_ref() {
                    out.push(blank(c));
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            ('"' | '\'', _) => {
                out.push(' ');
                let mut escaped = false;
                while let Some(inner) = characters.next_if(|inner| *inner != '\n' || escaped) {
                    out.push(blank(inner));
                    if inner == c && !escaped {
                        break;
                    }
                    escaped = inner == '\\' && !escaped;
                }
            }
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<(&str, usize, usize)>) {
        let found = find_forbidden_call(text).map(|reach| (reach.capability, reach.line, reach.column));
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn calls_are_found_outside_strings_and_comments() {
        check("const fs = require('fs');", Some(("`require`", 0, 11)));
        check("x;\n  require ( 'a')", Some(("`require`", 1, 2)));
        check("import('os')", Some(("`import`", 0, 0)));
        check("import x from 'y'", Some(("`import`", 0, 0)));
        check("fs.readFileSync('/etc/passwd')", Some(("files", 0, 0)));
        check("node.fs.existsSync('/x')", None);
        check("x.writeFile('a')", Some(("files", 0, 2)));
        check("// require('x')\n/* import('y') */ 'require(1)' \"fs.x\"", None);
        check("'it\\'s require(x)'; args.require(1); const required = 1; requires(2)", None);
        check("\"open\nrequire('a')", Some(("`require`", 1, 0)));
        check("important(1); my_import(2)", None);
        check("/* never closed require('x')", None);
    }
}
