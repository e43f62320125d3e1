//! Secrets that the policy blocks: a call that carries one is refused, and whatever a tool says that carries one is
//! withheld: its answer, the words of its failure, and what it says while it runs.

use std::sync::{Mutex, PoisonError};

use governance::{Policy, SecretRule};
use guardrail::ValidCall;
use serde_json::Value;
use telemetry::redact::{self, Action, Redactor, SecretPattern};
use tool::{
    Arguments, Failure, FailureKind, Progress, ProgressNote, Refusal, RefusalCode, canonical, shorten,
};

/// What a tool has to say of its failure, in bytes: others may have put these words into its mouth.
const MOST_WORDS: usize = 4096;
/// How much of what was said before is looked at again: a secret may come in two pieces.
const OVERLAP: usize = 4096;
const WAY_OUT: &str = "safety.yaml blocks it; a human can look at it elsewhere";

/// Finds the secrets that the policy describes, and those that are known without it.
pub fn redactor(policy: &Policy) -> Result<Redactor, telemetry::TelemetryError> {
    let pattern = |secret: SecretRule| SecretPattern {
        name: secret.name,
        pattern: secret.pattern,
        action: match secret.action {
            governance::files::SecretAction::Block => Action::Block,
            governance::files::SecretAction::Redact => Action::Redact,
            governance::files::SecretAction::Warn => Action::Warn,
        },
    };
    Redactor::new(policy.secrets().map(pattern).collect())
}

/// Makes the policy's patterns those of this process: from now on they hold for every record, log line and span.
pub(crate) fn share_patterns(policy: &Policy) -> Result<(), telemetry::TelemetryError> {
    redact::share(redactor(policy)?);
    Ok(())
}

/// Refuses arguments that hold a secret of the action `block`, and reports those of the action `warn`.
pub(crate) fn refuse_blocked(policy: &Policy, call: &ValidCall) -> Result<(), Box<Refusal>> {
    let redactor = redact::shared();
    let tool = call.definition().name();
    let mut blocked = None;
    for_each_text_of(call.arguments(), &mut |text| {
        blocked = blocked.take().or_else(|| redactor.blocked(text).map(str::to_owned));
        if let Some(name) = redactor.warned(text) {
            tracing::warn!(%tool, secret = name, "the arguments hold what looks like a secret");
        }
    });
    let Some(name) = blocked else { return Ok(()) };
    let reason = format!("Permission denied: Arguments contain a {name}");
    let mut refusal = Refusal::new(tool.as_str(), RefusalCode::ValidatorRejected, reason).detail("secret");
    refusal.retryable = false;
    refusal.rule = policy.secrets().find(|secret| secret.name == name).map(|secret| secret.rule);
    Err(Box::new(refusal.hint("leave the secret out: name the file or the variable that holds it instead")))
}

/// The failure of an answer that holds a secret of the action `block`.
pub(crate) fn withheld(answer: &Value) -> Option<Failure> {
    let name = blocked_in(answer)?;
    let message = format!("the answer is withheld: it contains a {name}");
    Some(Failure::new(FailureKind::Unreadable, message).hint(WAY_OUT))
}

/// What may be told of a failure: no secret of the action `block`, and no more than an answer may have.
pub(crate) fn fit_to_tell(mut failure: Failure, most_output: u64) -> Failure {
    let redactor = redact::shared();
    let words = [Some(failure.message.as_str()), failure.hint.as_deref()];
    let in_words = words.into_iter().flatten().find_map(|text| redactor.blocked(text)).map(str::to_owned);
    if let Some(name) = in_words.or_else(|| failure.output.as_ref().and_then(blocked_in)) {
        let message = format!("it failed, and what it said is withheld: it contains a {name}");
        return Failure { message, hint: Some(WAY_OUT.to_owned()), output: None, ..failure };
    }
    let bytes = failure.output.as_ref().map_or(0, |output| canonical::bytes(output).len() as u64);
    if bytes > most_output {
        failure.output = None;
        let left_out =
            format!("its output is left out: it has {bytes} bytes, and policy allows {most_output}");
        failure.hint = Some(failure.hint.map_or(left_out.clone(), |hint| format!("{hint}; {left_out}")));
    }
    failure.message = shorten(&failure.message, MOST_WORDS).into_owned();
    failure.hint = failure.hint.map(|hint| shorten(&hint, MOST_WORDS).into_owned());
    failure
}

/// The same listener, who hears no piece of output once a secret of the action `block` has shown in it.
pub(crate) fn screened(progress: &Progress) -> Progress {
    if !progress.is_heard() {
        return Progress::default();
    }
    let (listener, screen) = (progress.clone(), Mutex::new(Screen::default()));
    Progress::heard_by(move |note| {
        // A panic elsewhere leaves at worst a shorter overlap behind.
        let passed = screen.lock().unwrap_or_else(PoisonError::into_inner).pass(note);
        listener.tell(passed);
    })
}

/// The last of the pieces of output, and the secret they held.
#[derive(Default)]
struct Screen {
    said: String,
    withheld: Option<String>,
}

impl Screen {
    fn pass(&mut self, note: ProgressNote) -> ProgressNote {
        let piece = note.data.as_ref().and_then(|data| data.get("content")?.as_str());
        self.said.push_str(piece.unwrap_or_default());
        if self.withheld.is_none() {
            let redactor = redact::shared();
            let found = redactor.blocked(&self.said).or_else(|| redactor.blocked(&note.message));
            let anywhere = || note.data.as_ref().and_then(blocked_in);
            self.withheld = found.map(str::to_owned).or_else(anywhere);
        }
        let settled = self.said.ceil_char_boundary(self.said.len().saturating_sub(OVERLAP));
        self.said.drain(..settled);
        match &self.withheld {
            None => note,
            Some(name) => {
                let message = format!("what it says is withheld: it contains a {name}");
                ProgressNote { message, data: None, ..note }
            }
        }
    }
}

fn blocked_in(value: &Value) -> Option<String> {
    let redactor = redact::shared();
    let mut blocked = None;
    for_each_text(value, &mut |text| {
        blocked = blocked.take().or_else(|| redactor.blocked(text).map(str::to_owned));
    });
    blocked
}

/// Every text in a value, keys included: whoever writes the value chooses those too.
pub(crate) fn for_each_text(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_text(item, each)),
        Value::Object(map) => for_each_text_of(map, each),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn for_each_text_of(map: &Arguments, each: &mut impl FnMut(&str)) {
    for (key, value) in map {
        each(key);
        for_each_text(value, each);
    }
}
