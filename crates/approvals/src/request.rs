//! Approval request as the operator sees it: the effect of the call, not its own description. Built by the
//! daemon, with secrets masked, and always complete: a call that does not fit is refused instead of shown in
//! part.

mod file_diff;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tool::{CallId, Mode, RiskLevel, RuleRef};

pub use file_diff::{DiffLineKind, FileDiff};

use crate::display_escape::escape_for_display;

/// Limits of what a person can be expected to review.
const MAX_LINES: usize = 1000;
const MAX_CHARACTERS: usize = 64 * 1024;
const MAX_LINE_CHARACTERS: usize = 4096;

/// Labels of facts that are never masked because they name what a call reaches. A tool that reports a path, a
/// program or a host in its preview must use one of them, or the text may be masked.
const UNMASKED_LABELS: [&str; 10] = [
    "reads",
    "writes",
    "removes",
    "creates directory",
    "with",
    "program",
    "runs in",
    "host",
    "caution",
    "bounds",
];

/// Approval request as shown to the operator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Approval id.
    pub id: String,
    /// Name of the tool.
    pub tool: String,
    /// Summary of the call in one line.
    pub summary: String,
    /// Effect of the call: canonical paths, programs, hosts, sandbox bounds and timeout.
    pub effect: Vec<ApprovalFact>,
    /// Diffs of the files whose content would change.
    pub changes: Vec<FileDiff>,
    /// Arguments that the diffs do not show.
    pub arguments: Vec<ApprovalFact>,
    /// Rules that require the approval.
    pub asked_by: Vec<RuleRef>,
    /// Client name, uid and pid of the caller.
    pub caller: String,
    /// Worker session of the caller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Id of the call.
    pub call_id: CallId,
    /// Trace id of the call.
    pub trace_id: String,
    /// Risk level of the tool.
    pub risk: RiskLevel,
    /// Mode in which the call was judged.
    pub mode: Mode,
    /// Number of texts that are masked because they look like secrets.
    pub masked: u32,
    /// True if the operator has edited the arguments.
    #[serde(default)]
    pub edited: bool,
    /// Time of the request.
    #[serde(alias = "asked_at")]
    pub requested_at: Timestamp,
    /// Time at which the request expires.
    pub expires_at: Timestamp,
}

/// Labelled text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalFact {
    /// Label of the text.
    pub label: String,
    /// The text.
    pub text: String,
}

/// Style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineStyle {
    /// Summary of the request.
    Title,
    /// Fact.
    Plain,
    /// Context of a fact.
    Muted,
    /// Text that would be added.
    Added,
    /// Text that would be removed.
    Removed,
    /// Text that needs attention.
    Warning,
}

/// One line of an approval request, with visible characters only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRequestLine {
    /// Style of the line.
    pub style: LineStyle,
    /// The text.
    pub text: String,
}

impl ApprovalRequest {
    /// Renders the request as lines that are safe for a terminal. Every display of a request uses this
    /// method.
    pub fn lines(&self) -> Vec<ApprovalRequestLine> {
        let mut lines = Vec::new();
        let mut put = |style, text: String| lines.push(ApprovalRequestLine { style, text });
        put(LineStyle::Title, escape_for_display(&self.summary));
        for fact in &self.effect {
            push_fact(&mut put, LineStyle::Plain, fact);
        }
        for change in &self.changes {
            change.push_lines(&mut put);
        }
        for fact in &self.arguments {
            let label = format!("{} =", fact.label);
            push_fact(&mut put, LineStyle::Plain, &ApprovalFact { label, text: fact.text.clone() });
        }
        if self.masked > 0 {
            let text = format!(
                "{} masked: text that looks like a secret is hidden; an approval is for the real text",
                self.masked
            );
            put(LineStyle::Warning, text);
        }
        if self.edited {
            put(LineStyle::Warning, "the arguments were changed by the operator".to_owned());
        }
        for (rule, location) in self.rules() {
            put(LineStyle::Muted, format!("rule      {rule} ({location})"));
        }
        let session = self
            .session
            .as_deref()
            .map(|id| format!(", session {}", escape_for_display(id)))
            .unwrap_or_default();
        put(LineStyle::Muted, format!("caller    {}{session}", escape_for_display(&self.caller)));
        put(LineStyle::Muted, format!("risk      {}, mode {}", self.risk.as_str(), self.mode));
        put(
            LineStyle::Muted,
            format!("trace     {}, call {}", escape_for_display(&self.trace_id), self.call_id),
        );
        lines
    }

    /// Rules that require the approval, each with its location. A rule that requires it for two reasons is
    /// listed once.
    pub fn rules(&self) -> Vec<(String, String)> {
        let mut rules = Vec::new();
        for rule in &self.asked_by {
            let location = match rule.line {
                0 => escape_for_display(&rule.file),
                line => format!("{}:{line}", escape_for_display(&rule.file)),
            };
            let rule_and_location = (escape_for_display(&rule.id), location);
            if !rules.contains(&rule_and_location) {
                rules.push(rule_and_location);
            }
        }
        rules
    }

