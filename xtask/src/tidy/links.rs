//! Every relative link of a Markdown page leads to a file of the repository, and its anchor to a heading
//! there. Links to other sites are not followed.

use crate::tidy::Finding;
use crate::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for page in tree.ending(".md") {
        for (number, line) in prose(page) {
            let broken = targets(&line).filter_map(|target| trouble(tree, page, target));
            findings.extend(broken.map(|message| Finding::error(&page.path, number, message)));
        }
    }
    findings
}

/// Lines outside of code blocks, without their code spans.
fn prose(page: &File) -> impl Iterator<Item = (usize, String)> {
    let mut inside_code = false;
    page.lines().filter_map(move |(number, line)| {
        if line.trim_start().starts_with("```") {
            inside_code = !inside_code;
            return None;
        }
        let outside_spans: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        (!inside_code).then_some((number, outside_spans))
    })
}

fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

fn trouble(tree: &Tree, page: &File, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(path) = (if path.is_empty() { Some(page.path.clone()) } else { resolve(&page.path, path) })
    else {
        return Some(format!("`{target}` leaves the repository"));
    };
    if !tree.holds(&path) {
        return Some(format!("`{target}` leads nowhere: there is no `{path}`"));
    }
    let anchor = anchor?;
    let has_heading = |file: &File| prose_headings(file).any(|heading| slug(&heading) == anchor);
    match tree.file(&path) {
        Some(file) if !has_heading(file) => Some(format!("`{path}` has no heading for `#{anchor}`")),
        _ => None,
    }
}

/// Target of a link in `page`, relative to the root; `None` if it is outside of the repository.
fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn prose_headings(file: &File) -> impl Iterator<Item = String> {
    let outside_code: Vec<usize> = prose(file).map(|(number, _)| number).collect();
    file.lines()
        .filter(move |(number, line)| line.starts_with('#') && outside_code.contains(number))
        .map(|(_, line)| line.trim_start_matches('#').trim().to_owned())
}

/// Anchor of a heading, by the rules of the usual hosts.
fn slug(heading: &str) -> String {
    let slug_chars = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    slug_chars.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_line(line: &str, expect: &[&str]) {
        let tree = Tree::of(&[
            ("README.md", "# Sinew\n\n## A 60-second tour\n\n```\n# not a heading\n```\n"),
            ("docs/a.md", line),
            ("docs/tools/read_file.md", "x"),
        ]);
        let expect: Vec<_> = expect.iter().map(|part| ("docs/a.md", 1, *part)).collect();
        assert_findings(&check(&tree), &expect);
    }

    #[test]
    fn links_that_resolve_pass() {
        check_line(
            "[a](../README.md) [b](tools/read_file.md) [c](tools) [d](./tools/) [e](https://x.org/y.md)",
            &[],
        );
        check_line("[a](../README.md#a-60-second-tour) `[x](nowhere.md)` [m](mailto:a@example.org)", &[]);
    }

    #[test]
    fn broken_links_are_reported() {
        check_line("[a](b.md)", &["no `docs/b.md`"]);
        check_line("[a](../README.md) [b](../readme.md)", &["no `readme.md`"]);
        check_line("[a](../../x.md)", &["leaves the repository"]);
        check_line(
            "[a](../README.md#tour) [b](#nothing)",
            &["no heading for `#tour`", "no heading for `#nothing`"],
        );
        check_line("[a](../README.md#not-a-heading)", &["no heading"]);
    }
}
