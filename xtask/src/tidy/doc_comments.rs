//! A doc comment begins with a noun or a verb in the third person, never with a question word or `The same`.

use crate::tidy::Finding;
use crate::tree::Tree;

const HEADLESS: &[&str] = &["What", "Whether", "Who", "Whose", "Where", "How", "The same"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let mut inside = false;
        for (line, text) in file.lines() {
            let text = text.trim_start();
            let comment = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"));
            if let Some(beginning) = comment.filter(|_| !inside).and_then(headless_beginning) {
                let message = format!(
                    "the comment begins with `{beginning}`: begin with a noun or a verb (`Returns …`)"
                );
                findings.push(Finding::error(&file.path, line, message));
            }
            inside = comment.is_some();
        }
    }
    findings
}

fn headless_beginning(comment: &str) -> Option<&'static str> {
    let comment = comment.trim_start();
    HEADLESS.iter().copied().find(|beginning| {
        comment
            .strip_prefix(beginning)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_text(text: &str, expect: &[(usize, &str)]) {
        let path = "crates/a/src/b.rs";
        let expect: Vec<_> = expect.iter().map(|(line, part)| (path, *line, *part)).collect();
        assert_findings(&check(&Tree::of(&[(path, text)])), &expect);
    }

    #[test]
    fn headless_doc_comments_are_found() {
        check_text("/// What a call may do.\nfn f() {}\n", &[(1, "`What`")]);
        check_text("//! The same, but louder.\n", &[(1, "`The same`")]);
        check_text("x();\n    /// Whether it is so.\n", &[(2, "`Whether`")]);
    }

    #[test]
    fn comments_with_a_noun_or_a_verb_pass() {
        check_text("/// Rate limiter per tool.\n/// What it counts is a call.\nfn f() {}\n", &[]);
        check_text("/// However long it takes.\nfn f() {}\n// What for: a reason.\n", &[]);
    }
}
