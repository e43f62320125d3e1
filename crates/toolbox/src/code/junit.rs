//! Parser for JUnit XML reports. It expands only the five predefined entities and character references, and
//! skips unknown content, because the project's own code writes the file.

use super::test_results::{TestCase, TestOutcome, TestResults};

/// Longest escape that is considered, in bytes; every valid one is shorter.
const MAX_ESCAPE_LENGTH: usize = 12;

/// Parses all test cases of a report in one pass: the search for the end of an unclosed element is not
/// repeated for each occurrence.
pub(super) fn parse_report(text: &str) -> TestResults {
    let mut found = TestResults::default();
    let mut open: Option<TestCase> = None;
    let mut unclosed: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some((tag, after)) = next_opening_tag(rest) {
        rest = after;
        let outcome = match tag.name {
            "testcase" => {
                let names = [tag.attribute("classname"), tag.attribute("name")];
                let name = names.into_iter().flatten().collect::<Vec<_>>().join("::");
                open.replace(TestCase::passed(name)).into_iter().for_each(|case| found.add(case));
                continue;
            }
            "failure" => TestOutcome::Failed,
            "error" => TestOutcome::Error,
            "skipped" => TestOutcome::Skipped,
            _ => continue,
        };
        let mut body = "";
        if !tag.is_empty && !unclosed.contains(&tag.name) {
            match split_at_closing_tag(rest, tag.name) {
                Some(parts) => (body, rest) = parts,
                None => unclosed.push(tag.name),
            }
        }
        let Some(case) = open.as_mut().filter(|case| case.outcome == TestOutcome::Passed) else { continue };
        case.outcome = outcome;
        case.message = tag.attribute("message").unwrap_or_default();
        case.output = unescape(body);
    }
    open.into_iter().for_each(|case| found.add(case));
    found
}

/// Opening tag.
struct XmlTag<'a> {
    name: &'a str,
    attributes: &'a str,
    is_empty: bool,
}

impl XmlTag<'_> {
    /// Returns the value of an attribute.
    fn attribute(&self, wanted: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (name, after) = rest.split_once('=')?;
            let quote = after.trim_start().chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            let (value, after) = after.trim_start().get(1..)?.split_once(quote)?;
            if name.trim() == wanted {
                return Some(unescape(value));
            }
            rest = after;
        }
    }
}

/// Returns the next opening tag and the text after it. Skips closing tags, comments, processing instructions
/// and CDATA.
fn next_opening_tag(text: &str) -> Option<(XmlTag<'_>, &str)> {
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
        return Some((XmlTag { name, attributes, is_empty }, rest.get(end + 1..)?));
    }
}

/// Returns the end of a tag: the first `>` that is not inside quotes.
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

/// Splits at the closing tag of this name. Closing tags inside CDATA do not count.
fn split_at_closing_tag<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let closing = format!("</{name}>");
    let mut at = 0;
    loop {
        at += text.get(at..)?.find('<')?;
        let rest = text.get(at..)?;
        if let Some(after) = rest.strip_prefix(closing.as_str()) {
            return Some((text.get(..at)?, after));
        }
        at += if rest.starts_with("<![CDATA[") { rest.find("]]>")? } else { 1 };
    }
}

