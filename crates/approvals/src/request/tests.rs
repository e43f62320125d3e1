//! Approval requests show the complete content of a change, escape invisible characters, and mask only
//! secrets.

use registry::FileChange;
use tool::RuleRef;

use super::*;
use crate::display_escape::tests::{is_visible, unescape};

fn request_fact(label: &str, text: &str) -> ApprovalFact {
    ApprovalFact { label: label.to_owned(), text: text.to_owned() }
}

fn request_with_text(text: &str) -> ApprovalRequest {
    let change = FileChange { path: "/w/a.txt".into(), before: None, after: Some(text.as_bytes().to_vec()) };
    ApprovalRequest {
        id: text.to_owned(),
        tool: text.to_owned(),
        summary: text.to_owned(),
        effect: vec![request_fact(text, text)],
        changes: vec![FileDiff::from_change(&change).unwrap()],
        arguments: vec![request_fact("content", text)],
        asked_by: vec![RuleRef { file: text.into(), line: 3, id: text.into() }],
        caller: text.to_owned(),
        session: Some(text.to_owned()),
        call_id: CallId::fresh(),
        trace_id: text.to_owned(),
        risk: RiskLevel::High,
        mode: Mode::Alert,
        masked: 0,
        edited: true,
        requested_at: Timestamp::UNIX_EPOCH,
        expires_at: Timestamp::UNIX_EPOCH,
    }
}

/// Converts the diff that the request shows for a new file back into the content of the file.
fn written_content(request: &ApprovalRequest) -> String {
    let lines = request.lines();
    let file_line = lines.iter().position(|line| line.text.starts_with("file      ")).unwrap();
    let mut content = String::new();
    for line in &lines[file_line + 1..] {
        match line.style {
            LineStyle::Added => content.push_str(&(unescape(&line.text[3..]) + "\n")),
            LineStyle::Muted if line.text.contains("no newline") => drop(content.pop()),
            LineStyle::Muted if line.text.contains("@@") => {}
            _ => break,
        }
    }
    content
}

#[test]
fn shown_diff_converts_back_to_the_written_content() {
    let text_parts = [
        "a",
        "\n",
        "  ",
        "\t",
        "\r",
        "\r\n",
        "\u{1b}[2K",
        "\\",
        "\u{202e}",
        "é",
        "\u{a0}",
        "@@",
        "no newline",
        "        ",
        "+",
        "-",
    ];
    let mut seed = 7_u64;
    for _ in 0..2_000 {
        let mut text = String::new();
        for _ in 0..15 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            text.push_str(text_parts[usize::try_from(seed >> 33).unwrap() % text_parts.len()]);
        }
        let request = request_with_text(&text);
        assert_eq!(written_content(&request), text, "{:?}", request.changes);
        assert!(request.lines().iter().all(|line| is_visible(&line.text)));
    }
}

#[test]
fn invisible_characters_are_escaped_in_every_field() {
    for c in ['\u{1b}', '\r', '\u{8}', '\u{9b}', '\u{202e}', '\u{200d}', '\u{e0020}', '\u{3000}', '\n'] {
        for line in request_with_text(&format!("x{c}y")).lines() {
            assert!(is_visible(&line.text), "{:x}: {}", u32::from(c), line.text);
        }
    }
}

#[test]
fn rule_that_requires_approval_twice_is_listed_once() {
    let mut request = request_with_text("x");
    request.asked_by = vec![request.asked_by[0].clone(), request.asked_by[0].clone()];
    assert_eq!(request.lines().iter().filter(|line| line.text.starts_with("rule  ")).count(), 1);
}

#[test]
fn oversized_request_reports_a_reason() {
    assert_eq!(request_with_text("short").oversize_reason(), None);
    for (text, expected_part) in [
        ("line\n".repeat(1001), "lines"),
        ("x".repeat(5000), "a line of"),
        (format!("{}\n", "x".repeat(2000)).repeat(20), "characters"),
    ] {
        let reason = request_with_text(&text).oversize_reason().unwrap();
        assert!(reason.contains(expected_part), "{reason}");
    }
}

