//! CHANGELOG.md begins with an `Unreleased` section that has at least one line, so that a visible change has
//! a place to go. The reviewer decides if a given change belongs there.

use crate::tidy::Finding;
use crate::tree::Tree;

const PAGE: &str = "CHANGELOG.md";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return vec![Finding::error(PAGE, 1, "the page is missing")] };
    let mut sections = page.lines().filter(|(_, line)| line.starts_with("## "));
    match sections.next() {
        Some((number, "## Unreleased")) => {
            let mut body = page.lines().skip(number).take_while(|(_, line)| !line.starts_with("## "));
            let empty = !body.any(|(_, line)| line.starts_with("- "));
            let finding = Finding::error(
                PAGE,
                number,
                "the section is empty: what did a user gain since the last release?",
            );
            if empty { vec![finding] } else { Vec::new() }
        }
        Some((number, _)) => {
            vec![Finding::error(PAGE, number, "put a section `## Unreleased` before this one")]
        }
        None => vec![Finding::error(PAGE, 1, "add a section `## Unreleased`")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn the_first_section_is_unreleased_and_not_empty() {
        let check_text = |text: &str, expect: &[(&str, usize, &str)]| {
            assert_findings(&check(&Tree::of(&[(PAGE, text)])), expect);
        };
        check_text("# Changelog\n\n## Unreleased\n\n### Added\n- a command\n\n## 0.1.0\n", &[]);
        check_text("# Changelog\n", &[(PAGE, 1, "add a section")]);
        check_text("# Changelog\n\n## 0.1.0\n- a\n", &[(PAGE, 3, "before this one")]);
        check_text("# Changelog\n\n## Unreleased\n\n## 0.1.0\n- a\n", &[(PAGE, 3, "is empty")]);
        assert_findings(&check(&Tree::of(&[])), &[(PAGE, 1, "missing")]);
    }
}
