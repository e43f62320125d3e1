//! Search for a function text that gives the engine no function to call: it exports a name that it does not
//! define, or it ends with a definition that it does not export.
//!
//! A text that might work is not reported. The engine refuses the rest when the function is called.

use crate::forbidden_calls::{blank_strings_and_comments, is_word};

/// Functions that the language defines with a lower-case name.
const GLOBAL_FUNCTIONS: [&str; 8] = [
    "parseInt",
    "parseFloat",
    "isNaN",
    "isFinite",
    "encodeURI",
    "encodeURIComponent",
    "decodeURI",
    "decodeURIComponent",
];

/// Returns the reason why no function can be found, if that is certain.
pub(crate) fn find_missing_export(text: &str) -> Option<String> {
    let code = blank_strings_and_comments(text);
    let words = || code.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    if let Some(name) =
        exported_names(&code).into_iter().find(|name| words().filter(|word| word == name).count() == 1)
    {
        return Some(format!("it exports `{name}`, which it does not define"));
    }
    // A template or a regular expression can contain text that looks like code.
    let is_unclear =
        code.contains(['`', '/']) || words().any(|word| ["exports", "function", "eval"].contains(&word));
    if is_unclear {
        return None;
    }
    last_definition(&code)
        .map(|name| format!("it ends with the definition of `{name}` and does not export it"))
}

/// Returns the names in `module.exports = name` or `module.exports = { name, name }`.
fn exported_names(code: &str) -> Vec<&str> {
    let Some((_, value)) = code.split_once("module.exports") else { return Vec::new() };
    let Some(value) = value.trim_start().strip_prefix('=') else { return Vec::new() };
    let value = value.trim_start();
    let names: Vec<&str> = match value.strip_prefix('{') {
        Some(members) => members.split('}').next().unwrap_or_default().split(',').map(str::trim).collect(),
        None => vec![value.split(['\n', ';']).next().unwrap_or_default().trim()],
    };
    names.into_iter().filter(|name| is_name(name)).collect()
}

/// Returns true for a name that only the text itself can define.
fn is_name(text: &str) -> bool {
    let is_own = text.starts_with(|c: char| !c.is_numeric() && !c.is_uppercase());
    is_own && text.chars().all(is_word) && !GLOBAL_FUNCTIONS.contains(&text)
}

/// Returns the name that the last statement at the top level defines, if nothing follows the definition.
fn last_definition(code: &str) -> Option<&str> {
    let (mut depth, mut begins, mut last, mut after_end) = (0_i32, true, None, false);
    for (at, c) in code.char_indices() {
        if depth == 0 && begins && is_word(c) {
            let rest = code.get(at..)?;
            let keyword = ["const ", "let ", "var "].iter().find_map(|keyword| rest.strip_prefix(keyword));
            last = keyword.map(|name| name.trim_start().split(|c| !is_word(c)).next().unwrap_or_default());
            after_end = false;
        } else if depth == 0 && after_end && !c.is_whitespace() && c != ';' {
            // Something else follows, which may have the value.
            last = None;
        }
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        begins = matches!(c, ';' | '\n') || (begins && c.is_whitespace());
        after_end |= depth == 0 && c == ';';
    }
    last.filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Option<&str>) {
        let found = find_missing_export(text);
        match (&found, expect) {
            (Some(reason), Some(part)) => assert!(reason.contains(part), "{text}: {reason}"),
            (None, None) => {}
            _ => panic!("{text}: {found:?}, not {expect:?}"),
        }
    }

    #[test]
    fn text_without_a_callable_function_is_found() {
        check("function check(a) {}\nmodule.exports = { chek };", Some("`chek`"));
        check("module.exports = validate", Some("`validate`"));
        check("const validate = (args) => ({ valid: true, errors: [] });", Some("`validate`"));
        check("const a = 1;\nconst f = (x) => {\n  return x;\n}\n", Some("`f`"));
        check("let f = (x) => {\n  const y = x;\n  return y;\n};\n// the end\n", Some("`f`"));
    }

    #[test]
    fn text_that_may_work_is_not_reported() {
        for text in [
            "function v(args) { return args; }",
            "function v(args) {}\nmodule.exports = { v };",
            "module.exports = (data) => data;",
            "module.exports = String;",
            "module.exports = { parseInt };",
            "const f = (a) => a.replace(/;\\nf/, '');",
            "module.exports = { run: (data) => data, data: 1 };",
            "const f = (a) => a;\nmodule.exports = { f };",
            "const f = (a) => a;\nexports.f = f;",
            "const f = (a) => a;\nf",
            "const f = (a) => a; f(args)",
            "const n = args.n;\n({ valid: n > 0, errors: [] })",
            "const n = args.n; [n]",
            "(() => { const a = 1; return { valid: true, errors: [] }; })()",
            "args.n > 0",
            "for (;;) {}",
            "const f = `${a}`",
            "f",
            "",
        ] {
            check(text, None);
        }
    }
}
