//! Decision pages: `docs/decisions/NNNN-title.md`, each number once, each with its three parts, all in the index.

use crate::tidy::Finding;
use crate::tree::{File, Tree};

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
const PARTS: [&str; 3] = ["## Context", "## Decision", "## Consequences"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(index) = tree.file(INDEX) else { return vec![Finding::error(INDEX, 1, "the index is missing")] };
    let mut findings = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for page in tree.files().filter(|file| file.path.starts_with(FOLDER) && file.path != INDEX) {
        let Some(number) = number_of(page) else {
            findings.push(Finding::error(&page.path, 1, "name it `NNNN-title.md`"));
            continue;
        };
        if seen.contains(&number) {
            findings.push(Finding::error(
                &page.path,
                1,
                format!("the number {number} is taken: use the next one"),
            ));
        }
        seen.push(number);
        if !index.text.contains(&format!("]({})", page.name())) {
            findings.push(Finding::error(INDEX, 1, format!("add a link to `{}`", page.name())));
        }
        let missing = PARTS.iter().filter(|part| !page.text.lines().any(|line| line == **part));
        findings.extend(missing.map(|part| Finding::error(&page.path, 1, format!("add the part `{part}`"))));
    }
    findings
}

fn number_of(page: &File) -> Option<&str> {
    let (number, title) = page.stem().split_once('-')?;
    let numbered = number.len() == 4 && number.bytes().all(|byte| byte.is_ascii_digit());
    (numbered && !title.is_empty() && page.name().ends_with(".md")).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const PAGE: &str = "# T\n\n## Context\n\n## Decision\n\n## Consequences\n";

    fn check_pages(index: &str, pages: &[(&str, &str)], expect: &[(&str, usize, &str)]) {
        let mut files = vec![(INDEX, index)];
        files.extend_from_slice(pages);
        assert_findings(&check(&Tree::of(&files)), expect);
    }

    #[test]
    fn a_page_is_numbered_linked_and_whole() {
        let one = "docs/decisions/0001-a.md";
        check_pages("[a](0001-a.md)", &[(one, PAGE)], &[]);
        check_pages("", &[(one, PAGE)], &[(INDEX, 1, "add a link to `0001-a.md`")]);
        check_pages("[a](0001-a.md)", &[(one, "## Context\n## Decision\n")], &[(one, 1, "## Consequences")]);
        check_pages("", &[("docs/decisions/a.md", PAGE)], &[("docs/decisions/a.md", 1, "name it")]);
        let twice = [(one, PAGE), ("docs/decisions/0001-b.md", PAGE)];
        check_pages(
            "(0001-a.md) [a](0001-a.md) [b](0001-b.md)",
            &twice,
            &[("docs/decisions/0001-b.md", 1, "is taken")],
        );
        assert_findings(&check(&Tree::of(&[(one, PAGE)])), &[(INDEX, 1, "missing")]);
    }
}
