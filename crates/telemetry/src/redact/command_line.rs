//! Secrets of a command line, found by their position: the value of a password-like flag, the flags under which known
//! programs take a password, and words that look random.
//!
//! A command line needs no evidence besides the position, because hiding a harmless word of a record costs little.

use std::ops::Range;

use serde_json::Value;

use super::detectors::is_not_marker;
use super::sensitive::{self, Sensitivity};

const MARKER: &str = "[redacted:argument]";

/// Members of decision facts and arguments that hold command lines: lists of words, lines, or lists of both.
pub(super) const COMMAND_MEMBERS: [&str; 4] = ["command", "commands", "argv", "shell"];

/// Levels of lines within words, such as `sh -c '…'`, that are searched.
pub(super) const MAX_NESTING: usize = 3;

/// Length from which a word may look random.
const RANDOM_LENGTH: usize = 20;

/// Form in which a program takes the value of a flag.
#[derive(Clone, Copy, PartialEq)]
enum FlagForm {
    /// Only in the same word: `-psecret`. The word after the flag has another meaning.
    Attached,
    /// In the same word or in the next one.
    Either,
    /// Only in the next word; the flag has several letters.
    Separate,
}

/// Flags under which programs take a password, by the name of the program.
const PASSWORD_FLAGS: &[(&[&str], &str, FlagForm)] = &[
    (
        &["mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "mariadb-dump"],
        "-p",
        FlagForm::Attached,
    ),
    (&["7z", "7za", "7zr", "7zz", "rar", "unrar"], "-p", FlagForm::Attached),
    (&["sshpass", "docker", "podman", "nerdctl", "helm", "buildah", "oras", "az"], "-p", FlagForm::Either),
    (
        &["mongo", "mongosh", "mongodump", "mongorestore", "cqlsh", "rdesktop", "influx"],
        "-p",
        FlagForm::Either,
    ),
    (
        &["zip", "unzip", "sqlcmd", "bcp", "ipmitool", "mosquitto_pub", "mosquitto_sub"],
        "-P",
        FlagForm::Either,
    ),
    (&["ssh-keygen"], "-P", FlagForm::Either),
    (&["ssh-keygen"], "-N", FlagForm::Either),
    (&["redis-cli", "valkey-cli"], "-a", FlagForm::Either),
    (
        &["ldapsearch", "ldapmodify", "ldapadd", "ldapdelete", "ldapwhoami", "ldappasswd"],
        "-w",
        FlagForm::Either,
    ),
    (&["ldappasswd"], "-s", FlagForm::Either),
    (&["snmpget", "snmpwalk", "snmpset"], "-A", FlagForm::Either),
    (&["snmpget", "snmpwalk", "snmpset"], "-X", FlagForm::Either),
    (&["keytool", "jarsigner"], "-storepass", FlagForm::Separate),
    (&["keytool", "jarsigner"], "-keypass", FlagForm::Separate),
    (&["openssl"], "-k", FlagForm::Separate),
    (&["openssl"], "-passin", FlagForm::Separate),
    (&["openssl"], "-passout", FlagForm::Separate),
    (&["curl"], "-u", FlagForm::Either),
    (&["curl"], "-U", FlagForm::Either),
    (&["smbclient"], "-U", FlagForm::Either),
];

/// Redacts a member that holds command lines.
pub(super) fn redact_commands(value: Value) -> Value {
    match value {
        Value::String(line) => Value::String(redact_line(&line, MAX_NESTING)),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let argv: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            redact_argv(&argv, MAX_NESTING).into_iter().map(Value::String).collect()
        }
        Value::Array(items) => items.into_iter().map(redact_commands).collect(),
        other => other,
    }
}

/// Redacts the words of one command.
fn redact_argv(argv: &[&str], nesting: usize) -> Vec<String> {
    let mut programs: Vec<&str> = Vec::new();
    let mut is_value_next = false;
    let mut redacted = Vec::with_capacity(argv.len());
    for (index, word) in argv.iter().copied().enumerate() {
        let is_value = std::mem::take(&mut is_value_next) && !word.starts_with("--");
        let secret = if is_value { Some(0..word.len()) } else { attached_secret(word, &programs) };
        let secret = secret.filter(|range| word.get(range.clone()).is_some_and(is_hideable));
        redacted.push(match secret {
            Some(range) => replace(word, range),
            None if word.contains(char::is_whitespace) => redact_line(word, nesting.saturating_sub(1)),
            None => hide_random(word),
        });
        let after_set = index.checked_sub(1).and_then(|before| argv.get(before)) == Some(&"set");
        is_value_next = !is_value && announces_secret(word, &programs, after_set);
        // A program may be started by another one, as in `sudo mysql`.
        programs.push(word.rsplit('/').next().unwrap_or(word));
    }
    redacted
}

