//! A secret that passes through leaves no trace: not in the log at its loudest, not in the ledger, not on a screen.

use serde_json::json;
use tests::Daemon;

/// Secrets of the kinds people have, each one of a kind.
fn secrets() -> Vec<String> {
    let word = |n: usize| format!("{:0>32}", format!("{:x}", n * 2_654_435_761 % 4_294_967_291));
    (0..200)
        .flat_map(|n| {
            let word = word(n + 1);
            [
                format!("sk-proj-{word}{word}"),
                format!("ghp_{}", &format!("{word}{word}")[..36]),
                format!("AKIA{}", &word.to_uppercase()[16..32]),
                format!("xoxb-{n:012}-{n:012}-{}", &word[8..32]),
                format!("-----BEGIN PRIVATE KEY-----\n{word}{word}\n-----END PRIVATE KEY-----"),
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
    for (n, secret) in secrets.iter().enumerate() {
        match n % 4 {
            0 => agent.execute("write_file", &json!({"path": "out.txt", "content": secret})),
            1 => agent.execute("read_file", &json!({"path": format!("missing {secret}")})),
            2 => agent.execute("read_file", &json!({"path": "out.txt", secret.as_str(): secret})),
            _ => agent.execute(secret, &json!({"token": secret})),
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
    assert!(leaked.is_empty(), "{} leaked, such as {:?}", leaked.len(), leaked.first());
}
