//! URLs checked against lists. The expected result is `allowed` or the detail word of the denial.

use strict_yaml::Document;

use super::network_target::strip_credentials;
use super::*;
use crate::rule_trace::RuleTrace;
use crate::safety_file::SafetyFile;

fn outbound(gateway: &str, own: Option<&[&str]>) -> OutboundRules {
    let text = format!("outbound_gateway:\n{gateway}");
    let document = Document::from_text("safety.yaml", &text).unwrap();
    let file: SafetyFile = document.parse().unwrap();
    let mut inspection = FileInspection::new(&document);
    let gateway = Arc::new(GatewayRules::compile(&file.outbound_gateway, &mut inspection));
    let own = own.map(|hosts| {
        let hosts: Vec<_> = hosts.iter().map(|host| Located::without_position((*host).to_owned())).collect();
        let rule = RuleRef { file: "tools.yaml".into(), line: 3, id: "fetch.allowed_domains".into() };
        Arc::new(HostList {
            hosts: HostRule::compile(&hosts, "fetch.allowed_domains", &mut inspection),
            rule,
        })
    });
    assert!(inspection.errors.is_empty(), "{:?}", inspection.errors);
    OutboundRules { tool_hosts: own, gateway }
}

fn check(outbound: &OutboundRules, expect: &str, urls: &[&str]) {
    for url in urls {
        let verdict = outbound
            .check(&NetworkTarget::from_url(url), &mut TraceRecorder::new(&mut RuleTrace::disabled()));
        let word = verdict.as_ref().map_or_else(DenialReason::detail, |()| "allowed");
        assert_eq!(word, expect, "{url}: {verdict:?}");
    }
}

#[test]
fn only_valid_host_names_are_patterns() {
    let label = |length: usize| "a".repeat(length);
    let long = |last: usize| format!("{0}.{0}.{0}.{1}", label(63), label(last));
    for good in ["*", "a", "a-b.org", "*.a.org", &label(63), &long(61)] {
        assert!(HostPattern::parse(good).is_some(), "{good}");
    }
    for bad in ["", ".", "a..b", "-a.org", "a-.org", "a_b", "*.", "a.*", "ä.org", &label(64), &long(62)] {
        assert!(HostPattern::parse(bad).is_none(), "{bad}");
    }
    let below = HostPattern::parse("*.b.org").unwrap();
    assert!(below.allows("a.b.org") && !below.allows("b.org") && !below.allows(".b.org"));
}

#[test]
fn patterns_with_a_common_host_overlap() {
    let read = |text: &str| HostPattern::parse(text).unwrap();
    for (a, b, expect) in [
        ("*", "a.org", true),
        ("a.org", "a.org", true),
        ("a.org", "b.org", false),
        ("*.a.org", "x.a.org", true),
        ("*.a.org", "a.org", false),
        ("*.a.org", "*.a.org", true),
        ("*.a.org", "*.x.a.org", true),
        ("*.a.org", "*.b.org", false),
    ] {
        assert_eq!((read(a).overlaps(&read(b)), read(b).overlaps(&read(a))), (expect, expect), "{a} {b}");
    }
    for (wide, narrow, expect) in
        [("*", "*", true), ("a.org", "*", false), ("a.org", "*.a.org", true), ("a.org", "b.org", false)]
    {
        assert_eq!(read(wide).blocks_all_of(&read(narrow)), expect, "{wide} {narrow}");
    }
}

#[test]
fn quoted_url_has_no_credentials() {
    for (text, expect) in [
        ("https://a.org/x?token=1#y", "https://a.org/x"),
        ("ftp://ada:secret@a.org/x", "ftp://…@a.org/x"),
        ("ada:secret@a.org", "…@a.org"),
        ("no address", "no address"),
    ] {
        assert_eq!(strip_credentials(text), expect, "{text}");
    }
}

const OPEN: &str = "  allowed_domains: [\"*\"]\n  blocked_domains: [\"*.onion\", evil.example]\n";

#[test]
fn names_are_compared_label_by_label() {
    let github = outbound(OPEN, Some(&["github.com", "*.example.org"]));
    let good =
        ["https://github.com/x", "https://GitHub.com", "https://github.com.", "http://github.com:8080/"];
    check(&github, "allowed", &good);
    check(&github, "allowed", &["https://a.example.org", "https://a.b.EXAMPLE.org./x?y#z"]);
    let bad = [
        "https://evil-github.com",
        "https://github.com.evil.com",
        "https://githubXcom.org",
        "https://api.github.com",
        "https://example.org",
        "https://notexample.org",
        "https://gıthub.com",
        "https://xn--gthub-n4a.com",
        "https://github.com%2eevil.com",
    ];
    check(&github, "not_listed", &bad[..8]);
    check(&github, "not_listed", &["https://ｇｉｔｈｕｂ.com.evil.org"]);
    check(&github, "allowed", &["https://ｇｉｔｈｕｂ。com"]);
    let broken = [
        "https://github.com\0.evil.com",
        "https://git hub.com",
        "https://github.com\\@evil.com",
        "https://a%00b.com",
    ];
    check(&github, "bad_url", &broken);
    check(&github, "bad_url", &["github.com", "//github.com", "", "https://", "https://%00"]);
}

