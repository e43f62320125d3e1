//! Code that must not be there: `pre_exec` (turns every spawn of the daemon into a fork), stubs, and tests
//! that are switched off without a reason. Comments and strings may mention them.

use crate::tidy::{Finding, rust_source};
use crate::tree::Tree;

/// Forbidden words, each with what to do instead.
const WORDS: &[(&str, &str)] = &[
    ("pre_exec", "set the child up in the launcher, not between fork and exec"),
    ("todo!", "write it, or leave it out"),
    ("unimplemented!", "write it, or leave it out"),
    ("#[ignore]", "give the reason, as `#[ignore = \"…\"]`, or mend the test"),
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let code = rust_source::code_only(&file.text);
        for (line, number) in code.lines().zip(1..) {
            let found = WORDS.iter().filter(|(word, _)| has_word(line, word));
            findings.extend(found.map(|(word, instead)| {
                Finding::error(&file.path, number, format!("`{word}` is not used here: {instead}"))
            }));
        }
    }
    findings
}

/// Returns true if the line contains the word by itself: `my_pre_exec_count` is another word.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line.get(..at).is_some_and(|before| before.ends_with(part_of_name));
        let after = line.get(at + word.len()..).is_some_and(|after| after.starts_with(part_of_name));
        let cut_out = before || (after && word.ends_with(part_of_name));
        !cut_out
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_text(source: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[("crates/a/src/b.rs", source)])), expect);
    }

    #[test]
    fn forbidden_words_are_found_in_code() {
        check_text("\ncommand.pre_exec(f);\n", &[("crates/a/src/b.rs", 2, "`pre_exec`")]);
        check_text("fn f() { todo!() }\n", &[("crates/a/src/b.rs", 1, "`todo!`")]);
        check_text("fn f() { unimplemented!(\"x\") }\n", &[("crates/a/src/b.rs", 1, "`unimplemented!`")]);
        check_text("#[test]\n#[ignore]\nfn f() {}\n", &[("crates/a/src/b.rs", 2, "give the reason")]);
    }

    #[test]
    fn comments_and_strings_may_mention_them() {
        check_text("// no pre_exec, no todo!()\nlet s = \"pre_exec #[ignore]\";\n", &[]);
        check_text("#[ignore = \"needs a Mac\"]\nfn f() {}\n", &[]);
        check_text("let in_pre_exec_phase = pre_executed;\n", &[]);
    }
}