/// Redacts a line of a shell. Its words are found by spaces, quotes and operators; nothing is expanded.
pub(super) fn redact_line(line: &str, nesting: usize) -> String {
    if nesting == 0 {
        return MARKER.to_owned();
    }
    let (mut redacted, mut copied) = (String::with_capacity(line.len()), 0);
    for command in split_commands(line) {
        let argv: Vec<&str> = command.iter().filter_map(|range| line.get(range.clone())).collect();
        for (range, word) in command.iter().zip(redact_argv(&argv, nesting)) {
            redacted.push_str(line.get(copied..range.start).unwrap_or_default());
            redacted.push_str(&word);
            copied = range.end;
        }
    }
    redacted.push_str(line.get(copied..).unwrap_or_default());
    redacted
}

/// Returns the ranges of the words of each command of a line, without their outer quotes.
fn split_commands(line: &str) -> Vec<Vec<Range<usize>>> {
    let (mut commands, mut word_ranges) = (Vec::new(), Vec::new());
    let (mut start, mut quote) = (None, None);
    for (at, character) in line.char_indices() {
        match (quote, character) {
            (Some(open), _) if character == open => {
                quote = None;
                word_ranges.extend(start.take().map(|start| start..at));
            }
            (Some(_), _) => {}
            (None, '"' | '\'') => {
                word_ranges.extend(start.take().filter(|start| *start < at).map(|start| start..at));
                (start, quote) = (Some(at + 1), Some(character));
            }
            (None, '|' | ';' | '&' | '\n' | '(' | ')' | '`') => {
                word_ranges.extend(start.take().map(|start| start..at));
                commands.push(std::mem::take(&mut word_ranges));
            }
            (None, _) if character.is_whitespace() => word_ranges.extend(start.take().map(|start| start..at)),
            (None, _) => start = start.or(Some(at)),
        }
    }
    word_ranges.extend(start.map(|start| start..line.len()));
    commands.push(word_ranges);
    commands
}

/// Returns the secret that a word contains beside the name or flag that identifies it.
fn attached_secret(word: &str, programs: &[&str]) -> Option<Range<usize>> {
    if let Some((name, value)) = word.split_once('=')
        && is_secret_name(name, value)
    {
        return Some(name.len() + 1..word.len());
    }
    let forms = flags_of(programs).filter(|(_, form)| *form != FlagForm::Separate);
    let mut attached = forms.filter(|(flag, _)| word.len() > flag.len() && word.starts_with(flag));
    attached.next().map(|(flag, _)| flag.len()..word.len())
}

/// Returns true if the word after this one is a secret.
fn announces_secret(word: &str, programs: &[&str], after_set: bool) -> bool {
    let is_flag = word.starts_with('-') && !word.contains(['=', ' ']);
    // `password=` and a quoted value are two words of a line.
    let assigned = word.strip_suffix('=').is_some_and(|name| is_secret_name(name, ""));
    let named = (is_flag || after_set) && is_secret_name(word, "");
    let listed = || flags_of(programs).any(|(flag, form)| form != FlagForm::Attached && word == flag);
    assigned || named || listed()
}