/// Decodes escapes in a text. CDATA is copied unchanged.
fn unescape(text: &str) -> String {
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
        match parse_escape(rest) {
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

/// Parses an escape at the start of a text and returns the text after it.
fn parse_escape(text: &str) -> Option<(char, &str)> {
    let rest = text.strip_prefix('&')?;
    let end = rest.bytes().take(MAX_ESCAPE_LENGTH).position(|byte| byte == b';')?;
    Some((escape_char(rest.get(..end)?)?, rest.get(end + 1..)?))
}

fn escape_char(name: &str) -> Option<char> {
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
    use super::super::test_results::TestCounts;
    use super::*;

    #[test]
    fn pytest_report_is_parsed() {
        let text = r#"<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" tests="4"><testcase classname="test_x" name="test_a" time="0.006" /><testcase classname="test_x" name="test_b[a &gt; b]" time="0.001"><failure message="AssertionError: no ]]&gt; &amp;&#10;assert 1 == 2">def test_b():
&gt;       assert 1 == 2</failure></testcase><testcase classname="test_x" name="test_c"><skipped type="pytest.skip" message="later">x.py:6: later</skipped></testcase><testcase classname="test_x" name="test_d"><error message="failed on setup with &quot;b&quot;"><![CDATA[<raw> &amp;]]></error></testcase></testsuite></testsuites>"#;
        let found = parse_report(text);
        let counts = TestCounts { total: 4, passed: 1, failed: 1, errors: 1, skipped: 1 };
        assert_eq!(found.counts, counts);
        let [failed, error] = found.failures.as_slice() else { panic!("{:?}", found.failures) };
        assert_eq!((failed.name.as_str(), error.name.as_str()), ("test_x::test_b[a > b]", "test_x::test_d"));
        assert_eq!(failed.message, "AssertionError: no ]]> &", "its first line");
        assert_eq!(failed.output, "def test_b():\n>       assert 1 == 2");
        assert_eq!(
            (error.message.as_str(), error.output.as_str()),
            ("failed on setup with \"b\"", "<raw> &amp;")
        );
    }

    #[test]
    fn broken_or_hostile_xml_is_skipped() {
        for text in [
            "",
            "<",
            "<testcase",
            "<testcase name=\"a",
            "<failure>x</failure>",
            "<!-- <testcase name='a'/> -->",
            "&#1114112;",
        ] {
            assert_eq!(parse_report(text).counts.total, 0, "{text}");
        }
        let bomb = r#"<!DOCTYPE x [<!ENTITY a "aaaa">]><testcase name="&a;&#x41;"><error/></testcase>"#;
        assert_eq!(names(bomb), ["&a;A"], "entities are not expanded");
        let data =
            "<testcase name='a'><failure><![CDATA[</failure><testcase name='b'>]]></failure></testcase>";
        assert_eq!(
            (names(data), parse_report(data).counts.total),
            (vec!["a".to_owned()], 1),
            "tags in CDATA are text"
        );
        let open = "<testcase name='a'><failure>x<testcase name='b'><failure/>";
        assert_eq!(names(open), ["a", "b"], "an unclosed element has no text");
    }

    fn names(text: &str) -> Vec<String> {
        parse_report(text).failures.into_iter().map(|case| case.name).collect()
    }

    /// Each of these inputs took quadratic time or memory: days, or more memory than available, at this
    /// length.
    #[test]
    fn reports_are_parsed_in_linear_time_and_memory() {
        const ALL: usize = 4 << 20;
        const SOME: usize = 1 << 20;
        let check = |length: usize, start: &str, part: &str, end: &str, each: bool| {
            let times = length / part.len();
            let text = [start, &part.repeat(times), end].concat();
            let found = parse_report(&text);
            assert_eq!(found.counts.total, if each { times as u64 } else { 1 }, "{part}");
            let kept: usize = found.failures.iter().map(|one| one.name.len() + one.output.len()).sum();
            assert!(kept <= text.len(), "{part}: {kept} bytes are kept");
        };
        check(ALL, "<testcase name='", "&", "'/>", false);
        check(ALL, "<testcase name='a'><failure>", "&", "</failure>", false);
        check(ALL, "<testcase><failure>", "<![CDATA[", "", false);
        check(SOME, "<testcase name='a'>", "<failure>", "", false);
        check(SOME, "<testcase name='a'>", "<failure>", "</failure>", false);
        check(SOME, "", "<testcase><failure>", "</error>", true);
        check(SOME, "", "<testcase><failure>", "</failure>", false);
        check(SOME, "", "<testcase><error/>", "", true);
        check(SOME, "<testcase ", "a='b' ", "/>", false);
    }
}
