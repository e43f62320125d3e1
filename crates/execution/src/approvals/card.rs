//! What a human is shown of a call: what it would do, not what it says of itself. Made by the daemon, masked where it
//! holds secrets, and never less than all of it: a call that does not fit is not one to be asked about.

mod change;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tool::{CallId, Mode, RiskLevel, RuleRef};

pub use change::{ShownChange, Side};

use super::shown::shown;

/// What a person can be expected to read before saying yes.
const MOST_LINES: usize = 1000;
const MOST_CHARACTERS: usize = 64 * 1024;
const LONGEST_LINE: usize = 4096;

/// Labels of what a call reaches. A tool that foretells a path, a program or a host uses one of these, or it is masked.
const PLACES: [&str; 10] =
    ["reads", "writes", "removes", "makes folder", "with", "program", "runs in", "host", "caution", "bounds"];

/// A question, as a human sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Names the question.
    pub id: String,
    /// The tool.
    pub tool: String,
    /// The call in one line.
    pub summary: String,
    /// What it would do: paths by their canonical names, programs, hosts, where, for how long.
    pub effect: Vec<Fact>,
    /// Files whose content would change.
    pub changes: Vec<ShownChange>,
    /// The arguments that the changes do not show.
    pub arguments: Vec<Fact>,
    /// The rules that ask.
    pub asked_by: Vec<RuleRef>,
    /// Who calls.
    pub caller: String,
    /// The worker session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The call.
    pub call_id: CallId,
    /// Where it stands in a trace.
    pub trace_id: String,
    /// The harm the tool can do.
    pub risk: RiskLevel,
    /// The mode it was judged in.
    pub mode: Mode,
    /// How many texts are masked because they hold what looks like a secret.
    pub masked: u32,
    /// Whether a human has changed the arguments.
    #[serde(default)]
    pub edited: bool,
    /// Since when it waits.
    pub asked_at: Timestamp,
    /// Until when it can be answered.
    pub expires_at: Timestamp,
}

/// A named text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// The text.
    pub text: String,
}

/// How a line of a card is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// What it is about.
    Title,
    /// A fact.
    Plain,
    /// What is around the fact.
    Quiet,
    /// Text that would be added.
    Added,
    /// Text that would be removed.
    Removed,
    /// What deserves a look.
    Warning,
}

/// One line of a card: visible characters only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardLine {
    /// How it is to be taken.
    pub tone: Tone,
    /// The text.
    pub text: String,
}

impl Card {
    /// The card as lines, each fit for a screen. The only way a card is shown.
    pub fn lines(&self) -> Vec<CardLine> {
        let mut lines = Vec::new();
        let mut put = |tone, text: String| lines.push(CardLine { tone, text });
        put(Tone::Title, shown(&self.summary));
        for fact in &self.effect {
            put_fact(&mut put, Tone::Plain, fact);
        }
        for change in &self.changes {
            change.put(&mut put);
        }
        for fact in &self.arguments {
            let label = format!("{} =", fact.label);
            put_fact(&mut put, Tone::Plain, &Fact { label, text: fact.text.clone() });
        }
        if self.masked > 0 {
            let text = format!(
                "{} masked: what looks like a secret is not shown, and a yes is for the real text",
                self.masked
            );
            put(Tone::Warning, text);
        }
        if self.edited {
            put(Tone::Warning, "the arguments were changed by a human".to_owned());
        }
        for (rule, place) in self.rules() {
            put(Tone::Quiet, format!("asked by  {rule} ({place})"));
        }
        let session =
            self.session.as_deref().map(|id| format!(", session {}", shown(id))).unwrap_or_default();
        put(Tone::Quiet, format!("caller    {}{session}", shown(&self.caller)));
        put(Tone::Quiet, format!("risk      {}, mode {}", self.risk.as_str(), self.mode));
        put(Tone::Quiet, format!("trace     {}, call {}", shown(&self.trace_id), self.call_id));
        lines
    }

    /// The rules that ask and where each of them is. Two parts of one rule may ask; they are told once.
    pub fn rules(&self) -> Vec<(String, String)> {
        let mut told = Vec::new();
        for rule in &self.asked_by {
            let place = match rule.line {
                0 => shown(&rule.file),
                line => format!("{}:{line}", shown(&rule.file)),
            };
            let told_of = (shown(&rule.id), place);
            if !told.contains(&told_of) {
                told.push(told_of);
            }
        }
        told
    }

