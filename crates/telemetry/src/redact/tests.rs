//! Detectors on their samples and on a thousand planted secrets.

mod samples;

use std::borrow::Cow;

use serde_json::{Value, json};

use super::*;
use samples::{ASSIGNMENTS, CLOUD, FORGES, HARMLESS, HEADERS_AND_URLS, PEM_BLOCKS, SERVICES};

fn parse(sample: &str) -> (String, String) {
    let (mut text, mut expected) = (String::new(), String::new());
    let mut rest = sample.replace('¦', "");
    while let Some((before, after)) = rest.clone().split_once('⟦') {
        let (name, after) = after.split_once('⟧').unwrap();
        let (secret, after) = after.split_once("⟦⟧").unwrap();
        text.extend([before, secret]);
        expected.push_str(&format!("{before}[redacted:{name}]"));
        rest = after.to_owned();
    }
    (text + &rest, expected + &rest)
}

#[test]
fn every_sample_is_redacted_as_marked() {
    let redactor = Redactor::built_in();
    let groups = [CLOUD, FORGES, SERVICES, HEADERS_AND_URLS, ASSIGNMENTS, PEM_BLOCKS, HARMLESS];
    assert!(groups.iter().map(|group| group.len()).sum::<usize>() >= 200);
    let mut wrong = Vec::new();
    for sample in groups.into_iter().flatten() {
        let (text, expected) = parse(sample);
        let found = redactor.redact_text(&text);
        if found != expected {
            wrong.push(format!("{text:?}\n  wanted {expected:?}\n  got    {found:?}"));
        }
        assert_eq!(redactor.redact_text(&found), found, "redaction must be idempotent: {text:?}");
    }
    assert!(wrong.is_empty(), "{} samples:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_built_in_detector_compiles_and_has_a_sample() {
    assert!(BUILT_IN_DETECTORS.prefilter.is_some());
    let samples = [CLOUD, FORGES, SERVICES, HEADERS_AND_URLS, ASSIGNMENTS, PEM_BLOCKS].concat().concat();
    for (row, pattern) in BUILT_IN.iter().zip(&BUILT_IN_DETECTORS.patterns) {
        let pattern = pattern.get_or_init(|| Regex::new(row.pattern).ok());
        assert!(pattern.is_some(), "{} does not compile", row.name);
        assert!(samples.contains(&format!("⟦{}⟧", row.name)), "{} has no sample", row.name);
    }
}

#[test]
fn clean_text_is_borrowed() {
    let redactor = Redactor::built_in();
    assert!(matches!(redactor.redact_text("nothing to see"), Cow::Borrowed(_)));
}

#[test]
fn configured_patterns_are_applied() {
    let pattern = |name: &str, pattern: &str, action| SecretPattern {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        action,
    };
    let redactor = Redactor::new(vec![
        pattern("badge", r"B-\d{4}", SecretPatternAction::Redact),
        pattern("e_mail", r"[a-z]+@[a-z.]+", SecretPatternAction::Warn),
        pattern("launch_code", "(?i)launch-[0-9a-f]+", SecretPatternAction::Block),
    ])
    .unwrap();
    assert_eq!(
        redactor.redact_text("B-1234 a@b.c LAUNCH-ff"),
        "[redacted:badge] a@b.c [redacted:launch_code]"
    );
    assert_eq!(redactor.first_blocking_pattern("x launch-0a"), Some("launch_code"));
    assert_eq!(redactor.first_blocking_pattern("B-1234 a@b.c"), None);
    assert_eq!(redactor.first_warning_pattern("a@b.c"), Some("e_mail"));
    assert_eq!(redactor.first_warning_pattern("B-1234"), None);
    for (name, text, message) in [
        ("Bad Name", "x", "a-z, 0-9 and _"),
        ("", "x", "a-z, 0-9 and _"),
        ("open", "(", "unclosed group"),
        ("empty", "x*", "empty text"),
        ("huge", "(?:a{500}){500}", "size limit"),
        ("look", "(?<=a)b", "look-around"),
    ] {
        let error =
            Redactor::new(vec![pattern(name, text, SecretPatternAction::Redact)]).unwrap_err().to_string();
        assert!(error.contains(message) && error.contains(&format!("`{name}`")), "{error}");
    }
}

/// Patterns that a search over several texts at once would miss or match elsewhere.
/// Redacts a value that is given as text.
fn as_json_text(redactor: &Redactor, value: &Value) -> Value {
    serde_json::from_str(&redactor.redact_json(value.to_string())).unwrap()
}

#[test]
fn owned_redaction_applies_every_pattern() {
    let pattern = |pattern: &str| SecretPattern {
        name: "mine".to_owned(),
        pattern: pattern.to_owned(),
        action: SecretPatternAction::Redact,
    };
    for text in
        ["st\"art", "\\nstart", "^start$", "start\\z", "(?m)^start", r"\bstart\b", "[a-z]{5}", "(?s)s.*t"]
    {
        let redactor = Redactor::new(vec![pattern(text)]).unwrap();
        for value in [
            json!({"a": "x", "b": ["start", 1]}),
            json!({"start": 1}),
            json!(["restarted", "astart"]),
            json!(["st\"art", "\nstart"]),
        ] {
            let expected = redactor.redact_value(&value);
            assert_eq!(redactor.redact_owned(value.clone()), expected, "{text}: {value}");
            assert_eq!(as_json_text(&redactor, &value), expected, "{text}: {value} as text");
        }
    }
}

#[test]
fn json_is_redacted_by_name_and_by_shape() {
    let redactor = Redactor::built_in();
    let marker = "[redacted:sensitive_key]";
    let check = |given: Value, expected: Value| {
        assert_eq!(redactor.redact_value(&given), expected, "{given}");
        assert_eq!(redactor.redact_owned(given.clone()), expected, "given away: {given}");
        assert_eq!(as_json_text(&redactor, &given), expected, "as text: {given}");
    };
    check(json!({"password": "x", "user": "ada"}), json!({"password": marker, "user": "ada"}));
    check(json!({"Api-Key": 12345, "max_tokens": 4096}), json!({"Api-Key": marker, "max_tokens": 4096}));
    check(
        json!({"credentials": {"user": "ada", "pin": 1234, "on": true, "list": ["a", null]}}),
        json!({"credentials": {"user": marker, "pin": marker, "on": true, "list": [marker, null]}}),
    );
    check(
        json!({"headers": [{"name": "Authorization", "value": "x"}, {"name": "Accept", "value": "*/*"}]}),
        json!({"headers": [{"name": "Authorization", "value": marker}, {"name": "Accept", "value": "*/*"}]}),
    );
    check(
        json!({"env": [["DB_PASSWORD", "x"], ["HOME", "/"]]}),
        json!({"env": [["DB_PASSWORD", marker], ["HOME", "/"]]}),
    );
    check(
        json!({"argv": ["psql", "--password", "x", "--host", "y"]}),
        json!({"argv": ["psql", "--password", marker, "--host", "y"]}),
    );
    check(
        json!({"argv": ["psql", "--password=x"]}),
        json!({"argv": ["psql", "--password=[redacted:assignment]"]}),
    );
    check(
        json!({"argv": ["/usr/bin/curl", "-s", "-u", "ada:hunter2", "https://example.org/"]}),
        json!({"argv": ["/usr/bin/curl", "-s", "-u", marker, "https://example.org/"]}),
    );
    check(json!(["mysql", "-phunter2", "shop"]), json!(["mysql", marker, "shop"]));
    check(
        json!({"Mot de passe": "x", "пароль": {"новый": "y"}, "db_pass": "z", "bypass": "on"}),
        json!({"Mot de passe": marker, "пароль": {"новый": marker}, "db_pass": marker, "bypass": "on"}),
    );
    // A name that no text detector covers.
    check(json!({"shared key": "x", "key": "y"}), json!({"shared key": marker, "key": "y"}));
    check(json!({"password": "", "token": null}), json!({"password": "", "token": null}));
    check(json!({"token": 7, "token_pin": 123456}), json!({"token": 7, "token_pin": marker}));
    check(
        json!({"hf_abcdefghijklmnopqrstuvwxyzABCDEFGH": 1, "hf_abcdefghijklmnopqrstuvwxyzABCDEFGI": 2}),
        json!({"[redacted:huggingface_token]": 1, "[redacted:huggingface_token]#1": 2}),
    );
    check(json!([1, 1.5, true, null, "plain"]), json!([1, 1.5, true, null, "plain"]));
}

/// Seeded pseudo-random generator, so that a failure can be reproduced.
struct SecretRng(u64);

impl SecretRng {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn text(&mut self, alphabet: &str, length: usize) -> String {
        let letters: Vec<char> = alphabet.chars().collect();
        (0..length).map(|_| letters[self.below(letters.len())]).collect()
    }
}

const ALNUM: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// Returns a text with a secret, and the part that must be removed.
fn text_with_secret(random: &mut SecretRng) -> (String, String) {
    let shape = random.below(21);
    let length = 36 + random.below(30);
    let body = random.text(ALNUM, length);
    let whole = |secret: String| (secret.clone(), secret);
    match shape {
        0 => whole(format!("gh{}_{body}", random.text("pousr", 1))),
        1 => whole(format!("github_pat_{body}")),
        2 => whole(format!("glpat-{}", &body[..20])),
        3 => whole(format!("xox{}-{body}", random.text("bpars", 1))),
        4 => whole(format!("sk_live_{body}")),
        5 => whole(format!("sk-{body}")),
        6 => whole(format!("sk-proj-{body}")),
        7 => whole(format!("sk-ant-api03-{body}")),
        8 => whole(format!("AIza{}", &body[..35])),
        9 => whole(format!("hf_{body}")),
        10 => whole(format!("npm_{body}")),
        11 => whole(format!("pypi-AgEIcHlwaS5vcmc{body}")),
        12 => whole(format!("AKIA{}", random.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16))),
        13 => whole(format!("eyJhbGciOiJIUzI1NiJ9.eyJ{body}.{body}")),
        14 => (format!("Authorization: Bearer {body}"), body),
        15 => (format!("https://ada:{body}@example.org/x"), body),
        16 => (format!("-----BEGIN PRIVATE KEY-----\n{body}\n{body}\n-----END PRIVATE KEY-----"), body),
        17 => (format!("export DB_PASSWORD='{body}' # do not tell"), body),
        18 => (format!("api_key={body}&x=1"), body),
        19 => (format!("AccountKey={body}{body}=="), body),
        _ => (json!({"client_secret": body, "note": "nested text"}).to_string(), body),
    }
}

