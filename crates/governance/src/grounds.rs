//! Why a call is denied, in the words of a refusal: what, by which rule, and the way out.

use tool::{Refusal, RefusalCode, RuleRef};

/// Text of a caller that is repeated is cut here.
const LONGEST_SHOWN: usize = 256;

/// One reason to deny.
#[derive(Clone, Debug)]
pub(crate) struct Grounds {
    pub(crate) code: RefusalCode,
    pub(crate) detail: &'static str,
    pub(crate) reason: String,
    pub(crate) hint: String,
    pub(crate) rule: RuleRef,
    /// Whether time alone can help, where the code leaves that open.
    pub(crate) hopeless: bool,
}

impl Grounds {
    pub(crate) fn new(
        code: RefusalCode,
        detail: &'static str,
        reason: String,
        hint: String,
        rule: &RuleRef,
    ) -> Self {
        Grounds { code, detail, reason, hint, rule: rule.clone(), hopeless: false }
    }

    pub(crate) fn into_refusal(self, tool: &str) -> Refusal {
        let reason = format!("Permission denied: {}", self.reason);
        let refusal =
            Refusal::new(tool, self.code, reason).detail(self.detail).hint(self.hint).rule(self.rule);
        Refusal { retryable: refusal.retryable && !self.hopeless, ..refusal }
    }
}

/// A rule as a person finds it.
pub(crate) fn place(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("`{}` ({})", rule.id, rule.file),
        line => format!("`{}` ({} line {line})", rule.id, rule.file),
    }
}

/// A caller's text, short enough to repeat.
pub(crate) fn shown(text: &str) -> String {
    if text.chars().count() <= LONGEST_SHOWN {
        return text.to_owned();
    }
    text.chars().take(LONGEST_SHOWN).chain(['…']).collect()
}
