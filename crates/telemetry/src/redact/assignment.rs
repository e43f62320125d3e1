//! Detector for secrets identified by the name they are assigned to (`password=…`, `"api_key": "…"`, `--token
//! …`), or by the position where a program expects one (`curl -u ada:…`).
//!
//! It works on text in any syntax: shell, YAML, XML, JSON and JSON quoted inside JSON. It parses none of
//! them.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use super::detectors::is_not_marker;
use super::sensitive::{self, Sensitivity};
use super::{DetectorId, SecretSpan};

pub(super) const NAME: &str = "assignment";

/// Literals that select a text for this detector, together with the foreign words for a password.
pub(super) const NEEDLES: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "de passe",
    "de_passe",
    "de-passe",
    "depasse",
    "pass=",
    "pass:",
    "pass\"",
    "pass'",
    "pass\\",
    "-pass ",
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
    "identified",
    "curl",
    "wget",
    "sshpass",
    "mysql",
    "mariadb",
    "redis-cli",
];

/// Words for a password in several languages.
const PASSWORD_WORDS: &str = r"pass(?:word|wd|phrase|code|wort)|pwd|kennwort|wachtwoord|contrase[ñn]a|mot[_\-\x20]?de[_\-\x20]?passe|senha|lösenord|hasło|пароль|密[码碼]|パスワード|비밀번호";
/// Other words that identify a secret.
const OTHER_SECRET_WORDS: &str =
    r"pass|secret|token|credential|(?:api|private|access|signing|encryption|master|auth)[_\-\x20]?key";

/// Context of a value, which decides how much evidence is needed besides its name.
#[derive(Clone, Copy, PartialEq)]
enum ValueContext {
    /// In quotes or between tags.
    Quoted,
    /// A bare word: if the name is only `Likely`, the value must look like a secret.
    Bare,
    /// In a sentence: the value must look like a secret, independently of its name.
    InSentence,
    /// In the position where a program expects its password: there is no name to check.
    Positional,
}

/// Syntax of a secret. Group 1 is the name or its substitute; the first matching group after it is the value.
struct AssignmentSyntax {
    /// Regular expression in which `{P}` is replaced by the words for a password, `{O}` by the others.
    pattern: &'static str,
    context: ContextOfGroup,
}

/// Context of a value, by the number of its group.
type ContextOfGroup = fn(usize) -> ValueContext;

const SYNTAXES: [AssignmentSyntax; 10] = [
    // Escaped, double-quoted, single-quoted, backticks, bare. The next syntax covers bare values at the start
    // of a line, which may contain separators.
    AssignmentSyntax {
        pattern: r#"(?x)
            ([a-z0-9_.\-]* (?: {P} | {O} ) [a-z0-9_.\-]*)
            (?: \\* ["'`] )? \]? [\ \t]* (?: := | => | == | [:=：＝] ) [\ \t]*
            (?: \\+ ["'] ( [^"']*? ) \\+ ["']
              | " ( (?: [^"\\] | \\ (?s:.) )* )
              | ' ( (?: [^'\\] | \\ (?s:.) )* )
              | ` ( [^`]* )
              | (?: (?: bearer | basic | token ) [\ \t]+ )? ( [^\s"'`,;&<>(){}\\]+ ) )"#,
        context: |group| if group == 6 { ValueContext::Bare } else { ValueContext::Quoted },
    },
    AssignmentSyntax {
        pattern: r#"(?m)^[ \t]*(?:-[ \t]+|export[ \t]+)?([a-z0-9_.\-]*(?:{P})[a-z0-9_.\-]*)[ \t]*[=:][ \t]*([^\s"'`\\]+)"#,
        context: |_| ValueContext::Bare,
    },
    // A flag and the word after it.
    AssignmentSyntax {
        pattern: r#"(?:^|[^a-z0-9_\-]|\\[nrt])--?([a-z0-9_-]*(?:{P}|{O})[a-z0-9_-]*)[ \t]+["']?([^\s"'`-][^\s"'`]*)"#,
        context: |_| ValueContext::Bare,
    },
    // `<password>…</password>`, and `key="password" value="…"`.
    AssignmentSyntax {
        pattern: r"<([a-z0-9_.:\-]*(?:{P}|{O})[a-z0-9_.\-]*)(?:\s[^<>]*)?>([^<]+)<",
        context: |_| ValueContext::Quoted,
    },
    AssignmentSyntax {
        pattern: r#"(?:\b|\\[nrt])(?:name|key|id)\s*=\s*\\*["']([a-z0-9_.\-]*(?:{P}|{O})[a-z0-9_.\-]*)\\*["']\s+(?:\w+\s*=\s*\\*["'][^"'<>]*["']\s+)?value\s*=\s*\\*["']([^"'\\]+)"#,
        context: |_| ValueContext::Quoted,
    },
    // A YAML block, and a value on the next line.
    AssignmentSyntax {
        pattern: r#"([a-z0-9_.\-]*(?:{P}|{O})[a-z0-9_.\-]*)["']?[ \t]*:[ \t]*[|>][+-]?[0-9]?[ \t]*(?:\r?\n|\\n)((?:[ \t]+[^\r\n\\"]*(?:\r?\n|\\n|\z)?)+)"#,
        context: |_| ValueContext::Quoted,
    },
    AssignmentSyntax {
        pattern: r#"(?m)([a-z0-9_.\-]*(?:{P})[a-z0-9_.\-]*)["']?[ \t]*[:=][ \t]*(?:\r?\n|\\n)[ \t]+["']?([^\s"':|>][^\s"':\\]*)["']?[ \t]*(?:$|\\n|\r)"#,
        context: |_| ValueContext::Bare,
    },
    // `ALTER USER ada PASSWORD '…'`, `login ada password …`, `the password is …`.
    AssignmentSyntax {
        pattern: r#"(?:\b|\\[nrt])({P}|identified(?:[ \t]+with[ \t]+\w+)?[ \t]+(?:by|as))[ \t]+\\*["']([^"'\\]+)|(?:\b|\\[nrt])login\s+\S+\s+{P}\s+(\S+)"#,
        context: |_| ValueContext::Positional,
    },
    AssignmentSyntax {
        pattern: r#"({P}|api[ _\-]?key)[ \t]+(?:is|was|to|will[ \t]+be)[ \t]*:?[ \t]+["'`]?([^\s"'`]+)"#,
        context: |_| ValueContext::InSentence,
    },
    // Programs that take a secret under a single-letter flag.
    AssignmentSyntax {
        pattern: r#"(?:\b|\\[nrt])(curl|wget|sshpass|mysql\w*|mariadb\S*|redis-cli)\b[^\r\n|;]*?[ \t](?:(?:-u|-U|--user|--proxy-user)[ \t=]*["']?[^\s:"'/]+:([^\s"']+)|-p([^\s"'-][^\s"']*)|-[pa][ \t]+["']?([^\s"'-][^\s"']*))"#,
        context: |_| ValueContext::Positional,
    },
];

