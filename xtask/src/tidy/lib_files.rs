//! `lib.rs` is a table of contents: documentation, `mod` and `use`, and no other code. A type alias is
//! allowed, because it is only a name.

use crate::tidy::{Finding, rust_source};
use crate::tree::Tree;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending("/src/lib.rs") {
        let code = rust_source::code_only(&file.text);
        if let Some((line, statement)) = first_other(&code) {
            let message =
                format!("`{statement}` does not belong into lib.rs: give it a file, and `pub use` it here");
            findings.push(Finding::error(&file.path, line, message));
        }
    }
    findings
}

/// First statement that is not allowed, with its line.
fn first_other(code: &str) -> Option<(usize, &str)> {
    let mut inside_statement = false;
    for (line, number) in code.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if !inside_statement && !is_allowed(line) {
            return Some((number, line));
        }
        let attribute_only = !inside_statement && line.starts_with('#');
        inside_statement = !attribute_only && !line.ends_with(';');
    }
    None
}

fn is_allowed(line: &str) -> bool {
    if line.starts_with("#[") || line.starts_with("#![") {
        return line.ends_with(']')
            || is_allowed(line.rsplit_once(']').map_or("", |(_, after)| after.trim()));
    }
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')').map_or("", |(_, after)| after),
        Some(rest) => rest,
        None => line,
    };
    let line = line.trim_start();
    let module = line.starts_with("mod ") && line.ends_with(';');
    module || line.starts_with("use ") || line.starts_with("type ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_text(source: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[("crates/a/src/lib.rs", source)])), expect);
    }

    #[test]
    fn a_table_of_contents_passes() {
        check_text(
            "//! What it is.\n#![forbid(unsafe_code)]\n\nmod a;\npub mod b;\n#[cfg(test)]\nmod tests;\n\n\
             // why\npub use a::{\n    First,\n    Second,\n};\npub(crate) use b::Third;\n\n\
             /// The arguments.\npub type Arguments = Map<\n    String>;\n",
            &[],
        );
    }

    #[test]
    fn other_statements_are_reported() {
        check_text("//! x\n\npub fn f() {}\n", &[("crates/a/src/lib.rs", 3, "`pub fn f() {}`")]);
        check_text("mod a;\npub struct S;\n", &[("crates/a/src/lib.rs", 2, "give it a file")]);
        check_text("mod tests {\n}\n", &[("crates/a/src/lib.rs", 1, "`mod tests {`")]);
        check_text("#[cfg(test)]\nmod tests {\n}\n", &[("crates/a/src/lib.rs", 2, "`mod tests {`")]);
        check_text("#[inline] fn f() {}\n", &[("crates/a/src/lib.rs", 1, "#[inline] fn f()")]);
        check_text("pub use a::{\n    B,\n};\nconst X: u8 = 1;\n", &[("crates/a/src/lib.rs", 4, "const X")]);
    }

    #[test]
    fn other_files_may_contain_code() {
        assert_findings(&check(&Tree::of(&[("crates/a/src/main.rs", "fn main() {}\n")])), &[]);
    }
}
