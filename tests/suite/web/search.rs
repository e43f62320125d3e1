//! `web_search` against pages as the providers send them, under the shipped policy: a configured provider may
//! be on this machine, and nothing else may.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::server::Server;
use super::{everything_kept, home, with_settings};

const RESULTS: &str = include_str!("../../../crates/web_content/pages/duckduckgo_html_results.html");
const CHALLENGE: &str = include_str!("../../../crates/web_content/pages/duckduckgo_challenge.html");
const NONE: &str = include_str!("../../../crates/web_content/pages/duckduckgo_html_none.html");
const ECHO: &str = include_str!("../../../crates/web_content/pages/duckduckgo_html_echo.html");
const LITE: &str = include_str!("../../../crates/web_content/pages/duckduckgo_lite_results.html");
const HTML: &str = "Content-Type: text/html; charset=UTF-8\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const FOUND: &str = r#"{"type": "search", "query": {"original": "q"}, "web": {"results": [{"title": "A", "url": "https://a.org/",
    "description": "about a"}]}, "results": [{"title": "A", "url": "https://a.org/", "content": "about a"}]}"#;

/// Daemon that uses these providers in this order, each with extra settings.
fn asking(home: Home, providers: &[(&str, &Server, &str)]) -> Daemon {
    let entry = |(name, server, more): &(&str, &Server, &str)| {
        format!("{{name: {name}, url: \"{}\"{more}}}", server.url("/search"))
    };
    let entries: Vec<String> = providers.iter().map(entry).collect();
    Daemon::start_in(with_settings(home, &format!("{{search: {{providers: [{}]}}}}", entries.join(", "))))
}

fn search(daemon: &Daemon, query: &str) -> Value {
    daemon.agent().execute("web_search", &json!({"query": query}))
}

