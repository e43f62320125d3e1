//! Secrets known by the name they are given: `password=…`, `"api_key": "…"`, `--token …`.
//!
//! Works on text, in whatever syntax: shell, YAML, JSON and JSON quoted inside JSON. It does not parse any of them.

use std::sync::LazyLock;

use regex::Regex;

use super::detectors::not_a_marker;
use super::sensitive::{self, Sensitivity};
use super::{Compiled, Span};

pub(super) const NAME: &str = "assignment";

/// One of these is in every name looked for.
pub(super) const NEEDLES: [&str; 29] = [
    "password",
    "passwd",
    "passphrase",
    "pwd",
    "secret",
    "token",
    "credential",
    "api_key",
    "api-key",
    "api key",
    "apikey",
    "private_key",
    "private-key",
    "privatekey",
    "access_key",
    "access-key",
    "accesskey",
    "signing_key",
    "signing-key",
    "signingkey",
    "encryption_key",
    "encryption-key",
    "encryptionkey",
    "master_key",
    "master-key",
    "masterkey",
    "auth_key",
    "auth-key",
    "authkey",
];

/// Groups: 1 the name, then the value by the way it is quoted: escaped, double, single, backtick, bare.
const ASSIGNED: &str = r#"(?ix)
    ([a-z0-9_.\-]* (?: pass(?:word|wd|phrase) | pwd | secret | token | credential
        | (?: api | private | access | signing | encryption | master | auth ) [_\-\x20]? key ) [a-z0-9_.\-]*)
    (?: \\* ["'`] )? \]? [\ \t]* (?: := | => | == | [:=] ) [\ \t]*
    (?: \\+ ["'] ( [^"']*? ) \\+ ["']
      | " ( (?: [^"\\] | \\ (?s:.) )* )
      | ' ( (?: [^'\\] | \\ (?s:.) )* )
      | ` ( [^`]* )
      | (?: (?: bearer | basic | token ) [\ \t]+ )? ( [^\s"'`,;&<>(){}\\]+ ) )"#;

/// Groups: 1 the name, 2 the value that follows the flag as its own word.
const FLAG: &str = r#"(?i)(?:^|[\s"']|\\[nrt])--?([a-z0-9_-]*(?:pass(?:word|wd|phrase)|pwd|secret|token|credential|(?:api|private|access|auth)[_-]?key)[a-z0-9_-]*)[ \t]+["']?([^\s"'-][^\s"']*)"#;

struct Patterns {
    assigned: Option<Regex>,
    flag: Option<Regex>,
}

static PATTERNS: LazyLock<Patterns> =
    LazyLock::new(|| Patterns { assigned: Regex::new(ASSIGNED).ok(), flag: Regex::new(FLAG).ok() });

/// Adds what is found in `text` to `spans`.
pub(super) fn find(text: &str, compiled: Compiled, spans: &mut Vec<Span>) {
    for regex in [&PATTERNS.assigned, &PATTERNS.flag].into_iter().flatten() {
        // A step of one from the end of the name, not of the value: a value may hold the next name.
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|_| regex.captures_at(text, from)) {
            let Some(name) = found.get(1) else { break };
            let bare = found.get(6).is_some() || regex.captures_len() == 3;
            if let Some(value) = found.iter().skip(2).flatten().next()
                && !is_user_of_url(text, name.start())
                && is_secret(name.as_str(), value.as_str(), bare)
            {
                spans.push(Span { start: value.start(), end: value.end(), detector: compiled });
                from = value.end().max(name.end());
            } else {
                from = name.end();
            }
        }
    }
}

/// `https://x-access-token:…@host` is a URL with credentials, which keeps its host.
fn is_user_of_url(text: &str, start: usize) -> bool {
    text.get(..start).is_some_and(|before| before.ends_with("://"))
}

fn is_secret(name: &str, value: &str, bare: bool) -> bool {
    let Some(sensitivity) = sensitive::sensitivity(name) else { return false };
    if sensitive::is_placeholder(value) || !not_a_marker(value) || !value.chars().any(char::is_alphanumeric) {
        return false;
    }
    let number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'_');
    match sensitivity {
        Sensitivity::Certain => true,
        Sensitivity::UnlessNumber => !number && (!bare || telling(value)),
        Sensitivity::Likely if number => value.len() >= 6,
        Sensitivity::Likely => !bare || telling(value),
    }
}

/// A bare word after `token:` is a secret if it has a digit or is longer than words are.
fn telling(value: &str) -> bool {
    value.len() >= 16 || (value.len() >= 6 && value.bytes().any(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_patterns_compile() {
        assert!(PATTERNS.assigned.is_some() && PATTERNS.flag.is_some());
    }
}
