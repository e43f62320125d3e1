//! Optional arguments of a command: standard input, and a shorter timeout than the policy's.

use serde_json::{Value, json};
use tests::Daemon;

use super::{home, output};

fn run_with(daemon: &Daemon, words: &[&str], more: (&str, Value)) -> Value {
    let mut arguments = json!({"command": words});
    arguments[more.0] = more.1;
    daemon.agent().execute("run_command", &arguments)
}

#[test]
fn command_reads_its_stdin_byte_for_byte() {
    let daemon = Daemon::start_in(home(""));
    let text = "first\n\t$(id) é\n\nlast";
    assert_eq!(output(&run_with(&daemon, &["cat"], ("stdin", json!(text)))), text);
    assert_eq!(output(&run_with(&daemon, &["wc", "-c"], ("stdin", json!("")))).trim(), "0");
    let nothing = daemon.agent().execute("run_command", &json!({"command": ["wc", "-c"]}));
    assert_eq!(output(&nothing).trim(), "0", "the write does not wait for a reader: {nothing}");
    let large = "x".repeat(600_000);
    assert_eq!(output(&run_with(&daemon, &["wc", "-c"], ("stdin", json!(large)))).trim(), "600000");
    let records = daemon.home().records();
    assert!(!records.iter().any(|record| record.to_string().contains("$(id)")), "no content on record");
}

/// The input exceeds the pipe buffer, and the command does not read it.
#[test]
fn unread_stdin_does_not_block_the_command() {
    let daemon = Daemon::start_in(home(""));
    let large = "x".repeat(900_000);
    let script = "head -c 900000 /dev/zero | tr '\\0' y; echo; echo done";
    let result = run_with(&daemon, &["sh", "-c", script], ("stdin", json!(large)));
    assert_eq!(
        (&result["success"], &result["output"]["exit_code"]),
        (&json!(true), &json!(0)),
        "{result:.300}"
    );
    assert!(output(&result).ends_with("\ndone\n"), "{result:.300}");
}

#[test]
fn caller_can_shorten_the_timeout_but_not_extend_it() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 2\n"));
    for (asked, least) in [(1, 0.8), (600, 1.8)] {
        let began = std::time::Instant::now();
        let result = run_with(&daemon, &["sleep", "60"], ("timeout_seconds", json!(asked)));
        assert_eq!(result["output"]["timed_out"], true, "{asked}: {result}");
        let took = began.elapsed().as_secs_f64();
        assert!(took > least, "{asked}: {took}");
    }
    for asked in [json!(0), json!(-1), json!(1.5), json!(86_401), json!("1")] {
        let refused = run_with(&daemon, &["true"], ("timeout_seconds", asked.clone()));
        assert_eq!(refused["metadata"]["refusal"]["code"], "invalid_arguments", "{asked}: {refused}");
    }
}