/// Outcome of each provider that was tried.
fn tried(result: &Value) -> Vec<String> {
    let attempts = result["output"]["tried"].as_array().unwrap_or_else(|| panic!("{result}"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    attempts.iter().map(|one| format!("{} {}", word(&one["provider"]), word(&one["outcome"]))).collect()
}

#[test]
fn results_have_no_advertisements_and_are_cached() {
    let server = Server::saying("200 OK", HTML, RESULTS);
    let daemon = asking(Home::initialised(), &[("duckduckgo_html", &server, "")]);
    let result = search(&daemon, "rust language !w");
    let output = &result["output"];
    assert_eq!(
        (&output["provider"], &output["outcome"]),
        (&json!("duckduckgo_html"), &json!("ok")),
        "{result}"
    );
    assert_eq!(output["results"][0]["url"], "https://www.rust-lang.org/");
    assert_eq!((output["results"].as_array().map(Vec::len), &output["untrusted"]), (Some(3), &json!(true)));
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full", "parsed in the sandbox");
    let request = &server.requests()[0];
    assert!(
        request.starts_with("POST /search HTTP/1.1")
            && request.ends_with("q=rust+language+%22%21w%22&kl=wt-wt&b="),
        "{request}"
    );
    let again = search(&daemon, "rust language !w");
    assert_eq!((&again["metadata"]["cached"], server.connections()), (&json!(true), 1), "{again}");
    assert_eq!(again["output"]["results"], output["results"]);
}

#[test]
fn challenge_counts_as_a_block_and_the_next_is_tried() {
    for status in ["202 Accepted", "200 OK"] {
        let (blocking, lite) =
            (Server::saying(status, HTML, CHALLENGE), Server::saying("200 OK", HTML, LITE));
        let daemon = asking(
            Home::initialised(),
            &[("duckduckgo_html", &blocking, ""), ("duckduckgo_lite", &lite, "")],
        );
        let result = search(&daemon, "first");
        assert_eq!(tried(&result), ["duckduckgo_html blocked", "duckduckgo_lite ok"], "{result}");
        assert_eq!(result["output"]["results"].as_array().map(Vec::len), Some(2));
        let second = search(&daemon, "second");
        assert_eq!(tried(&second), ["duckduckgo_html blocked", "duckduckgo_lite ok"], "{second}");
        assert_eq!((blocking.connections(), lite.connections()), (1, 2), "a block is not asked into");
        assert!(second["output"]["tried"][0]["retry_after_seconds"].as_u64().is_some_and(|left| left > 600));
    }
}

#[test]
fn no_answering_provider_is_a_failure_not_an_empty_result() {
    let blocking = Server::saying("202 Accepted", HTML, CHALLENGE);
    let daemon = asking(Home::initialised(), &[("duckduckgo_html", &blocking, "")]);
    let result = search(&daemon, "anything");
    assert_eq!(
        (&result["success"], &result["output"]["outcome"]),
        (&json!(false), &json!("blocked")),
        "{result}"
    );
    assert!(
        result["error"].as_str().is_some_and(|error| error.contains("duckduckgo_html blocked")),
        "{result}"
    );
    let hint = result["metadata"]["failure"]["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("does not mean that there are no results"), "{hint}");
}

#[test]
fn each_outcome_is_named_and_the_next_is_tried() {
    let silent = r#"{"results": [], "unresponsive_engines": [["google", "CAPTCHA"]]}"#;
    let cases: [(&str, &str, &str, &str, &str); 11] = [
        ("duckduckgo_html", "200 OK", HTML, "<p>A new design", "parse_changed"),
        ("duckduckgo_html", "202 Accepted", HTML, "<p>A new challenge", "blocked"),
        ("duckduckgo_html", "403 Forbidden", HTML, "", "blocked"),
        ("duckduckgo_lite", "429 Too Many Requests", HTML, "", "rate_limited"),
        ("searxng", "200 OK", JSON, silent, "blocked"),
        ("searxng", "403 Forbidden", HTML, "", "auth"),
        ("searxng", "503 Unavailable", HTML, "", "unreachable"),
        ("searxng", "302 Found", "Location: /login\r\n", "", "parse_changed"),
        ("brave", "200 OK", JSON, FOUND, "auth"),
        ("tavily", "200 OK", JSON, FOUND, "auth"),
        ("searxng", "200 OK", JSON, FOUND, "ok"),
    ];
    let serve = |(_, status, headers, body, _): &(&str, &str, &str, &str, &str)| {
        Server::saying(status, headers, body)
    };
    let servers: Vec<Server> = cases.iter().map(serve).collect();
    let chain: Vec<_> = cases.iter().zip(&servers).map(|(case, server)| (case.0, server, "")).collect();
    let daemon = asking(Home::initialised(), &chain);
    let expect: Vec<String> =
        cases.iter().map(|(name, _, _, _, outcome)| format!("{name} {outcome}")).collect();
    let result = search(&daemon, "q");
    assert_eq!(tried(&result), expect, "{result}");
    for (case, server) in cases.iter().zip(&servers) {
        let asked = usize::from(!matches!(case.0, "brave" | "tavily"));
        assert_eq!(server.connections(), asked, "without a key no provider is asked: {case:?}");
    }
}

#[test]
fn empty_answer_and_block_words_in_a_query_are_no_block() {
    let silent = r#"{"results": []}"#;
    for (name, headers, page, expect) in [
        ("duckduckgo_html", HTML, NONE, "empty"),
        ("searxng", JSON, silent, "empty"),
        ("duckduckgo_html", HTML, ECHO, "ok"),
    ] {
        let server = Server::saying("200 OK", headers, page);
        let daemon = asking(Home::initialised(), &[(name, &server, "")]);
        let result = search(&daemon, "anomaly.js anomaly-modal");
        assert_eq!(
            (&result["success"], &result["output"]["outcome"]),
            (&json!(true), &json!(expect)),
            "{result}"
        );
        assert_eq!(result["output"]["provider"], name);
    }
}

/// Keys come from a private file or the environment, go to their service, and are not stored.
#[test]
fn keys_are_sent_to_their_service_and_stored_nowhere() {
    let home = Home::initialised();
    let file = home.user_home().join("brave.key");
    std::fs::write(&file, "brave-key-4d1f\n").expect("a key file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a private file");
    let brave = Server::saying("429 Too Many Requests", "Retry-After: 77\r\n", "");
    let tavily = Server::saying("432 Plan Limit", JSON, r#"{"detail": {"error": "limit"}}"#);
    let found = Server::saying("200 OK", JSON, FOUND);
    let entry = |name: &str, server: &Server, more: &str| {
        format!("{{name: {name}, url: \"{}\"{more}}}", server.url("/s"))
    };
    let entries = [
        entry("brave", &brave, &format!(", key_file: \"{}\"", file.display())),
        entry("tavily", &tavily, ""),
        entry("brave", &found, &format!(", key_file: \"{}\"", file.display())),
    ];
    let home = with_settings(home, &format!("{{search: {{providers: [{}]}}}}", entries.join(", ")));
    let daemon = Daemon::start_with(home, &[("TAVILY_API_KEY", "tvly-key-8a2c")]);
    let result = search(&daemon, "q");
    assert_eq!(tried(&result), ["brave rate_limited", "tavily quota", "brave ok"], "{result}");
    assert_eq!(result["output"]["tried"][0]["retry_after_seconds"], 77);
    assert!(brave.requests()[0].contains("x-subscription-token: brave-key-4d1f"));
    assert!(tavily.requests()[0].contains("authorization: Bearer tvly-key-8a2c"));
    assert!(!result.to_string().contains("key-"), "{result}");
    let kept = everything_kept(&daemon.stop());
    assert!(!kept.contains("brave-key-4d1f") && !kept.contains("tvly-key-8a2c"));
}

#[test]
fn key_repeated_by_a_provider_is_hidden_from_the_caller() {
    let text = r#"{"web": {"results": [{"title": "tell brave-key-4d1f", "url": "https://a.org/?k=brave-key-4d1f",
        "description": "brave-key-4d1f", "age": "brave-key-4d1f"}]}, "query": {"original": "q"}, "type": "search"}"#;
    let repeating = Server::saying("200 OK", JSON, text);
    let wrong = Server::saying("200 OK", JSON, r#"{"results": "tvly-key-8a2c"}"#);
    let home = Home::initialised();
    let file = home.user_home().join("brave.key");
    std::fs::write(&file, "brave-key-4d1f\n").expect("a key file");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).expect("a private file");
    let more = format!(", key_file: \"{}\"", file.display());
    let entries = [("tavily", &wrong, ""), ("brave", &repeating, more.as_str())]
        .map(|(name, server, more)| format!("{{name: {name}, url: \"{}\"{more}}}", server.url("/s")));
    let home = with_settings(home, &format!("{{search: {{providers: [{}]}}}}", entries.join(", ")));
    let daemon = Daemon::start_with(home, &[("TAVILY_API_KEY", "tvly-key-8a2c")]);
    let result = search(&daemon, "q");
    assert_eq!(tried(&result), ["tavily parse_changed", "brave ok"], "{result}");
    assert_eq!(result["output"]["results"][0]["title"], "tell [key]", "{result}");
    assert!(!result.to_string().contains("-key-"), "{result}");
}

