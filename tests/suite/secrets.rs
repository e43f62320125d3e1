//! A secret that passes through leaves no trace: not in the log at its loudest, not in the ledger, not on a screen.

use serde_json::json;
use tests::Daemon;

/// Secrets of the kinds people have, no two of them alike.
fn secrets() -> Vec<String> {
    let mut state = 1_u64;
    let mut word = || {
        // SplitMix64: every run has the same secrets, and none of them repeats.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        format!("{:016x}", mixed ^ (mixed >> 31))
    };
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

/// The part that must not be found: what is left when the recognisable beginning is gone.
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

#[test]
fn a_thousand_planted_secrets_are_found_nowhere() {
    let home = tests::Home::initialised();
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace")]);
    let secrets = secrets();
    assert_eq!(secrets.len(), 1000);
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
    let terminal = daemon.log();
    let home = daemon.stop();
    let mut kept = terminal.into_bytes();
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