static PATTERNS: LazyLock<Vec<(Regex, ContextOfGroup)>> = LazyLock::new(|| {
    let compile = |shape: &AssignmentSyntax| {
        let spelt =
            shape.pattern.replace("{P}", &format!("(?:{PASSWORD_WORDS})")).replace("{O}", OTHER_SECRET_WORDS);
        let regex = RegexBuilder::new(&spelt).case_insensitive(true).build().ok()?;
        Some((regex, shape.context))
    };
    SYNTAXES.iter().filter_map(compile).collect()
});

/// Returns true for a program that takes a secret in a position without a name.
pub(super) fn is_credential_program(word: &str) -> bool {
    let program = word.rsplit('/').next().unwrap_or(word);
    ["curl", "wget", "sshpass", "mysql", "mariadb", "redis-cli"].iter().any(|name| program.starts_with(name))
}

/// Adds the secrets found in `text` to `spans`.
pub(super) fn find(text: &str, compiled: DetectorId, spans: &mut Vec<SecretSpan>) {
    for (regex, context) in PATTERNS.iter() {
        // Continues after the name and not after the value if the value is no secret: it may contain the next
        // name.
        let mut from = 0;
        while let Some(found) = text.get(from..).and_then(|_| regex.captures_at(text, from)) {
            let name = found.get(1);
            let values = found.iter().enumerate().skip(2);
            let Some((group, value)) = values.filter_map(|(group, value)| Some((group, value?))).next()
            else {
                break;
            };
            let named = name.map_or(value.start(), |name| name.end());
            if !name.is_some_and(|name| is_url_user(text, name.start()))
                && is_secret(name.map_or("", |name| name.as_str()), value.as_str(), context(group))
            {
                spans.push(SecretSpan { start: value.start(), end: value.end(), detector: compiled });
                from = value.end().max(named);
            } else {
                from = named;
            }
        }
    }
}

/// Returns true for the user of a URL such as `https://x-access-token:…@host`; the detector of URL
/// credentials handles it and keeps the host.
fn is_url_user(text: &str, start: usize) -> bool {
    text.get(..start).is_some_and(|before| before.ends_with("://"))
}

fn is_secret(name: &str, value: &str, context: ValueContext) -> bool {
    if sensitive::is_placeholder(value) || !is_not_marker(value) || !value.chars().any(char::is_alphanumeric)
    {
        return false;
    }
    if context == ValueContext::Positional {
        return true;
    }
    let Some(sensitivity) = sensitive::sensitivity(name) else { return false };
    let number = value.bytes().all(|b| b.is_ascii_digit() || b == b'.' || b == b'_');
    match sensitivity {
        _ if context == ValueContext::InSentence => looks_like_secret(value),
        Sensitivity::Certain => true,
        Sensitivity::UnlessNumber => !number && (context == ValueContext::Quoted || looks_like_secret(value)),
        Sensitivity::Likely if number => value.len() >= 6,
        Sensitivity::Likely => context == ValueContext::Quoted || looks_like_secret(value),
    }
}

/// Returns true for a bare value that has a digit or is longer than ordinary words.
fn looks_like_secret(value: &str) -> bool {
    value.len() >= 16 || (value.len() >= 6 && value.bytes().any(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        assert_eq!(PATTERNS.len(), SYNTAXES.len());
    }
}