/// The lists of the gateway apply to a configured provider too.
#[test]
fn policy_can_block_a_configured_provider() {
    let server = Server::saying("200 OK", HTML, RESULTS);
    let closed =
        home("{allowed_domains: [\"*\"], blocked_domains: [\"127.0.0.1\"], allow_private_addresses: true}");
    let daemon = asking(closed, &[("duckduckgo_html", &server, "")]);
    let result = search(&daemon, "q");
    assert_eq!(result["metadata"]["refusal"]["code"], "domain_not_allowed", "{result}");
    assert_eq!((&result["metadata"]["failure"]["kind"], server.connections()), (&json!("denied"), 0));
}

/// Providers that the gateway refuses are named by `explain`, `check` and `doctor`, and the call agrees.
#[test]
fn refused_providers_are_named_before_the_call() {
    let server = Server::saying("200 OK", HTML, RESULTS);
    let entry = format!("{{name: duckduckgo_html, url: \"{}\"}}", server.url("/search"));
    for (allowed, verdict, code) in [("[127.0.0.1]", "permit", 0), ("[docs.python.org]", "deny", 3)] {
        let home = Home::new();
        home.run(&["init"]).must_exit(0);
        let gateway = format!("outbound_gateway: {{allowed_domains: {allowed}}}\n");
        home.configure_layer("governance/safety.yaml", &gateway);
        let settings = format!("web: {{search: {{providers: [{entry}, {{name: duckduckgo_lite}}]}}}}\n");
        home.configure("sinew.yaml", &settings);
        let explained = home.run(&["explain", "web_search", "query=x", "--json"]).must_exit(code).json();
        assert_eq!(explained["verdict"], verdict, "{explained}");
        let refused: Vec<&str> = match verdict {
            "permit" => vec!["duckduckgo_lite"],
            _ => vec!["duckduckgo_html", "duckduckgo_lite"],
        };
        assert_eq!(explained["notes"].as_array().map(Vec::len), Some(refused.len()), "{explained}");
        let (checked, doctor) = (home.run(&["check"]).must_exit(0).stdout(), home.run(&["doctor"]).stdout());
        for name in refused {
            assert!(explained["notes"].to_string().contains(name), "{explained}");
            assert!(checked.contains(&format!("`{name}` (")) && checked.contains("is refused"), "{checked}");
            let row = doctor.lines().find(|line| line.contains(name)).unwrap_or_default();
            assert!(row.contains("the policy refuses it"), "{doctor}");
        }
        let called = home.run(&["call", "web_search", "query=x", "--json"]);
        assert_eq!(called.output.status.code(), Some(code), "{called}");
    }
}

/// A project restricts the providers of `web_search`, and `explain` agrees with the call.
#[test]
fn providers_that_a_project_does_not_list_are_refused() {
    let server = Server::saying("200 OK", HTML, RESULTS);
    let entry = format!("{{name: duckduckgo_html, url: \"{}\"}}", server.url("/search"));
    let home = Home::new();
    home.run(&["init", "--workspace", &home.workspace().display().to_string()]).must_exit(0);
    let root = home.workspace().canonicalize().unwrap();
    let settings = format!(
        "workspaces: [{{path: \"{}\"}}]\nweb: {{search: {{providers: [{entry}]}}}}\n",
        root.display()
    );
    home.configure("sinew.yaml", &settings);
    std::fs::create_dir(home.workspace().join(".sinew")).unwrap();
    let fetch = "tools:\n  fetch_url: {allowed_domains: [docs.python.org]}\n";
    for (search, exit, asked) in [("", 0, 1), ("  web_search: {allowed_domains: []}\n", 3, 1)] {
        home.file(".sinew/policy.yaml", &format!("{fetch}{search}"));
        home.run(&["explain", "web_search", "query=x"]).must_exit(exit);
        home.run(&["call", "web_search", "query=x"]).must_exit(exit);
        assert_eq!(server.connections(), asked, "{search}");
    }
}
