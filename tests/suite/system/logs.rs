//! `read_system_logs`: files through their handles, and the journal if there is one.

use std::io::Write;

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Daemon whose rules let the tool into a folder of the test.
fn daemon() -> Daemon {
    let home = Home::initialised();
    let logs = home.workspace().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let rules = format!(
        "tools:\n  read_system_logs:\n    allowed_in_modes: [NORMAL]\n    allowed_paths: [\"{}/**\"]\n",
        logs.display()
    );
    home.configure("governance/tools.yaml", &rules);
    Daemon::start_in(home)
}

fn ask(daemon: &Daemon, arguments: &Value) -> Value {
    daemon.agent().execute("read_system_logs", arguments)
}

fn messages(result: &Value) -> Vec<String> {
    assert_eq!(result["success"], true, "{result}");
    let entries = result["output"]["entries"].as_array().unwrap();
    entries.iter().map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn file_is_read_from_its_end_in_one_shape() {
    let daemon = daemon();
    let now = self::now();
    let lines = format!(
        "2001-01-01T00:00:00Z host old[1]: long ago\n{now} host web[7]: GET /a\n{now} host db: slow\n{now} host web[7]: GET /b\nplain\n"
    );
    daemon.home().file("logs/app.log", &lines);
    let all = ask(&daemon, &json!({"file": "logs/app.log"}));
    assert_eq!(messages(&all), ["GET /a", "slow", "GET /b", "plain"], "the window holds");
    let first = &all["output"]["entries"][0];
    assert_eq!((&first["process"], &first["pid"]), (&json!("web"), &json!(7)), "{first}");
    assert!(all["output"]["entries"][3]["time"].is_null(), "nothing is guessed");
    let web = ask(&daemon, &json!({"file": "logs/app.log", "process": "web"}));
    assert_eq!(messages(&web), ["GET /a", "GET /b"]);
    let newest = ask(&daemon, &json!({"file": "logs/app.log", "contains": "get", "max_entries": 1}));
    assert_eq!(messages(&newest), ["GET /b"]);
    assert_eq!(newest["metadata"]["truncated"]["total"], 2, "{newest}");
    assert_eq!(messages(&ask(&daemon, &json!({"file": "logs/app.log", "contains": "(a+)+$"}))), [""; 0]);
}

/// Current time as syslog writes it.
fn now() -> String {
    let output = std::process::Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn flood_of_entries_is_cut_and_reported() {
    let daemon = daemon();
    let line = format!("{} host web[7]: {}\n", now(), "x".repeat(900));
    daemon.home().file("logs/big.log", &line.repeat(8000));
    let result = ask(&daemon, &json!({"file": "logs/big.log", "max_entries": 2000}));
    let returned = messages(&result).len();
    assert!(returned > 100 && returned < 2000, "{returned}");
    assert_eq!(result["output"]["stopped_by"], "bytes");
    assert_eq!(result["metadata"]["truncated"]["returned"], returned);
    assert!(result["output"]["found"].as_u64().unwrap() > 2000);
}

#[test]
fn growing_log_is_not_followed_forever() {
    let daemon = daemon();
    let line = format!("{} host web[7]: GET /\n", now());
    let path = daemon.home().file("logs/grows.log", &line);
    let over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(line.as_bytes()).unwrap();
                // The pause keeps the test from filling the disk.
                std::thread::sleep(std::time::Duration::from_micros(100));
            }
        });
        let result = ask(&daemon, &json!({"file": "logs/grows.log", "max_entries": 5}));
        let unknown = ask(&daemon, &json!({"file": "logs/grows.log", "follow": true}));
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!((1..=5).contains(&messages(&result).len()), "what was there, and no more: {result}");
        assert_eq!(unknown["metadata"]["refusal"]["code"], "invalid_arguments", "{unknown}");
    });
}

#[test]
fn outside_files_and_option_words_are_refused() {
    let daemon = daemon();
    let secret = daemon.home().file("secret.txt", "canary");
    std::os::unix::fs::symlink(&secret, daemon.home().workspace().join("logs/link.log")).unwrap();
    for file in [
        "logs/../secret.txt",
        "secret.txt",
        "logs/link.log",
        "/etc/passwd",
        "/var/log/../../etc/passwd",
        "logs/*",
    ] {
        let result = ask(&daemon, &json!({"file": file}));
        assert_eq!(result["success"], false, "{file}: {result}");
        assert!(!result.to_string().contains("canary"), "{file}");
        if file != "logs/*" {
            assert_eq!(result["metadata"]["refusal"]["code"], "path_not_allowed", "{file}: {result}");
        }
    }
    for (key, word) in [
        ("unit", "--output=x"),
        ("unit", "-f"),
        ("unit", "*"),
        ("unit", "a b"),
        ("process", "-f"),
        ("contains", "a\nb"),
    ] {
        let result = ask(&daemon, &json!({key: word}));
        assert_eq!(result["metadata"]["refusal"]["code"], "invalid_arguments", "{key} {word}: {result}");
    }
    let forever = ask(&daemon, &json!({"minutes": 100_000}));
    assert_eq!(forever["metadata"]["refusal"]["code"], "invalid_arguments", "{forever}");
    let predicate = ask(&daemon, &json!({"predicate": "1 == 1"}));
    assert_eq!(predicate["metadata"]["refusal"]["code"], "invalid_arguments", "{predicate}");
}

#[test]
fn system_log_answers_or_gives_a_reason() {
    let daemon = daemon();
    let result = ask(&daemon, &json!({"minutes": 5, "level": "error", "unit": "ssh.service"}));
    if result["success"] == true {
        assert_eq!(result["output"]["source"], "system", "{result}");
        return;
    }
    let kind = result["metadata"]["failure"]["kind"].as_str().unwrap();
    assert!(["not_found", "unreadable"].contains(&kind), "{result}");
    let hint = result["metadata"]["failure"]["hint"].as_str().unwrap();
    assert!(hint.contains("/var/log"), "the way out: {hint}");
}

#[test]
fn default_rules_allow_the_log_folder() {
    let daemon = Daemon::start();
    let result = ask(&daemon, &json!({"file": "/var/log/sinew-no-such.log"}));
    assert_eq!(result["metadata"]["failure"]["kind"], "not_found", "{result}");
    for file in ["/etc/passwd", "/var/log/private/x", "/var/log/btmp"] {
        let result = ask(&daemon, &json!({"file": file}));
        assert!(result["metadata"]["refusal"]["code"].is_string(), "{file}: {result}");
    }
}

#[test]
fn log_text_is_masked_escaped_and_labelled_untrusted() {
    let daemon = daemon();
    let line = "host web[7]: login password=hunter2hunter2 \u{202e}evil\u{1b}[2J ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    daemon.home().file("logs/app.log", &format!("{} {line}\n", now()));
    let result = ask(&daemon, &json!({"file": "logs/app.log"}));
    let message = messages(&result).remove(0);
    for hidden in ["hunter2", "ghp_", "\u{202e}", "\u{1b}"] {
        assert!(!message.contains(hidden), "{message:?}");
    }
    assert!(message.contains("\\u{202e}evil\\u{1b}[2J"), "{message:?}");
    assert_eq!(result["output"]["untrusted"], true, "{result}");
}