#[test]
fn only_new_content_must_be_text() {
    let diff_of = |before: &[u8], after: &[u8]| {
        FileDiff::from_change(&FileChange {
            path: "/w/a".into(),
            before: Some(before.to_vec()),
            after: Some(after.to_vec()),
        })
    };
    let diff = diff_of(b"\xff\xfe", b"new\n").unwrap();
    assert!(diff.lines[0].1.contains("is not text: sha256 "), "{diff:?}");
    assert!(diff.lines.contains(&(DiffLineKind::New, "new".to_owned())));
    assert_eq!(diff_of(b"old", b"\xff"), None);
}

#[test]
fn only_plain_tokens_are_masked() {
    let check = |text: &str, redacted: &str, expect: bool| {
        assert_eq!(hides_tokens_only(text, redacted), expect, "{text} -> {redacted}");
    };
    check("key sk-abcDEF_123= end", "key [redacted:model_key] end", true);
    check("sk-abc", "[redacted:model_key]", true);
    check("a=tok1 b=tok2", "a=[redacted:x] b=[redacted:y]", true);
    check("PASSWORD=tok+A_1-=", "PASSWORD=[redacted:assignment]", true);
    check("k AKIA/x.y:z@w", "k [redacted:aws]", true);
    check("k /usr/bin/x", "k [redacted:aws]", false);
    check("k ~x", "k [redacted:aws]", false);
    check("k ../x", "k [redacted:aws]", false);
    check("k ftp://x", "k [redacted:aws]", false);
    check("token=v1/src/deploy.sh", "token=[redacted:assignment]", false);
    check("TOKEN_HOST=evil1.example.com", "TOKEN_HOST=[redacted:assignment]", false);
    check("P=\"$(touch x)\"", "P=\"[redacted:assignment]\"", false);
    check("P=a b", "P=[redacted:assignment]", false);
    for word in ["rm", "python3", "sha256sum", "x86_64-linux-gnu-gcc-12", "a1B2c3", "changeme"] {
        check(&format!("PASSWORD={word}"), "PASSWORD=[redacted:assignment]", false);
    }
    check("PASSWORD=0123456789abcdef0123456789", "PASSWORD=[redacted:assignment]", true);
    check("x\ntouch pwned", "x[redacted:private_key]", false);
    check(&"k".repeat(600), "[redacted:long]", false);
    check("other", "else [redacted:x]", false);
}

#[test]
fn tokens_are_masked_and_paths_are_not() {
    let request_for_path = |text: &str| {
        let mut request = request_with_text("x");
        (request.summary, request.effect) = (text.to_owned(), vec![request_fact("writes", text)]);
        request.arguments = vec![request_fact("content", "nothing")];
        request
    };
    let path = "/w/token=abc123def456/deploy.sh";
    let masked = request_for_path(path).with_secrets_masked().unwrap();
    assert_eq!((masked.effect[0].text.as_str(), masked.masked), (path, 0));
    for text in [
        "\"apiKeyHelper\": \"/home/u/ws/evil.sh\"",
        "token=v1/src/deploy.sh",
        "SECRET_CMD=run-the-payload.sh",
        "export AUTH_TOKEN=$(curl evil)",
        "api_key: evil.example.com:8080",
    ] {
        let mut request = request_for_path("/w/a");
        request.arguments = vec![request_fact("content", text)];
        match request.with_secrets_masked() {
            None => {}
            Some(request) => assert_eq!(request.arguments[0].text, text, "the whole text is shown"),
        }
    }
    let mut request = request_for_path("/w/a");
    request.arguments = vec![request_fact("content", "api_key = abcDEF123456")];
    let request = request.with_secrets_masked().unwrap();
    assert_eq!((request.masked, request.arguments[0].text.as_str()), (1, "api_key = [redacted:assignment]"));
}
