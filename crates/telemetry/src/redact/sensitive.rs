//! Classification of names whose value is a secret. It judges names only; other modules find them.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Degree to which a name identifies its value as a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sensitivity {
    /// `password`, `api_key`: any value is secret.
    Certain,
    /// `token`: secret unless it is clearly a word or a small number.
    Likely,
    /// `max_tokens`: secret only if it is text.
    UnlessNumber,
}

const CERTAIN_WORDS: [&str; 31] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "passwort",
    "kennwort",
    "wachtwoord",
    "contraseña",
    "contrasena",
    "motdepasse",
    "senha",
    "lösenord",
    "hasło",
    "пароль",
    "密码",
    "密碼",
    "パスワード",
    "pwd",
    "secret",
    "apikey",
    "privatekey",
    "accesskey",
    "signingkey",
    "encryptionkey",
    "masterkey",
    "authkey",
    "credential",
    "authorization",
    "setcookie",
    "sharedkey",
    "비밀번호",
];
const LIKELY_WORDS: [&str; 3] = ["token", "cookie", "bearer"];
/// Names that contain one of the words above and are still harmless.
const HARMLESS_NAMES: [&str; 14] = [
    "tokencount",
    "tokenlimit",
    "tokenbudget",
    "tokentype",
    "tokenusage",
    "tokeniz",
    "tokenis",
    "passwordless",
    "passwordpolicy",
    "secretpattern",
    "secretname",
    "passwordfield",
    "cookiepolicy",
    "tokenkind",
];

/// Common parts of all spellings of the words for a password in other languages. Only ASCII letters are
/// compared case-insensitively, so other scripts list each case.
pub(super) const FOREIGN_PASSWORD_STEMS: [&str; 14] = [
    "kennwort",
    "wachtwoord",
    "contrase",
    "senha",
    "senord",
    "hasło",
    "HASŁO",
    "пароль",
    "Пароль",
    "ПАРОЛЬ",
    "密码",
    "密碼",
    "パスワード",
    "비밀번호",
];

/// Stems of which every sensitive name contains one. Most names contain none and are ruled out cheaply.
static STEMS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
    let stems = ["pass", "pwd", "secret", "key", "credential", "authorization", "cookie", "token", "bearer"];
    let stems = stems.iter().chain(&FOREIGN_PASSWORD_STEMS);
    AhoCorasick::builder().ascii_case_insensitive(true).build(stems).ok()
});

fn has_stem(name: &str) -> bool {
    STEMS.as_ref().is_none_or(|stems| stems.is_match(name))
}

/// Returns true if a name in these texts, one per line, may identify a secret. The word `key` alone identifies nothing, and the facts of a call contain it.
pub(super) fn may_name_secret(texts: &str) -> bool {
    let Some(stems) = STEMS.as_ref() else { return true };
    let stands_alone = |start: usize, end: usize| {
        texts.get(end..).is_some_and(|rest| rest.starts_with('\n'))
            && texts.get(..start).is_some_and(|before| before.is_empty() || before.ends_with('\n'))
    };
    stems.find_iter(texts).any(|hit| {
        let is_key = texts.get(hit.range()).is_some_and(|stem| stem == "key");
        !(is_key && stands_alone(hit.start(), hit.end()))
    })
}

/// Returns the sensitivity of a name. Case and the separators `_ - . space` are ignored.
pub(super) fn sensitivity(name: &str) -> Option<Sensitivity> {
    // No name is this long, and a redaction marker contains the name of a detector, not of a secret.
    if name.len() > 128 || !has_stem(name) || name.contains("[redacted:") {
        return None;
    }
    let folded: String =
        name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ')).flat_map(char::to_lowercase).collect();
    let has = |fragments: &[&str]| fragments.iter().any(|word| folded.contains(word));
    if has(&HARMLESS_NAMES) {
        None
    } else if has(&CERTAIN_WORDS) {
        Some(Sensitivity::Certain)
    } else if folded.contains("tokens") || ends_in_word_pass(name) {
        Some(Sensitivity::UnlessNumber)
    } else if has(&LIKELY_WORDS) {
        Some(Sensitivity::Likely)
    } else {
        None
    }
}

/// Returns true for `pass` as a separate word and for `DB_PASS`, but not for `bypass` and `compass`.
fn ends_in_word_pass(name: &str) -> bool {
    let Some((before, end)) = name.len().checked_sub(4).and_then(|at| name.split_at_checked(at)) else {
        return false;
    };
    let own_word = before.is_empty() || before.ends_with(['_', '-', '.', ' ']) || end.starts_with('P');
    end.eq_ignore_ascii_case("pass") && own_word
}

/// Returns true for a word that means "no value" or names a type, which is never a secret.
pub(super) fn is_placeholder(value: &str) -> bool {
    const WORDS: [&str; 20] = [
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "required",
        "optional",
        "string",
        "str",
        "bool",
        "boolean",
        "int",
        "integer",
        "number",
        "object",
        "bytes",
        "array",
        "missing",
        "redacted",
    ];
    WORDS.iter().any(|word| value.eq_ignore_ascii_case(word))
}