#[test]
fn malformed_url_is_an_invalid_argument() {
    let open = outbound(OPEN, None);
    for (url, code) in [
        ("htps//example.org", RefusalCode::InvalidArguments),
        ("https://exa mple.org", RefusalCode::InvalidArguments),
        ("http://./", RefusalCode::InvalidArguments),
        ("http:.:81/x", RefusalCode::InvalidArguments),
        ("http://127.0.0.1../", RefusalCode::InvalidArguments),
        ("http://a..b/", RefusalCode::InvalidArguments),
        ("https://*.com/x", RefusalCode::InvalidArguments),
        ("https://*/x", RefusalCode::InvalidArguments),
        ("https://a.org,b.org/x", RefusalCode::InvalidArguments),
        ("https://user:secret@exa mple.org/?token=t", RefusalCode::InvalidArguments),
        ("ftp://example.org", RefusalCode::DomainNotAllowed),
        ("https://me:mine@example.org", RefusalCode::DomainNotAllowed),
    ] {
        let mut trace = RuleTrace::disabled();
        let denied = open.check(&NetworkTarget::from_url(url), &mut TraceRecorder::new(&mut trace));
        let refusal = denied.unwrap_err().into_refusal("fetch_url");
        assert_eq!(refusal.code, code, "{url}");
        let rule = refusal.rule.as_ref().unwrap();
        assert_eq!(&*rule.file == "tool definition", code == RefusalCode::InvalidArguments, "{rule:?}");
        assert!(!format!("{refusal:?}").contains("secret"), "{refusal:?}");
    }
}

#[test]
fn blocked_host_includes_everything_below_it() {
    let open = outbound(OPEN, None);
    check(&open, "allowed", &["https://example.org", "https://1.1.1.1", "https://[2606:4700::1111]/"]);
    let blocked = [
        "http://x.onion",
        "http://onion",
        "https://evil.example",
        "https://www.EVIL.example.",
        "http://a.b.onion.",
    ];
    check(&open, "blocked_domain", &blocked);
    check(&open, "allowed", &["https://notevil.example"]);
    let both = outbound(OPEN, Some(&["evil.example", "x.onion"]));
    check(&both, "blocked_domain", &["https://evil.example", "http://x.onion"]);
}

#[test]
fn private_addresses_are_denied_in_every_notation() {
    let spellings = [
        "http://127.0.0.1",
        "http://2130706433",
        "http://0x7f.1",
        "http://017700000001",
        "http://127.1",
        "http://0",
        "http://１２７.0.0.1",
        "http://127。0。0。1",
        "http:/127.0.0.1",
        "http:127.0.0.1",
        "http://[::1]",
        "http://[::ffff:127.0.0.1]",
        "http://[64:ff9b::7f00:1]",
        "http://[::]",
        "http://127.0.0.1.",
        "http://localhost",
        "http://localhost.",
        "http://LOCALHOST:1234",
        "http://a.localhost",
        "http://router",
        "http://metadata.google.internal",
        "http://10.0.0.1",
        "http://192.168.0.1:80",
    ];
    check(&outbound(OPEN, None), "private_address", &spellings);
    check(
        &outbound(OPEN, Some(&["localhost", "127.0.0.1"])),
        "private_address",
        &["http://localhost", "http://127.1"],
    );
    let opened = format!("{OPEN}  allow_private_addresses: true\n");
    check(&outbound(&opened, None), "allowed", &spellings);
    check(
        &outbound(&opened, Some(&["localhost", "127.0.0.1"])),
        "allowed",
        &["http://localhost", "http://2130706433"],
    );
    let closed = [
        "http://169.254.169.254/latest",
        "http://0xa9fea9fe/",
        "http://169.254.43518/",
        "http://169.254.0.1",
        "http://[::ffff:169.254.169.254]",
        "http://[::169.254.169.254]",
        "http://[64:ff9b::a9fe:a9fe]",
        "http://[2002:a9fe:a9fe::]",
        "http://[fe80::1]",
        "http://[fd00:ec2::254]",
        "http://100.100.100.200",
        "http://168.63.129.16",
    ];
    for gateway in [OPEN, &opened] {
        check(&outbound(gateway, None), "private_address", &closed);
        let named = outbound(gateway, Some(&["169.254.169.254", "*"]));
        check(&named, "private_address", &closed);
        for text in closed {
            assert!(
                named.check_service(&NetworkTarget::from_url(text)).is_err(),
                "the settings cannot allow it: {text}"
            );
            assert!(
                named.check_manifest_server(&NetworkTarget::from_url(text)).is_err(),
                "a manifest cannot allow it: {text}"
            );
        }
    }
    check(
        &outbound(OPEN, None),
        "userinfo",
        &["http://a@127.0.0.1", "https://github.com@evil.com", "https://u:p@example.org"],
    );
    let outbound = outbound(OPEN, None);
    let refused = outbound.check_address("10.0.0.1".parse().unwrap(), HostLocation::Public).unwrap_err();
    assert_eq!(refused.detail(), "private_address");
    outbound.check_address("10.0.0.1".parse().unwrap(), HostLocation::Local).unwrap();
    outbound.check_address("1.1.1.1".parse().unwrap(), HostLocation::Public).unwrap();
}

#[test]
fn other_schemes_and_missing_lists_are_denied() {
    let open = outbound(OPEN, None);
    check(
        &open,
        "scheme",
        &["file:///etc/passwd", "ftp://example.org", "data:text/plain,x", "javascript:1", "ws://example.org"],
    );
    check(&outbound("  blocked_domains: []\n", None), "not_listed", &["https://example.org"]);
    check(&outbound(OPEN, Some(&[])), "not_listed", &["https://example.org"]);
}
