//! Decision pages: `docs/decisions/NNNN-title.md`, each number once, each with its four sections, all in the
//! index. A title is `# NNNN: Subject: outcome`.

use crate::tidy::Finding;
use crate::tree::{File, Tree};

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
const SECTIONS: [&str; 4] = ["## Context", "## Decision", "## Alternatives", "## Consequences"];
const LONGEST_TITLE: usize = 80;

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
        findings.extend(title_problem(page, number).map(|problem| Finding::error(&page.path, 1, problem)));
        let missing = SECTIONS.iter().filter(|section| !page.text.lines().any(|line| line == **section));
        findings.extend(
            missing.map(|section| Finding::error(&page.path, 1, format!("add the section `{section}`"))),
        );
    }
    findings
}

fn title_problem(page: &File, number: &str) -> Option<String> {
    let heading = page.text.lines().next().unwrap_or_default();
    let Some(title) =
        heading.strip_prefix("# ").and_then(|rest| rest.strip_prefix(number)?.strip_prefix(": "))
    else {
        return Some(format!("begin the page with `# {number}: Subject: outcome`"));
    };
    let length = title.chars().count();
    if length > LONGEST_TITLE {
        return Some(format!("the title has {length} characters, the limit is {LONGEST_TITLE}"));
    }
    let has_subject =
        title.split_once(": ").is_some_and(|(subject, outcome)| !subject.is_empty() && !outcome.is_empty());
    (!has_subject).then(|| "the title has no subject: write `Subject: outcome`".to_owned())
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

    const PAGE: &str =
        "# 0001: Ledger: a hash chain\n\n## Context\n\n## Decision\n\n## Alternatives\n\n## Consequences\n";

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
        let cut = PAGE.replace("## Consequences\n", "");
        check_pages("[a](0001-a.md)", &[(one, &cut)], &[(one, 1, "## Consequences")]);
        check_pages("", &[("docs/decisions/a.md", PAGE)], &[("docs/decisions/a.md", 1, "name it")]);
        let twice = [(one, PAGE), ("docs/decisions/0001-b.md", PAGE)];
        check_pages(
            "(0001-a.md) [a](0001-a.md) [b](0001-b.md)",
            &twice,
            &[("docs/decisions/0001-b.md", 1, "is taken")],
        );
        assert_findings(&check(&Tree::of(&[(one, PAGE)])), &[(INDEX, 1, "missing")]);
    }
    #[test]
    fn a_title_is_short_and_has_a_subject() {
        let one = "docs/decisions/0001-a.md";
        let check_title = |title: &str, expect: &[(&str, usize, &str)]| {
            let page = PAGE.replace("# 0001: Ledger: a hash chain", title);
            check_pages("[a](0001-a.md)", &[(one, &page)], expect);
        };
        check_title("# A chain", &[(one, 1, "begin the page with `# 0001: Subject: outcome`")]);
        check_title("# 0001: A chain of lines", &[(one, 1, "has no subject")]);
        check_title(&format!("# 0001: Ledger: {}", "a".repeat(73)), &[(one, 1, "81 characters")]);
    }
}