/// Wraps a text in objects, arrays, keys and sentences.
fn wrap_in_json(random: &mut SecretRng, text: String, depth: usize) -> Value {
    let text = match random.below(4) {
        0 => format!("before {text} after"),
        1 => format!("\u{e9}\n{text}\n\u{2028}"),
        _ => text,
    };
    let mut value = match random.below(6) {
        0 => json!({ text: "as a key" }),
        1 => json!(json!({ "inner": text }).to_string()),
        _ => json!(text),
    };
    for _ in 0..depth {
        value = match random.below(3) {
            0 => json!({"list": [1, value, "x"], "n": 1}),
            1 => json!({"a": {"b": value}}),
            _ => json!([value, {"plain": "text"}]),
        };
    }
    value
}

#[test]
fn none_of_a_thousand_planted_secrets_survives() {
    let redactor = Redactor::built_in();
    for seed in 1..=1000_u64 {
        let mut random = SecretRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (text, secret) = text_with_secret(&mut random);
        let depth = random.below(6);
        let value = wrap_in_json(&mut random, text, depth);
        assert!(value.to_string().contains(&secret), "the test must plant it: {value}");
        let clean = redactor.redact_value(&value);
        assert!(!clean.to_string().contains(&secret), "seed {seed}: {secret} survives in {clean}");
        assert_eq!(
            as_json_text(&redactor, &value),
            clean,
            "seed {seed}: redaction of text gives the same result"
        );
        assert_eq!(redactor.redact_owned(value), clean, "seed {seed}: owned redaction gives the same result");
        assert_eq!(redactor.redact_value(&clean), clean, "seed {seed}: redaction is idempotent");
    }
}