    /// Returns the reason why the request is too large to be shown in full, if it is.
    pub(crate) fn oversize_reason(&self) -> Option<String> {
        let lines = self.lines();
        let lengths: Vec<usize> = lines.iter().map(|line| line.text.chars().count()).collect();
        let (count, all) = (lengths.len(), lengths.iter().sum::<usize>());
        let longest = lengths.into_iter().max().unwrap_or_default();
        if count > MAX_LINES {
            return Some(format!("{count} lines; at most {MAX_LINES} can be shown"));
        }
        if longest > MAX_LINE_CHARACTERS {
            return Some(format!(
                "a line of {longest} characters; at most {MAX_LINE_CHARACTERS} can be shown"
            ));
        }
        (all > MAX_CHARACTERS).then(|| format!("{all} characters; at most {MAX_CHARACTERS} can be shown"))
    }

    /// Masks text that looks like a secret. Returns `None` if a mask would hide more than a plain token,
    /// because the hidden text could be part of the effect. Facts that name what the call reaches are never
    /// masked. The summary may be masked, since all of it appears again in the facts below.
    pub(crate) fn with_secrets_masked(mut self) -> Option<Self> {
        let redactor = redact::shared();
        let (mut masked, mut plain) = (0, true);
        let mut mask = |text: &mut String| {
            let redacted = redactor.redact_text(text);
            if redacted != text.as_str() {
                masked += 1;
                plain &= hides_tokens_only(text, &redacted);
                *text = redacted.into_owned();
            }
        };
        let facts = self.effect.iter_mut().filter(|fact| !UNMASKED_LABELS.contains(&fact.label.as_str()));
        facts.chain(&mut self.arguments).for_each(|fact| mask(&mut fact.text));
        self.changes.iter_mut().for_each(|change| change.for_each_text(&mut mask));
        mask(&mut self.caller);
        self.masked = masked;
        self.summary = redactor.redact_text(&self.summary).into_owned();
        plain.then_some(self)
    }
}

/// Returns true if the redaction removed only tokens: no spaces, no quotes, nothing that a program
/// interprets.
fn hides_tokens_only(text: &str, redacted: &str) -> bool {
    let mut rest = text;
    let mut pieces = redacted.split(MASK_PREFIX);
    let Some(after) = pieces.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = after;
    for piece in pieces {
        // A piece begins with the name of the mask, which ends at `]`.
        let Some((name, unmasked)) = piece.split_once(']') else { return false };
        let end = if unmasked.is_empty() { Some(rest.len()) } else { rest.find(unmasked) };
        let Some((hidden, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
        if !is_token(hidden, name) {
            return false;
        }
        rest = after.strip_prefix(unmasked).unwrap_or_default();
    }
    rest.is_empty()
}

/// Start of a mask.
const MASK_PREFIX: &str = "[redacted:";
/// Name of the mask for a value that was recognised by the name before it and not by its own form.
const ASSIGNMENT_MASK: &str = "assignment";
const MAX_TOKEN_BYTES: usize = 512;

/// Returns true if the text hidden by this mask can only be a token. A secret recognised by its shape may
/// contain punctuation. A secret recognised only by the name before it may just as well be a path, a host or
/// a file, which must stay visible.
fn is_token(hidden: &str, mask: &str) -> bool {
    let signs = if mask == ASSIGNMENT_MASK { "+=_-" } else { "+/=_.~:@-" };
    let plain = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    let is_path_or_url =
        ["/", "./", "../", "~"].iter().any(|start| hidden.starts_with(start)) || hidden.contains("://");
    let fits = hidden.len() <= MAX_TOKEN_BYTES && !is_path_or_url && hidden.chars().all(plain);
    fits && (mask != ASSIGNMENT_MASK || looks_generated(hidden))
}

/// Returns true if the text looks generated and cannot be the name of a program: `PASSWORD=rm` is a command
/// with an assignment before it.
fn looks_generated(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let unbroken =
        text.len() >= 20 && has(u8::is_ascii_digit) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() >= 8 && (mixed || unbroken)
}

/// Writes the first line of a text behind its label and the other lines below it.
fn push_fact(put: &mut impl FnMut(LineStyle, String), style: LineStyle, fact: &ApprovalFact) {
    let label = escape_for_display(&fact.label);
    let mut lines = fact.text.split('\n');
    let first = lines.next().unwrap_or_default();
    put(style, format!("{label:9} {}", escape_for_display(first)));
    for line in lines {
        put(style, format!("        | {}", escape_for_display(line)));
    }
}

#[cfg(test)]
mod tests;
