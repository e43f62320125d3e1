//! Reason for a denial: code, message, deciding rule and hint. It becomes a refusal once the tool is known.

use tool::text::{escape_invisible_line, shorten};
use tool::{Refusal, RefusalCode, RuleRef};

/// Longest text of a caller that a message repeats, in characters.
const MAX_DISPLAY_CHARS: usize = 256;

/// Reason to deny a call, without the name of the tool.
#[derive(Clone, Debug)]
pub(crate) struct DenialReason(Box<Refusal>);

impl DenialReason {
    pub(crate) fn new(code: RefusalCode, detail: &str, reason: &str, hint: String, rule: &RuleRef) -> Self {
        let refusal = Refusal::new("", code, format!("Permission denied: {reason}"));
        DenialReason(Box::new(refusal.with_detail(detail).with_hint(hint).with_rule(rule.clone())))
    }

    /// Creates the denial of an argument that no rule can allow, because it is malformed.
    pub(crate) fn invalid_argument(detail: &str, reason: &str, hint: &str) -> Self {
        let refusal = Refusal::new("", RefusalCode::InvalidArguments, reason);
        let rule = RuleRef { file: "tool definition".into(), line: 0, id: "format".into() };
        DenialReason(Box::new(refusal.with_detail(detail).with_hint(hint).with_rule(rule)))
    }

    /// Marks the denial as not retryable, although its code is.
    pub(crate) fn not_retryable(mut self) -> Self {
        self.0.retryable = false;
        self
    }

    /// Returns the rule that denies.
    pub(crate) fn rule(&self) -> Option<&RuleRef> {
        self.0.rule.as_ref()
    }

    /// Returns the detail word, which narrows down the refusal code.
    pub(crate) fn detail(&self) -> &str {
        self.0.detail.as_deref().unwrap_or_default()
    }

    /// Returns the message.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Converts the reason into the refusal that the caller of this tool receives.
    pub(crate) fn into_refusal(mut self, tool: &str) -> Box<Refusal> {
        self.0.tool = tool.to_owned();
        self.0
    }
}

/// Creates the denial of a network access by a tool without declared network access.
pub(crate) fn no_network_access(tool: &str) -> DenialReason {
    let rule = RuleRef { file: "tool definition".into(), line: 0, id: format!("{tool}.category").into() };
    let hint = "its category has no network access, and none of its arguments is a URL".to_owned();
    DenialReason::new(
        RefusalCode::DomainNotAllowed,
        "no_network_access",
        "Tool has no network access",
        hint,
        &rule,
    )
}

/// Formats the id and the location of a rule for a message.
pub(crate) fn rule_location(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("`{}` ({})", rule.id, rule.file),
        line => format!("`{}` ({} line {line})", rule.id, rule.file),
    }
}

/// Maximum number of permitted entries that a hint lists, and their total length in bytes.
const MAX_LISTED_ENTRIES: usize = 16;
const MAX_LISTED_BYTES: usize = 200;

/// Formats the hint for a value that an allowlist does not contain. A short list is named in full, so that
/// the caller need not guess.
pub(crate) fn allowlist_hint(rule: &RuleRef, kind: &str, entries: impl Iterator<Item = String>) -> String {
    let location = rule_location(rule);
    let entries: Vec<String> = entries.take(MAX_LISTED_ENTRIES + 1).collect();
    let bytes: usize = entries.iter().map(String::len).sum();
    match entries.as_slice() {
        [] => format!("{location} permits no {kind}"),
        short if short.len() <= MAX_LISTED_ENTRIES && bytes <= MAX_LISTED_BYTES => {
            format!("{location} permits only these {kind}: {}", short.join(", "))
        }
        _ => format!("{location} lists the permitted {kind}"),
    }
}

/// Shortens a caller's text for a message and makes invisible characters visible.
pub(crate) fn display_text(text: &str) -> String {
    escape_invisible_line(&shorten(text, MAX_DISPLAY_CHARS))
}
