//! Reason for a denial: code, message, deciding rule and hint. It becomes a refusal once the tool is known.

use tool::{Refusal, RefusalCode, RuleRef, shorten, visible_line};

/// Longest text of a caller that a message repeats, in characters.
const LONGEST_SHOWN: usize = 256;

/// Reason to deny a call, without the name of the tool.
#[derive(Clone, Debug)]
pub(crate) struct Grounds(Box<Refusal>);

impl Grounds {
    pub(crate) fn new(code: RefusalCode, detail: &str, reason: &str, hint: String, rule: &RuleRef) -> Self {
        let refusal = Refusal::new("", code, format!("Permission denied: {reason}"));
        Grounds(Box::new(refusal.detail(detail).hint(hint).rule(rule.clone())))
    }

    /// Marks the denial as not retryable, although its code is.
    pub(crate) fn for_good(mut self) -> Self {
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

/// Denial of a network access by a tool without declared network access.
pub(crate) fn stays_home(tool: &str) -> Grounds {
    let rule = RuleRef { file: "tool definition".into(), line: 0, id: format!("{tool}.category").into() };
    let hint = "its category has no network access, and none of its arguments is a URL".to_owned();
    Grounds::new(RefusalCode::DomainNotAllowed, "stays_home", "Tool has no network access", hint, &rule)
}

/// Formats the id and the location of a rule for a message.
pub(crate) fn place(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("`{}` ({})", rule.id, rule.file),
        line => format!("`{}` ({} line {line})", rule.id, rule.file),
    }
}

/// Shortens a caller's text for a message and makes invisible characters visible.
pub(crate) fn shown(text: &str) -> String {
    visible_line(&shorten(text, LONGEST_SHOWN))
}
