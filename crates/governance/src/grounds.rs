//! Why a call is denied, in the words of a refusal: what, by which rule, and the way out.

use tool::{Refusal, RefusalCode, RuleRef, shorten, visible_line};

/// Text of a caller that is repeated is cut here.
const LONGEST_SHOWN: usize = 256;

/// One reason to deny, before it is known which call it meets.
#[derive(Clone, Debug)]
pub(crate) struct Grounds(Box<Refusal>);

impl Grounds {
    pub(crate) fn new(code: RefusalCode, detail: &str, reason: &str, hint: String, rule: &RuleRef) -> Self {
        let refusal = Refusal::new("", code, format!("Permission denied: {reason}"));
        Grounds(Box::new(refusal.detail(detail).hint(hint).rule(rule.clone())))
    }

    /// The same grounds where time cannot help, though the code leaves that open.
    pub(crate) fn for_good(mut self) -> Self {
        self.0.retryable = false;
        self
    }

    /// The rule that denies.
    pub(crate) fn rule(&self) -> Option<&RuleRef> {
        self.0.rule.as_ref()
    }

    /// The finer word.
    pub(crate) fn detail(&self) -> &str {
        self.0.detail.as_deref().unwrap_or_default()
    }

    /// The sentence.
    pub(crate) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// What the caller of this tool is told.
    pub(crate) fn into_refusal(mut self, tool: &str) -> Box<Refusal> {
        self.0.tool = tool.to_owned();
        self.0
    }
}

/// A tool that is not known to leave the machine wants to.
pub(crate) fn stays_home(tool: &str) -> Grounds {
    let rule = RuleRef { file: "tool definition".into(), line: 0, id: format!("{tool}.category").into() };
    let hint =
        "it is of no category that leaves the machine, and none of its arguments is an address".to_owned();
    Grounds::new(RefusalCode::DomainNotAllowed, "stays_home", "Tool does not leave the machine", hint, &rule)
}

/// A rule as a person finds it.
pub(crate) fn place(rule: &RuleRef) -> String {
    match rule.line {
        0 => format!("`{}` ({})", rule.id, rule.file),
        line => format!("`{}` ({} line {line})", rule.id, rule.file),
    }
}

/// A caller's text, short enough to repeat, and nothing hidden in it.
pub(crate) fn shown(text: &str) -> String {
    visible_line(&shorten(text, LONGEST_SHOWN))
}
