//! Rates from outside: one bucket for one tool however it is spelt, advice, and a memory longer than the daemon's.

use serde_json::{Value, json};
use tests::{Daemon, Home};

fn limited(rate: u32) -> Home {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let tools =
        format!("tools:\n  read_file:\n    allowed_in_modes: [NORMAL]\n    rate_limit_per_hour: {rate}\n");
    home.configure("governance/tools.yaml", &tools);
    home
}

fn refusal(result: &Value) -> &Value {
    &result["metadata"]["refusal"]
}

#[test]
fn one_tool_is_one_bucket_however_it_is_spelt_and_whoever_asks() {
    let daemon = Daemon::start_in(limited(4));
    let read = json!({"path": "a.txt"});
    for name in ["read_file", "READ_FILE", "Read_File", "read_file@1"] {
        let result = daemon.agent().execute(name, &read);
        assert_eq!(result["success"], true, "{name}: {result}");
    }
    let denied = daemon.agent().execute("read_file", &json!({"path": "/etc/shadow"}));
    assert_eq!(refusal(&denied)["code"], "rate_limited", "{denied}");
    for name in ["read_file", "READ_FILE", "read_file@1"] {
        let result = daemon.agent().execute(name, &read);
        assert_eq!(refusal(&result)["code"], "rate_limited", "{name}: {result}");
        assert_eq!(result["error"], "Permission denied: Rate limit exceeded");
        let after = refusal(&result)["retry_after_ms"].as_u64().expect("advice");
        assert!((3_000_000..=3_600_000).contains(&after), "{after}");
    }
    assert_eq!(
        daemon.agent().execute("list_directory", &json!({"path": "."}))["success"],
        true,
        "another tool"
    );

    let daemon = Daemon::start_in(daemon.crash());
    let result = daemon.agent().execute("read_file", &read);
    assert_eq!(refusal(&result)["code"], "rate_limited", "a restart refills nothing: {result}");
    assert!(refusal(&result)["retry_after_ms"].as_u64().is_some_and(|after| after <= 3_610_000), "{result}");
}

#[test]
fn refused_calls_use_nothing_up_and_none_means_none() {
    let daemon = Daemon::start_in(limited(1));
    let mut agent = daemon.agent();
    for _ in 0..5 {
        let refused = agent.execute("read_file", &json!({"path": "/etc/shadow"}));
        assert_ne!(refusal(&refused)["code"], "rate_limited", "{refused}");
    }
    let done = agent.execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        (&done["success"], &done["metadata"]["remaining"]["tool_per_hour"]),
        (&json!(true), &json!(0))
    );
    daemon.stop();
    let daemon = Daemon::start_in(limited(0));
    let never = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(
        (&refusal(&never)["code"], &refusal(&never)["retryable"]),
        (&json!("rate_limited"), &json!(false))
    );
    assert_eq!(refusal(&never)["retry_after_ms"], Value::Null, "waiting cannot help: {never}");
}
