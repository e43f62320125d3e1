//! Secrets in calls are stored nowhere: not in the log at its most verbose level, not in the ledger, not in
//! command output, and not in exported telemetry.

use serde_json::json;
use tests::{Campaign, Daemon, Random};

use crate::telemetry::collector::{Collector, capture_content};

/// Secrets of common kinds, all different.
fn secrets(mut random: Random) -> Vec<String> {
    let mut word = || format!("{:016x}", random.number());
    (0..200)
        .flat_map(|n| {
            [
                format!("sk-proj-{}{}{}", word(), word(), word()),
                format!("ghp_{}{}{}", word(), word(), &word()[..4]),
                format!("AKIA{}", word().to_uppercase()),
                format!("xoxb-{n:012}-{n:012}-{}{}", word(), &word()[..8]),
                format!(
                    "-----BEGIN PRIVATE KEY-----\n{}{}{}\n-----END PRIVATE KEY-----",
                    word(),
                    word(),
                    word()
                ),
            ]
        })
        .collect()
}

/// Part of a secret that must not be found: the rest after its recognisable prefix.
fn core(secret: &str) -> &str {
    let line = secret.lines().nth(1).unwrap_or(secret);
    let end = line.len();
    &line[end - 16..]
}

fn everything_below(folder: &std::path::Path, found: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            everything_below(&path, found);
        } else if path.is_file() {
            found.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
}

/// Sends the secrets through every field that takes a text.
fn plant(daemon: &Daemon, secrets: &[String]) {
    let mut agent = daemon.agent();
    for secret in secrets.iter().take(50) {
        let client = json!({"name": secret, "version": secret});
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let mut mcp = daemon.agent();
        mcp.request("initialize", &hello);
        mcp.request("tools/call", &json!({"name": "read_file", "arguments": {"path": secret}}));
        daemon.control().request("control/mode.set", &json!({"mode": "NORMAL", "reason": secret}));
        let named = format!("{}.txt", secret.lines().next().unwrap_or_default());
        agent.execute("write_file", &json!({"path": named, "content": "x"}));
        let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let trace = json!({"traceparent": trace, "tracestate": format!("vendor={}", secret.lines().next().unwrap_or_default())});
        let params = json!({"tool_name": "read_file", "arguments": {"path": "out.txt"}, "trace_ctx": trace});
        agent.request("sinew/execute", &params);
    }
    // One of each kind, because these tools are slow.
    for secret in secrets.iter().take(5) {
        let line = secret.lines().next().unwrap_or_default();
        agent.execute("check_process_health", &json!({"name": line, "started_at": secret}));
        agent.execute("check_process_health", &json!({"label": secret}));
        agent.execute("read_system_logs", &json!({"file": format!("/var/log/{line}"), "contains": line}));
        agent.execute("git_log", &json!({"path": ".", "revision": secret, "files": [secret]}));
        agent.execute("run_tests", &json!({"path": secret, "tests": [secret]}));
        agent.execute("run_linter", &json!({"path": line, "files": [secret]}));
    }
    for mode in ["ALERT", "NORMAL"] {
        daemon.control().request("control/mode.set", &json!({"mode": mode, "reason": secrets[0]}));
    }
    for (n, four) in secrets.chunks(4).enumerate() {
        let together = four.join(" ");
        match n % 4 {
            0 => agent.execute("write_file", &json!({"path": "out.txt", "content": together})),
            1 => agent.execute("read_file", &json!({"path": format!("missing {together}")})),
            2 => agent.execute(
                "read_file",
                &json!({"path": "out.txt", four[0].as_str(): four[1], "more": four[2..]}),
            ),
            _ => agent.execute(&four[0], &json!({"token": four})),
        };
    }
}

/// Output of every command that shows past calls. Where a command only prints a file that is searched anyway,
/// a part of it suffices.
fn shown(home: &tests::Home) -> String {
    let mut records = home.records().into_iter();
    let trace =
        records.find_map(|record| Some(record["trace"]["trace_id"].as_str()?.to_owned())).expect("a call");
    let commands: [&[&str]; 9] = [
        &["ledger", "tail", "-n", "1000"],
        &["ledger", "query", "--tool", "read_file", "--limit", "1000"],
        &["ledger", "query", "--limit", "50", "--json"],
        &["ledger", "export", "--kind", "mode"],
        &["ledger", "export", "--format", "csv"],
        &["trace", &trace],
        &["logs", "--level", "info"],
        &["logs", "--level", "error", "--json"],
        &["ledger", "verify"],
    ];
    commands.iter().map(|words| home.run(words).must_exit(0).to_string()).collect()
}

#[test]
fn a_thousand_planted_secrets_are_found_nowhere() {
    let (mut campaign, mut planted) = (Campaign::start(1), 0);
    while campaign.goes_on(planted)
        && let Some(round) = campaign.next_round()
    {
        let secrets = secrets(campaign.random(round));
        check(&secrets);
        planted += secrets.len() as u64;
    }
    campaign.finish(planted, "in every field of a call that takes text, at TRACE with content capture");
}

/// Plants the secrets and searches everything that is stored, shown and sent.
fn check(secrets: &[String]) {
    let collector = Collector::start();
    let home = tests::Home::initialised().without_automatic_modes();
    // All logging and capture is on, so that each secret passes every sink.
    capture_content(&home);
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace"), collector.variable()]);
    assert_eq!(secrets.len(), 1000);
    plant(&daemon, secrets);
    let status = daemon.home().run(&["status"]).must_exit(0).to_string()
        + &daemon.home().run(&["status", "--json"]).must_exit(0).to_string();
    let terminal = daemon.log();
    let home = daemon.stop();
    let shown = shown(&home);
    assert!(
        shown.contains("read_file") && shown.contains("tool_call_started"),
        "the commands really showed it"
    );
    let exported = collector.received();
    for path in ["/v1/traces", "/v1/logs", "/v1/metrics"] {
        assert!(
            exported.has(path, b"read_file") || exported.has(path, b"write_file"),
            "{path} really arrived"
        );
    }
    let mut kept = [terminal, status, shown].concat().into_bytes();
    kept.extend(exported.everything());
    // A replaced file is stored whole for undo, as private as the file was; without it the change could not
    // be undone.
    std::fs::remove_dir_all(home.root().join("state/undo")).expect("changes were kept");
    for folder in ["state", "log", "config"] {
        everything_below(&home.root().join(folder), &mut kept);
    }
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.contains("tool_call_started"), "the log was really written");
    let leaked: Vec<&String> = secrets.iter().filter(|secret| kept.contains(core(secret))).collect();
    let places: Vec<&str> =
        leaked.iter().take(4).filter_map(|s| kept.lines().find(|l| l.contains(core(s)))).collect();
    assert!(leaked.is_empty(), "{} leaked: {places:#?}", leaked.len());
}