fn flags_of<'a>(programs: &'a [&str]) -> impl Iterator<Item = (&'static str, FlagForm)> + 'a {
    let of_program = |(names, ..): &&(&[&str], _, _)| programs.iter().any(|program| names.contains(program));
    PASSWORD_FLAGS.iter().filter(of_program).map(|(_, flag, form)| (*flag, *form))
}

/// Returns true if a value under this name is a secret. A number under a name such as `max-tokens` is none.
fn is_secret_name(name: &str, value: &str) -> bool {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    match sensitive::sensitivity(name) {
        Some(Sensitivity::Certain | Sensitivity::Likely) => true,
        Some(Sensitivity::UnlessNumber) => !is_number && !name.to_ascii_lowercase().contains("tokens"),
        None => false,
    }
}

fn is_hideable(value: &str) -> bool {
    !value.is_empty() && !sensitive::is_placeholder(value) && is_not_marker(value)
}

fn replace(word: &str, range: Range<usize>) -> String {
    let (before, after) = (word.get(..range.start), word.get(range.end..));
    format!("{}{MARKER}{}", before.unwrap_or_default(), after.unwrap_or_default())
}

/// Hides the parts of a word that look random.
fn hide_random(word: &str) -> String {
    if word.len() < RANDOM_LENGTH || word.contains("[redacted:") {
        return word.to_owned();
    }
    let is_part = |character: char| character.is_ascii_alphanumeric() || "+_~-".contains(character);
    let mut redacted = String::with_capacity(word.len());
    for piece in word.split_inclusive(|character| !is_part(character)) {
        let part = piece.trim_end_matches(|character| !is_part(character));
        let is_random = part.split(|character: char| !character.is_ascii_alphanumeric()).any(looks_random);
        redacted.push_str(if is_random { "[redacted:random]" } else { part });
        redacted.push_str(piece.get(part.len()..).unwrap_or_default());
    }
    redacted
}

/// Returns true for letters and digits that alternate as often as in a key. In a name, words stay together. Object ids
/// of git and SHA-256 digests are no secrets.
fn looks_random(run: &str) -> bool {
    let class = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
    let bytes = run.as_bytes();
    let is_digest = [40, 64].contains(&run.len()) && bytes.iter().all(u8::is_ascii_hexdigit);
    // A capital before a small letter starts a word of a name.
    let is_change = |(one, next): &(&u8, &u8)| {
        class(one) != class(next) && !(one.is_ascii_uppercase() && next.is_ascii_lowercase())
    };
    let changes = bytes.iter().zip(bytes.iter().skip(1)).filter(is_change).count();
    let has_both = bytes.iter().any(u8::is_ascii_digit) && bytes.iter().any(u8::is_ascii_alphabetic);
    run.len() >= RANDOM_LENGTH && has_both && !is_digest && changes * 4 >= run.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::redact::Redactor;

    fn check(command: &Value, expect: &Value) {
        let redactor = Redactor::built_in();
        let facts = json!({"commands": [command]});
        assert_eq!(redactor.redact_value(&facts)["commands"][0], *expect);
        assert_eq!(redactor.redact_owned(facts)["commands"][0], *expect);
    }

    #[test]
    fn secrets_of_a_command_are_found_by_position() {
        let m = MARKER;
        for (words, secret) in [
            (vec!["deploy", "--token=swordfish"], "swordfish"),
            (vec!["deploy", "--auth-token", "swordfish"], "swordfish"),
            (vec!["deploy", "--password", "swordfish", "x"], "swordfish"),
            (vec!["deploy", "-passphrase=swordfish"], "swordfish"),
            (vec!["sudo", "mysql", "-pswordfish", "db"], "swordfish"),
            (vec!["docker", "login", "-p", "swordfish"], "swordfish"),
            (vec!["/usr/bin/7z", "x", "-pswordfish", "a.7z"], "swordfish"),
            (vec!["unzip", "-P", "swordfish", "a.zip"], "swordfish"),
            (vec!["ldapsearch", "-x", "-w", "swordfish"], "swordfish"),
            (vec!["ssh-keygen", "-N", "swordfish"], "swordfish"),
            (vec!["keytool", "-storepass", "swordfish"], "swordfish"),
            (vec!["aws", "configure", "set", "aws_secret_access_key", "swordfish"], "swordfish"),
            (vec!["env", "API_TOKEN=swordfish", "x"], "swordfish"),
            (
                vec!["sh", "-c", "tool --token swordfish | mysql -pswordfish; API_TOKEN='swordfish' x"],
                "swordfish",
            ),
            (vec!["tool", "k3J9xQ2mZ7pL4vB8nR5t"], "k3J9xQ2mZ7pL4vB8nR5t"),
            (vec!["tool", "https://h/k3J9xQ2mZ7pL4vB8nR5t/x"], "k3J9xQ2mZ7pL4vB8nR5t"),
            (vec!["tool", "9f86d081884c7d659a2feaa0c55ad015"], "9f86d081884c7d659a2feaa0c55ad015"),
        ] {
            let redacted = Redactor::built_in().redact_value(&json!({"commands": [words]}));
            assert!(!redacted.to_string().contains(secret), "{redacted}");
            let line = Redactor::built_in().redact_value(&json!({"commands": [words.join(" ")]}));
            assert!(!line.to_string().contains(secret), "{line}");
        }
        check(&json!(["deploy", "--token=swordfish", "x"]), &json!(["deploy", format!("--token={m}"), "x"]));
        check(&json!("a 'b c' | 7z x -phunter a.7z"), &json!(format!("a 'b c' | 7z x -p{m} a.7z")));
    }

    #[test]
    fn ordinary_command_lines_stay_readable() {
        for words in [
            vec!["git", "show", "3f786850e387550fdab836ed7e6dc881de23001b"],
            vec!["cargo", "test", "-p", "governance", "--", "secret_locations"],
            vec!["llm", "--max-tokens=4096"],
            vec!["python3", "-m", "pytest", "tests/test_refresh.py::TestRefreshOfSessions2"],
            vec!["grep", "-rn", "password", "src/main.rs"],
            vec!["mkdir", "-p", "src/a/b"],
            vec!["ls", "/usr/lib/x86_64-linux-gnu/AssertionErrorTest1WhenFoo2"],
            vec!["kill", "123e4567-e89b-12d3-a456-426614174000"],
        ] {
            check(&json!(words), &json!(words));
        }
    }
}
