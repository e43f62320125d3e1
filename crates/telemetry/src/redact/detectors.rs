//! Built-in detectors, one row per kind of secret. They only find secrets; other modules decide what to do
//! with them.
//!
//! Each match of a row contains one of its needles, in any case, so that one cheap pass over a text rules out
//! most rows. The pattern runs in linear time; if it has a group, the group is the secret and the rest is
//! context to keep. A letter directly before a secret is allowed if it belongs to an escape such as `\n`.
//! `accept` checks the secret if the shape alone would match ordinary words.

/// Detector of one kind of secret.
pub(super) struct Detector {
    /// Name in `[redacted:NAME]`.
    pub(super) name: &'static str,
    /// Literals of which every match contains at least one, compared case-insensitively.
    pub(super) needles: &'static [&'static str],
    /// Regular expression of the secret.
    pub(super) pattern: &'static str,
    /// Final check of a match; returns true if it is a secret.
    pub(super) accept: fn(&str) -> bool,
}

/// Detectors in order of precedence: if two matches overlap, the first gives the name.
pub(super) const BUILT_IN: &[Detector] = &[
    Detector {
        name: "private_key",
        needles: &["private key", "age-secret-key-", "private-lines:"],
        // An unfinished block is redacted to the end, because a truncated key is still secret. The dashes of
        // the footer may be escaped or on the same line, as in JSON text.
        pattern: r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\z)|(?i:AGE-SECRET-KEY-1)[0-9A-Za-z]{20,}|Private-Lines: [0-9]+[\r\n]+(?:[A-Za-z0-9+/=]+[\r\n]*)+",
        accept: accept_any,
    },
    Detector {
        name: "anthropic_key",
        needles: &["sk-ant-"],
        pattern: r"sk-ant-[A-Za-z0-9_-]{16,}",
        accept: accept_any,
    },
    Detector {
        name: "openai_key",
        needles: &["sk-"],
        pattern: r"(?:^|[^A-Za-z0-9]|\\[bfnrt])(sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,})",
        accept: looks_random,
    },
    Detector {
        name: "github_token",
        needles: &["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"],
        pattern: r"gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}",
        accept: accept_any,
    },
    Detector {
        name: "gitlab_token",
        needles: &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-"],
        pattern: r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat)-[A-Za-z0-9_.-]{20,}",
        accept: accept_any,
    },
    Detector {
        name: "slack_token",
        needles: &["xox", "xapp-", "hooks.slack.com"],
        pattern: r"xox[a-z]-[A-Za-z0-9-]{10,}|xoxe\.xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}|hooks\.slack\.com/((?:services|workflows|triggers)/[A-Za-z0-9/_-]{16,})",
        accept: accept_any,
    },
    Detector {
        name: "stripe_key",
        needles: &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"],
        pattern: r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/=]{20,}",
        accept: accept_any,
    },
    Detector {
        name: "google_key",
        needles: &["aiza", "gocspx-", "ya29.", "1//0"],
        pattern: r"AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20,}|ya29\.[A-Za-z0-9_.-]{20,}|(?:^|[^A-Za-z0-9/]|\\[bfnrt])(1//0[A-Za-z0-9_-]{30,})",
        accept: accept_any,
    },
    Detector {
        name: "aws_access_key_id",
        needles: &["akia", "asia", "abia", "acca"],
        pattern: r"AKIA[A-Z0-9]{16}|(?:^|[^A-Za-z0-9]|\\[bfnrt])((?:ASIA|ABIA|ACCA)[A-Z0-9]{16})",
        accept: accept_any,
    },
    Detector {
        name: "aws_secret_access_key",
        // The secret has no prefix of its own; it is only searched in texts with a key id or the word `aws`.
        needles: &["akia", "asia", "aws"],
        pattern: r"[A-Za-z0-9/+]{40,}",
        accept: is_forty_mixed_characters,
    },
    Detector {
        name: "azure_key",
        needles: &["accountkey", "sharedaccesskey", "sig=", "q~"],
        pattern: r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,}={0,2})|[?&;]sig=([A-Za-z0-9%+/_-]{30,}={0,2})|[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
        accept: accept_any,
    },
    Detector {
        name: "huggingface_token",
        needles: &["hf_", "api_org_"],
        pattern: r"(?:^|[^A-Za-z0-9]|\\[bfnrt])((?:hf|api_org)_[A-Za-z0-9]{30,})",
        accept: accept_any,
    },
    Detector {
        name: "npm_token",
        needles: &["npm_"],
        pattern: r"(?:^|[^A-Za-z0-9]|\\[bfnrt])(npm_[A-Za-z0-9]{36,})",
        accept: accept_any,
    },
    Detector {
        name: "pypi_token",
        needles: &["pypi-"],
        pattern: r"(?:^|[^A-Za-z0-9]|\\[bfnrt])(pypi-[A-Za-z0-9_-]{32,})",
        accept: looks_random,
    },
    Detector {
        name: "model_provider_key",
        needles: &["gsk_", "xai-", "r8_", "pplx-", "sk-or-", "tgp_v1_"],
        pattern: r"(?:^|[^A-Za-z0-9]|\\[bfnrt])((?:gsk_|xai-|r8_|pplx-|tgp_v1_)[A-Za-z0-9_-]{30,})",
        accept: looks_random,
    },
    Detector {
        name: "service_token",
        needles: &["dop_v1_", "shpat_", "sg.", "dckr_pat_", "hvs.", "nfp_", "lin_api_", "ntn_", "bot"],
        pattern: r"dop_v1_[a-f0-9]{60,}|shpat_[a-fA-F0-9]{32,}|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{32,}|dckr_pat_[A-Za-z0-9_-]{20,}|hvs\.[A-Za-z0-9_-]{24,}|nfp_[A-Za-z0-9]{36,}|lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|bot([0-9]{8,10}:[A-Za-z0-9_-]{35})",
        accept: accept_any,
    },
    Detector {
        name: "jwt",
        needles: &["eyj"],
        pattern: r"eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){2,4}",
        accept: accept_any,
    },
    Detector {
        name: "authorization",
        needles: &["authorization", "authenticate"],
        // One word for the schemes that have one, else the rest of the line.
        pattern: r#"(?i)authorization(?:\\*["']\s*,\s*\\*["']|(?:\\*["'])?\]?\s*(?::=|=>|[:=])\s*(?:\\*["'])?)(?:(?:bearer|basic|token|apikey|negotiate)\s+([^\s"'\\,;<>)}]+)|([^\r\n"'\\]+))"#,
        accept: is_not_marker,
    },
    Detector {
        name: "bearer_token",
        needles: &["bearer"],
        pattern: r"(?i)bearer[\s:=]+([A-Za-z0-9._~+/=-]{16,})",
        accept: looks_random,
    },
    Detector {
        name: "url_credentials",
        // Path normalization may have reduced `//` to one slash.
        needles: &[":/"],
        pattern: r#"[A-Za-z][A-Za-z0-9+.-]*:/{1,2}([^\s/?#"'<>\\]+)@"#,
        accept: userinfo_has_secret,
    },
    Detector {
        name: "cookie",
        needles: &["cookie"],
        pattern: r#"(?i)(?:set-)?cookie(?:\\*["'])?\s*:\s*(?:\\*["'])?([^\r\n"'\\]+)"#,
        accept: |value| value.contains('=') && is_not_marker(value),
    },
];

