//! Every Rust file begins with a `//!` sentence that says what the file is for and what it does not do.

use crate::tidy::Finding;
use crate::tree::Tree;

/// Minimum number of words in a head.
const FEWEST_WORDS: usize = 3;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs").filter_map(|file| Some(Finding::error(&file.path, 1, trouble(&file.text)?))).collect()
}

fn trouble(text: &str) -> Option<String> {
    let is_attribute = |line: &&str| line.starts_with("#![") || line.is_empty();
    let head: Vec<&str> = text
        .lines()
        .map(str::trim)
        .skip_while(is_attribute)
        .map_while(|line| line.strip_prefix("//!"))
        .collect();
    let words = head.iter().flat_map(|line| line.split_whitespace()).count();
    match words {
        0 => Some("begin the file with `//!`: what it is for, and what it does not do".to_owned()),
        few if few < FEWEST_WORDS => {
            Some(format!("the `//!` head has {few} word(s): say what the file is for"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_text(source: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[("crates/a/src/b.rs", source)])), expect);
    }

    #[test]
    fn a_head_is_needed() {
        check_text("//! Opens paths as handles.\n\nuse std::fs;\n", &[]);
        check_text("#![forbid(unsafe_code)]\n\n//! Opens paths as handles.\n", &[]);
        check_text(
            "use std::fs;\n//! Opens paths as handles.\n",
            &[("crates/a/src/b.rs", 1, "begin the file")],
        );
        check_text("// Opens paths as handles.\n", &[("crates/a/src/b.rs", 1, "begin the file")]);
        check_text("", &[("crates/a/src/b.rs", 1, "begin the file")]);
        check_text("//! x\n", &[("crates/a/src/b.rs", 1, "has 1 word(s)")]);
    }
}