    /// Why the card cannot be shown in full.
    pub(crate) fn misfit(&self) -> Option<String> {
        let lines = self.lines();
        let lengths: Vec<usize> = lines.iter().map(|line| line.text.chars().count()).collect();
        let (count, all) = (lengths.len(), lengths.iter().sum::<usize>());
        let longest = lengths.into_iter().max().unwrap_or_default();
        if count > MOST_LINES {
            return Some(format!("{count} lines, where {MOST_LINES} can be shown"));
        }
        if longest > LONGEST_LINE {
            return Some(format!("a line of {longest} characters, where {LONGEST_LINE} can be shown"));
        }
        (all > MOST_CHARACTERS).then(|| format!("{all} characters, where {MOST_CHARACTERS} can be shown"))
    }

    /// The same with what looks like a secret masked; nothing where a mask would hide more than a plain token, for what
    /// it hides could be what the call does. Where it reaches is never masked. The summary may be: all of it stands below.
    pub(crate) fn masked(mut self) -> Option<Self> {
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
        let facts = self.effect.iter_mut().filter(|fact| !PLACES.contains(&fact.label.as_str()));
        facts.chain(&mut self.arguments).for_each(|fact| mask(&mut fact.text));
        self.changes.iter_mut().for_each(|change| change.each_text(&mut mask));
        mask(&mut self.caller);
        self.masked = masked;
        self.summary = redactor.redact_text(&self.summary).into_owned();
        plain.then_some(self)
    }
}

/// Whether all that a redaction took out of a text are tokens: no spaces, no quotes, nothing that a program acts on.
fn hides_tokens_only(text: &str, redacted: &str) -> bool {
    let mut rest = text;
    let mut pieces = redacted.split(MASK);
    let Some(after) = pieces.next().and_then(|first| rest.strip_prefix(first)) else { return false };
    rest = after;
    for piece in pieces {
        // What names the mask stands before the piece that follows it.
        let Some((name, kept)) = piece.split_once(']') else { return false };
        let end = if kept.is_empty() { Some(rest.len()) } else { rest.find(kept) };
        let Some((hidden, after)) = end.and_then(|end| rest.split_at_checked(end)) else { return false };
        if !is_token(hidden, name) {
            return false;
        }
        rest = after.strip_prefix(kept).unwrap_or_default();
    }
    rest.is_empty()
}

/// How a mask begins.
const MASK: &str = "[redacted:";
/// What a mask is called that stands for the value of a name, whatever the value looks like.
const BY_NAME: &str = "assignment";
const LONGEST_TOKEN: usize = 512;

/// Whether what a mask of this name hides can be nothing but a token. What is known by its shape may have signs in it; what
/// is only known by the name before it may as well be a path, a host or a file, and then must be seen.
fn is_token(hidden: &str, mask: &str) -> bool {
    let signs = if mask == BY_NAME { "+=_-" } else { "+/=_.~:@-" };
    let plain = |c: char| c.is_ascii_alphanumeric() || signs.contains(c);
    let is_place =
        ["/", "./", "../", "~"].iter().any(|start| hidden.starts_with(start)) || hidden.contains("://");
    let fits = hidden.len() <= LONGEST_TOKEN && !is_place && hidden.chars().all(plain);
    fits && (mask != BY_NAME || is_made_up(hidden))
}

/// Whether a text is one that nobody would call a program: `PASSWORD=rm` is a command with a name before it.
fn is_made_up(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.bytes().any(|byte| is(&byte));
    let mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase);
    let unbroken =
        text.len() >= 20 && has(u8::is_ascii_digit) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() >= 8 && (mixed || unbroken)
}

/// The first line of a text behind its label, the others below it.
fn put_fact(put: &mut impl FnMut(Tone, String), tone: Tone, fact: &Fact) {
    let label = shown(&fact.label);
    let mut lines = fact.text.split('\n');
    let first = lines.next().unwrap_or_default();
    put(tone, format!("{label:9} {}", shown(first)));
    for line in lines {
        put(tone, format!("        | {}", shown(line)));
    }
}

#[cfg(test)]
mod tests;
