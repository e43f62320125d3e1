//! Unified diff of two texts, with three lines of context around each change.

use crate::terminal::{BAD, GOOD, QUIET, paint};

/// Number of unchanged lines shown before and after a change.
const CONTEXT: usize = 3;

/// Line of a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Gone(&'a str),
    New(&'a str),
}

/// Returns the difference in the format that `patch` reads, or an empty string if the texts are equal.
pub(super) fn unified(name: &str, old: &str, new: &str) -> String {
    let lines = compare(&old.lines().collect::<Vec<_>>(), &new.lines().collect::<Vec<_>>());
    let is_near = |at: usize| {
        let around = lines.iter().take(at + CONTEXT + 1).skip(at.saturating_sub(CONTEXT));
        around.into_iter().any(|line| !matches!(line, Line::Same(_)))
    };
    let mut text = String::new();
    let (mut old_line, mut new_line, mut at) = (1, 1, 0);
    while at < lines.len() {
        let shown = lines.iter().enumerate().skip(at).take_while(|(at, _)| is_near(*at)).count();
        let hunk: Vec<Line<'_>> = lines.iter().skip(at).take(shown.max(1)).copied().collect();
        let count = |keep: fn(&Line<'_>) -> bool| hunk.iter().filter(|line| keep(line)).count();
        let old_count = count(|line| !matches!(line, Line::New(_)));
        let new_count = count(|line| !matches!(line, Line::Gone(_)));
        if shown > 0 {
            if text.is_empty() {
                text = format!("--- {name}\n+++ {name}\n");
            }
            text.push_str(&format!("@@ -{old_line},{old_count} +{new_line},{new_count} @@\n"));
            text.extend(hunk.iter().map(|line| match line {
                Line::Same(line) => format!(" {line}\n"),
                Line::Gone(line) => format!("-{line}\n"),
                Line::New(line) => format!("+{line}\n"),
            }));
        }
        (old_line, new_line, at) = (old_line + old_count, new_line + new_count, at + hunk.len());
    }
    text
}

/// Colours the lines of a diff for a terminal.
pub(super) fn painted(diff: &str) -> String {
    let line = |line: &str| match line.chars().next() {
        Some('+') => paint(GOOD, line),
        Some('-') => paint(BAD, line),
        Some('@') => paint(QUIET, line),
        _ => line.to_owned(),
    };
    diff.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Computes a minimal line diff. It skips the common prefix and suffix first: policy changes are small, so
/// the quadratic part then sees only a few lines.
fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let begin = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let (old_rest, new_rest) = (old.get(begin..).unwrap_or_default(), new.get(begin..).unwrap_or_default());
    let end = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(a, b)| a == b).count();
    let old_middle = old_rest.get(..old_rest.len() - end).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - end).unwrap_or_default();
    let same = |lines: &[&'a str]| lines.iter().map(|line| Line::Same(line)).collect::<Vec<_>>();
    let mut lines = same(old.get(..begin).unwrap_or_default());
    lines.extend(middle(old_middle, new_middle));
    lines.extend(same(old_rest.get(old_rest.len() - end..).unwrap_or_default()));
    lines
}

/// Diffs by longest common subsequence. A table cell holds its length from that pair of positions on.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    let mut table = vec![0_usize; (old.len() + 1) * width];
    let look = |table: &[usize], a: usize, b: usize| table.get(a * width + b).copied().unwrap_or(0);
    for (a, old_line) in old.iter().enumerate().rev() {
        for (b, new_line) in new.iter().enumerate().rev() {
            let longest = match old_line == new_line {
                true => look(&table, a + 1, b + 1) + 1,
                false => look(&table, a + 1, b).max(look(&table, a, b + 1)),
            };
            if let Some(cell) = table.get_mut(a * width + b) {
                *cell = longest;
            }
        }
    }
    let (mut lines, mut a, mut b) = (Vec::new(), 0, 0);
    loop {
        match (old.get(a), new.get(b)) {
            (Some(line), Some(other)) if line == other => {
                lines.push(Line::Same(line));
                (a, b) = (a + 1, b + 1);
            }
            (Some(line), other) if other.is_none() || look(&table, a + 1, b) >= look(&table, a, b + 1) => {
                lines.push(Line::Gone(line));
                a += 1;
            }
            (_, Some(line)) => {
                lines.push(Line::New(line));
                b += 1;
            }
            (_, None) => return lines,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_have_three_lines_of_context() {
        let old: String = (1..=20).map(|line| format!("{line}\n")).collect();
        let check = |new: &str, expect: &str| assert_eq!(unified("f", &old, new), expect, "{new}");
        check(&old, "");
        check(
            &old.replacen("5\n", "five\n", 1),
            "--- f\n+++ f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
        );
        let both = old.replacen("2\n3\n", "2\nx\n3\n", 1).replacen("18\n", "", 1);
        check(
            &both,
            "--- f\n+++ f\n@@ -1,5 +1,6 @@\n 1\n 2\n+x\n 3\n 4\n 5\n@@ -15,6 +16,5 @@\n 15\n 16\n 17\n-18\n 19\n 20\n",
        );
        assert_eq!(unified("f", "", "a\n"), "--- f\n+++ f\n@@ -1,0 +1,1 @@\n+a\n");
    }
}
