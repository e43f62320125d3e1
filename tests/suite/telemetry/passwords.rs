//! Passwords in every common spelling are stored nowhere: with the log at its most verbose level, with
//! content capture and without.

use std::collections::HashSet;

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::collector::{Collector, capture_content};

/// Spellings of a password, with `@` in its place.
const SPELLINGS: [&str; 24] = [
    "password=@",
    "PASSWORD=@",
    "export DB_PASSWORD=@",
    "--password @",
    "--password=@",
    "\"password\": \"@\"",
    "{\\\"password\\\":\\\"@\\\"}",
    "pwd: @",
    "passwd: @",
    "passphrase = '@'",
    "<password>@</password>",
    "password:\n  @\n",
    "password: |\n  @\n",
    "ALTER ROLE ada PASSWORD '@'",
    "login ada password @",
    "the password is @",
    "https://ada:@@example.org/",
    "Authorization: Basic @",
    "Proxy-Authorization: Bearer @",
    "curl -u ada:@ https://example.org/",
    "mysql -p@ shop",
    "Passwort: @",
    "密码：@",
    "пароль=@",
];

/// Password that is unique and that no detector recognises by its form.
fn password(n: usize) -> String {
    format!("hunter{n}zq{}", n * 7919 % 9973)
}

fn spelt(spelling: &str, password: &str) -> String {
    spelling.replacen('@', password, 1)
}

/// Arguments with a password under a revealing key, nested, or after a flag.
fn named(n: usize) -> Value {
    let password = password(n);
    match n % 5 {
        0 => json!({"path": "a.txt", "password": password}),
        1 => json!({"path": "a.txt", "login": {"user": "ada", "Passwort": [password]}}),
        2 => json!({"path": "a.txt", "argv": ["psql", "--password", password]}),
        3 => json!({"path": "a.txt", "headers": [{"name": "Authorization", "value": password}]}),
        _ => json!({"path": "a.txt", "пароль": {"новый": password}}),
    }
}

fn plant(agent: &mut Client) -> HashSet<String> {
    let mut planted = HashSet::new();
    for (n, ten) in (0..1000).collect::<Vec<usize>>().chunks(10).enumerate() {
        let texts: Vec<String> =
            ten.iter().map(|n| spelt(SPELLINGS[n % SPELLINGS.len()], &password(*n))).collect();
        let text = texts.join("\n");
        match n % 4 {
            0 => drop(agent.execute("write_file", &json!({"path": "out.txt", "content": text}))),
            1 => drop(agent.execute("read_file", &json!({"path": "out.txt", "note": text}))),
            2 => ten.iter().for_each(|n| drop(agent.execute("read_file", &named(*n)))),
            3 if n % 8 == 3 => drop(agent.execute("read_file", &json!({"path": text}))),
            _ => texts.iter().for_each(|text| drop(agent.execute("read_file", &json!({"path": text})))),
        }
        planted.extend(ten.iter().map(|n| password(*n)));
    }
    planted
}

fn is_planted(rest: &str, planted: &HashSet<String>) -> bool {
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    planted.contains(&format!("hunter{}", &rest[..end]))
}

fn check(captured: bool) {
    let collector = Collector::start();
    let home = Home::initialised();
    if captured {
        capture_content(&home);
    }
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace"), collector.variable()]);
    let planted = plant(&mut daemon.agent());
    assert_eq!(planted.len(), 1000);
    let mut kept = daemon.log();
    let home = daemon.stop();
    for words in [&["ledger", "tail", "-n", "2000"][..], &["ledger", "export"], &["logs", "--json"]] {
        kept += &home.run(words).must_exit(0).to_string();
    }
    kept += &String::from_utf8_lossy(&collector.received().everything());
    for file in ["state/ledger", "log"].map(|folder| std::fs::read_dir(home.root().join(folder)).unwrap()) {
        for path in file.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            kept += &String::from_utf8_lossy(&std::fs::read(path).unwrap());
        }
    }
    assert!(kept.contains("tool_call_started") && kept.contains("read_file"), "it was really written");
    assert_eq!(
        kept.contains("gen_ai.tool.call.arguments"),
        captured,
        "content is captured as it was asked for"
    );
    // All planted passwords share a prefix, so that one pass over the text is enough.
    let leaked =
        kept.lines().filter(|line| line.split("hunter").skip(1).any(|rest| is_planted(rest, &planted)));
    let leaked: Vec<&str> = leaked.take(5).collect();
    assert!(leaked.is_empty(), "{leaked:#?}");
}

#[test]
fn captured_content_stores_none_of_a_thousand_passwords() {
    check(true);
}

#[test]
fn a_thousand_passwords_are_stored_nowhere_by_default() {
    check(false);
}