#[test]
fn hostile_text_takes_linear_time() {
    let redactor = Redactor::built_in();
    for unit in [
        "token=",
        "eyJ",
        "://",
        "password=\\\"",
        "-----BEGIN PRIVATE KEY-----",
        "a@",
        "sk-",
        "cookie:",
        "tokens=1 ",
        "<password>",
        "password is ",
        "password: |\n -",
        "password:\n ",
        "curl -u a ",
        "mysql -p",
    ] {
        let text = unit.repeat(60_000 / unit.len());
        let started = std::time::Instant::now();
        let _ = redactor.redact_text(&text);
        // Quadratic time would be minutes; an unoptimised build of the linear one stays far below.
        assert!(started.elapsed().as_secs() < 10, "{unit:?} took {:?}", started.elapsed());
    }
}

#[test]
fn secret_names_are_unique_and_found_by_shape_only() {
    let pattern = |name: &str, pattern: &str, action| SecretPattern {
        name: name.to_owned(),
        pattern: pattern.to_owned(),
        action,
    };
    let redactor = Redactor::new(vec![
        pattern("badge", "BADGE-[0-9]{4}", SecretPatternAction::Block),
        pattern("pin", "PIN-[0-9]{4}", SecretPatternAction::Redact),
        pattern("room", "ROOM-[0-9]{2}", SecretPatternAction::Warn),
    ])
    .unwrap();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let check = |text: &str, names: &[&str]| assert_eq!(redactor.secret_names(text), names, "{text}");
    check("", &[]);
    check("let token = 5; password: hunter2hunter2", &[]);
    check(&format!("x {token} y {token}"), &["github_token"]);
    check("BADGE-1234 and PIN-1234 in ROOM-12, PIN-4321", &["badge", "pin", "room"]);
    check(&format!("password={token} ROOM-12"), &["github_token", "room"]);
}
