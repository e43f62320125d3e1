//! JUnit's XML as test runners write it: the cases and what became of them. Nothing but the five names of XML and numbers
//! is ever expanded, and what is not understood is skipped: the file is written by the project's own code.

use super::results::{Case, Outcome};

/// All test cases of a report.
pub(super) fn cases(text: &str) -> Vec<Case> {
    let mut found: Vec<Case> = Vec::new();
    let mut rest = text;
    while let Some((tag, after)) = next_tag(rest) {
        rest = after;
        match tag.name {
            "testcase" => found.push(Case {
                name: [tag.value("classname"), tag.value("name")]
                    .into_iter()
                    .flatten()
                    .collect::<Vec<_>>()
                    .join("::"),
                outcome: Outcome::Passed,
                message: String::new(),
                output: String::new(),
            }),
            "failure" | "error" | "skipped" => {
                let body = if tag.is_empty { "" } else { until(rest, tag.name) };
                let Some(case) = found.last_mut().filter(|case| case.outcome == Outcome::Passed) else {
                    continue;
                };
                case.outcome = match tag.name {
                    "failure" => Outcome::Failed,
                    "error" => Outcome::Error,
                    _ => Outcome::Skipped,
                };
                case.message = tag.value("message").unwrap_or_default();
                case.output = plain(body);
            }
            _ => {}
        }
    }
    found
}

/// One opening tag.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    is_empty: bool,
}

impl Tag<'_> {
    /// The value of an attribute.
    fn value(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (name, after) = rest.split_once('=')?;
            let quote = after.trim_start().chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            let (value, after) = after.trim_start().get(1..)?.split_once(quote)?;
            if name.trim() == wanted {
                return Some(plain(value));
            }
            rest = after;
        }
    }
}

/// The next opening tag and what follows it. Closing tags, comments, instructions and CDATA are passed over.
fn next_tag(text: &str) -> Option<(Tag<'_>, &str)> {
    let mut rest = text;
    loop {
        rest = rest.get(rest.find('<')?..)?;
        let skipped = [("<![CDATA[", "]]>"), ("<!--", "-->"), ("<?", "?>"), ("<!", ">"), ("</", ">")];
        if let Some((_, end)) = skipped.iter().find(|(start, _)| rest.starts_with(start)) {
            rest = rest.get(rest.find(end)? + end.len()..)?;
            continue;
        }
        let end = tag_end(rest)?;
        let inside = rest.get(1..end)?;
        let is_empty = inside.ends_with('/');
        let inside = inside.trim_end_matches('/');
        let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
        return Some((Tag { name, attributes, is_empty }, rest.get(end + 1..)?));
    }
}

/// Where a tag ends: a `>` that is not inside quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    text.char_indices().find_map(|(at, c)| match (quote, c) {
        (None, '>') => Some(at),
        (None, '"' | '\'') => {
            quote = Some(c);
            None
        }
        (Some(open), c) if open == c => {
            quote = None;
            None
        }
        _ => None,
    })
}

/// What stands before the closing tag of this name.
fn until<'a>(text: &'a str, name: &str) -> &'a str {
    text.find(&format!("</{name}>")).and_then(|at| text.get(..at)).unwrap_or_default()
}

/// Text without its escapes. CDATA stands as it is.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['&', '<']) {
        plain.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at..).unwrap_or_default();
        if let Some(data) = rest.strip_prefix("<![CDATA[") {
            let (data, after) = data.split_once("]]>").unwrap_or((data, ""));
            plain.push_str(data);
            rest = after;
            continue;
        }
        let known = rest
            .strip_prefix('&')
            .and_then(|rest| rest.split_once(';'))
            .and_then(|(name, after)| Some((letter(name)?, after)));
        match known {
            Some((c, after)) => {
                plain.push(c);
                rest = after;
            }
            None => {
                let first = rest.chars().next().unwrap_or('&');
                plain.push(first);
                rest = rest.get(first.len_utf8()..).unwrap_or_default();
            }
        }
    }
    plain.push_str(rest);
    plain
}

fn letter(name: &str) -> Option<char> {
    match name {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix('x') {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_pytest_is_read() {
        let text = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="4"><testcase classname="test_x" name="test_a" time="0.006" /><testcase classname="test_x" name="test_b[a &gt; b]" time="0.001"><failure message="AssertionError: no ]]&gt; &amp;&#10;assert 1 == 2">def test_b():
&gt;       assert 1 == 2</failure></testcase><testcase classname="test_x" name="test_c"><skipped type="pytest.skip" message="later">x.py:6: later</skipped></testcase><testcase classname="test_x" name="test_d"><error message="failed on setup with &quot;b&quot;"><![CDATA[<raw> &amp;]]></error></testcase></testsuite></testsuites>"#;
        let found = cases(text);
        let told: Vec<_> = found.iter().map(|case| (case.name.as_str(), case.outcome)).collect();
        assert_eq!(
            told,
            [
                ("test_x::test_a", Outcome::Passed),
                ("test_x::test_b[a > b]", Outcome::Failed),
                ("test_x::test_c", Outcome::Skipped),
                ("test_x::test_d", Outcome::Error),
            ]
        );
        assert_eq!(found[1].message, "AssertionError: no ]]> &\nassert 1 == 2");
        assert_eq!(found[1].output, "def test_b():\n>       assert 1 == 2");
        assert_eq!(
            (found[3].message.as_str(), found[3].output.as_str()),
            ("failed on setup with \"b\"", "<raw> &amp;")
        );
    }

    #[test]
    fn what_is_broken_or_hostile_is_skipped() {
        for text in [
            "",
            "<",
            "<testcase",
            "<testcase name=\"a",
            "<failure>x</failure>",
            "<!-- <testcase name='a'/> -->",
            "&#1114112;",
        ] {
            assert_eq!(cases(text), [], "{text}");
        }
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa">]><testcase name="&a;&#x41;"/>"#;
        assert_eq!(cases(bomb).first().map(|case| case.name.as_str()), Some("&a;A"), "nothing is expanded");
    }
}
