//! Minimal lexer that tells Rust code from comments and strings. It parses no other syntax: a check that
//! needs more belongs to clippy.

/// Blanks comments and string literals; lines keep their numbers.
pub(crate) fn code_only(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let inside_word = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = if inside_word {
            quote_or_comment(rest)
        } else {
            prefixed(rest).or_else(|| quote_or_comment(rest))
        };
        let (taken, left) = rest.split_at_checked(length.unwrap_or(next.len_utf8())).unwrap_or((rest, ""));
        match length {
            Some(_) => code.extend(taken.chars().map(|c| if c == '\n' { c } else { ' ' })),
            None => code.push_str(taken),
        }
        rest = left;
    }
    code
}

/// Length of a raw or byte string that starts here.
fn prefixed(rest: &str) -> Option<usize> {
    let after = rest.trim_start_matches(['b', 'c']);
    let prefix = rest.len() - after.len();
    if let Some(raw) = after.strip_prefix('r') {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let body = raw.trim_start_matches('#').strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = body.find(&end).map_or(body.len(), |at| at + end.len());
        return Some(prefix + 1 + hashes + 1 + inside);
    }
    (prefix == 1)
        .then(|| quote_or_comment(after).filter(|_| after.starts_with(['"', '\''])))
        .flatten()
        .map(|l| l + 1)
}

/// Length of a comment, a string or a character that starts here.
fn quote_or_comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment(rest));
    }
    if let Some(body) = rest.strip_prefix('"') {
        return Some(1 + until_quote(body, '"'));
    }
    let body = rest.strip_prefix('\'')?;
    // Two quotes with a single character between them are a character literal; any other quote begins a
    // lifetime.
    let mut letters = body.chars();
    match (letters.next()?, letters.next()?) {
        ('\\', _) => Some(1 + until_quote(body, '\'')),
        (one, '\'') => Some(1 + one.len_utf8() + 1),
        _ => None,
    }
}

fn until_quote(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    body.len()
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(tail) = rest.get(at..) {
        if tail.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if tail.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            match tail.chars().next() {
                Some(c) => at += c.len_utf8(),
                None => break,
            }
        }
    }
    rest.len()
}

/// Number of lines outside `#[cfg(test)] mod … { … }`.
pub(crate) fn production_lines(text: &str) -> usize {
    // A module from its attribute to its closing brace has one line more than line ends.
    let test_lines: usize =
        test_modules(&code_only(text)).iter().map(|module| module.matches('\n').count() + 1).sum();
    text.lines().count().saturating_sub(test_lines)
}

/// Returns the code outside `#[cfg(test)] mod … { … }`, with comments and strings blanked; lines keep their
/// numbers.
pub(crate) fn production_code(text: &str) -> String {
    let code = code_only(text);
    let mut production = code.clone();
    for module in test_modules(&code) {
        production = production.replacen(module, &"\n".repeat(module.matches('\n').count()), 1);
    }
    production
}

/// Inline test modules of a text without comments and strings, each from the end of its attribute to its
/// closing brace.
fn test_modules(code: &str) -> Vec<&str> {
    let mut modules = Vec::new();
    let mut rest = code;
    while let Some((_, after)) = rest.split_once("#[cfg(test)]") {
        rest = after;
        let Some((head, body)) = after.split_once('{') else { break };
        if head.trim_start().starts_with("mod ") && !head.contains(';') {
            let length = head.len() + 1 + block_length(body);
            let (module, left) = after.split_at_checked(length).unwrap_or((after, ""));
            modules.push(module);
            rest = left;
        }
    }
    modules
}

/// Length of `body` up to and including the brace that closes the one before it.
fn block_length(body: &str) -> usize {
    let mut depth = 1_usize;
    for (at, c) in body.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    body.len()
}

/// Returns true if a doc comment opens a code block that rustdoc would compile.
pub(crate) fn has_doctest(text: &str) -> bool {
    let documented = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    let mut open = false;
    for line in documented {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let runs = |word: &str| {
            ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&word)
                || word.starts_with("edition")
        };
        if !open && info.trim().split(',').all(|word| runs(word.trim())) {
            return true;
        }
        open = !open;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, expect: &str) {
        let code = code_only(source);
        assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), expect, "{source}");
        assert_eq!(code.matches('\n').count(), source.matches('\n').count(), "{source}");
    }

    #[test]
    fn comments_and_strings_are_blanked() {
        check("a(); // b()\nc();", "a(); c();");
        check("a(); /* b() /* c() */ d() */ e();", "a(); e();");
        check(r#"f("x // y \" z", 1);"#, "f( , 1);");
        check("f(r#\"x \" y\"#, 2);", "f( , 2);");
        check(r#"f(b"x", c"y", br"z");"#, "f( , , );");
        check(r"f('a', '\'', '\u{1F}', b'x');", "f( , , , );");
        check("fn f<'a>(x: &'a str) -> &'static str { x }", "fn f<'a>(x: &'a str) -> &'static str { x }");
        check("let number = 4; for_r(\"x\")", "let number = 4; for_r( )");
        check("\"first\nsecond\" + x", "+ x");
    }

    #[test]
    fn production_code_has_no_test_module() {
        let code = production_code("a\n#[cfg(test)]\nmod tests {\nb\n}\nc\n");
        assert_eq!((code.contains('b'), code.lines().nth(5)), (false, Some("c")));
    }

    #[test]
    fn lines_of_the_test_module_do_not_count() {
        assert_eq!(production_lines("a\nb\n"), 2);
        assert_eq!(production_lines("a\n\n#[cfg(test)]\nmod tests {\n    fn x() {}\n}\n"), 2);
        assert_eq!(production_lines("a\n#[cfg(test)]\nmod tests {\n let s = \"}\";\n // }\n}\nb\n"), 2);
        assert_eq!(production_lines("#[cfg(test)]\nmod tests;\n\nfn a() {\n}\n"), 5);
        assert_eq!(production_lines("#[cfg(test)]\nfn only_here() {\n}\n"), 3);
    }

    #[test]
    fn doctests_are_told_from_other_code_blocks() {
        assert!(has_doctest("//! ```\n//! f();\n//! ```\n"));
        assert!(has_doctest("    /// ```rust,no_run\n"));
        assert!(has_doctest("/// ```text\n/// a\n/// ```\n/// ```compile_fail\n"));
        assert!(!has_doctest("/// ```text\n/// a\n/// ```\n"));
        assert!(!has_doctest("/// ```json\n/// {}\n/// ```\n"));
        assert!(!has_doctest("let s = \"```\";\n"));
    }
}