/// The set of candidates is a `u64`.
const _: () = assert!(BUILT_IN.len() <= 64);

fn accept_any(_: &str) -> bool {
    true
}

/// Returns true for long runs of letters and digits of more than one kind: a key, not a hyphenated name.
fn looks_random(text: &str) -> bool {
    let longest = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    let mixed_case = has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    (longest >= 12 && has(u8::is_ascii_digit)) || (longest >= 16 && mixed_case)
}

/// Returns true for exactly forty characters of three kinds, which excludes SHA-1 digests, paths and words.
fn is_forty_mixed_characters(text: &str) -> bool {
    let has = |kind: fn(&u8) -> bool| text.as_bytes().iter().any(kind);
    text.len() == 40
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && (has(u8::is_ascii_digit) || has(|b| matches!(b, b'/' | b'+')))
}

/// Returns true for `user:password`, or for a long token in place of the user, but not for a plain user name.
fn userinfo_has_secret(userinfo: &str) -> bool {
    match userinfo.split_once(':') {
        _ if !is_not_marker(userinfo) => false,
        Some((_, password)) => !password.is_empty() && is_not_marker(password),
        None => userinfo.len() >= 16 && looks_random(userinfo),
    }
}

/// Returns false for a marker written by redaction itself, so that redacting twice changes nothing.
pub(super) fn is_not_marker(text: &str) -> bool {
    let inner = text.trim().strip_prefix("[redacted:").and_then(|rest| rest.strip_suffix(']'));
    !inner.is_some_and(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}
