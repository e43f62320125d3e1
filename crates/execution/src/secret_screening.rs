//! Screening for secrets that the policy blocks. A call whose arguments contain one is refused. Tool output,
//! failure messages and progress notes that contain one are withheld.

use std::sync::{Mutex, PoisonError};

use governance::Policy;
use governance::rules::SecretRule;
use guardrail::ValidCall;
use serde_json::Value;
use telemetry::redact::{self, Redactor, SecretPattern, SecretPatternAction};
use tool::text::shorten;
use tool::{
    Arguments, Failure, FailureKind, Progress, ProgressNote, Refusal, RefusalCode, ToolOutput, canonical,
};

/// Maximum length in bytes of a failure message or hint. The output of other programs may control that text.
const MAX_FAILURE_TEXT: usize = 4096;
/// Bytes of earlier output that are scanned again, because a secret may be split between two notes.
const OVERLAP: usize = 4096;
const BLOCKED_SECRET_HINT: &str = "safety.yaml blocks this secret; the operator can read it outside Sinew";

/// Creates a redactor for the secrets that the policy describes, in addition to the built-in patterns.
pub fn redactor(policy: &Policy) -> Result<Redactor, telemetry::TelemetryError> {
    let pattern = |secret: SecretRule| SecretPattern {
        name: secret.name,
        pattern: secret.pattern,
        action: match secret.action {
            governance::files::SecretAction::Block => SecretPatternAction::Block,
            governance::files::SecretAction::Redact => SecretPatternAction::Redact,
            governance::files::SecretAction::Warn => SecretPatternAction::Warn,
        },
    };
    Redactor::new(policy.secrets().map(pattern).collect())
}

/// Installs the policy's patterns for this process. From then on they apply to every ledger record, log line
/// and span.
pub(crate) fn install_patterns(policy: &Policy) -> Result<(), telemetry::TelemetryError> {
    redact::set_shared(redactor(policy)?);
    Ok(())
}

/// Refuses arguments that contain a secret with the action `block`, and logs secrets with the action `warn`.
pub(crate) fn refuse_blocked(policy: &Policy, call: &ValidCall) -> Result<(), Box<Refusal>> {
    let redactor = redact::shared();
    let tool = call.definition().name();
    let mut blocked = None;
    for_each_text_in(call.arguments(), &mut |text| {
        blocked = blocked.take().or_else(|| redactor.first_blocking_pattern(text).map(str::to_owned));
        if let Some(name) = redactor.first_warning_pattern(text) {
            tracing::warn!(%tool, secret = name, "the arguments contain what looks like a secret");
        }
    });
    let Some(name) = blocked else { return Ok(()) };
    let reason = format!("Permission denied: Arguments contain a {name}");
    let mut refusal =
        Refusal::new(tool.as_str(), RefusalCode::ValidatorRejected, reason).with_detail("secret");
    refusal.retryable = false;
    refusal.rule = policy.secrets().find(|secret| secret.name == name).map(|secret| secret.rule);
    Err(Box::new(
        refusal.with_hint("remove the secret; name the file or the variable that contains it instead"),
    ))
}

/// Returns the failure for an output that contains a secret with the action `block`.
pub(crate) fn withheld_output(output: &ToolOutput) -> Option<Failure> {
    let name = [&output.value].into_iter().chain(&output.content).find_map(blocked_secret)?;
    let message = format!("the output is withheld: it contains a {name}");
    Some(Failure::new(FailureKind::Unreadable, message).with_hint(BLOCKED_SECRET_HINT))
}

/// Removes secrets with the action `block` from a failure, and limits it to the size of a regular output.
pub(crate) fn limit_failure(mut failure: Failure, max_output: u64) -> Failure {
    let redactor = redact::shared();
    let words = [Some(failure.message.as_str()), failure.hint.as_deref()];
    let in_words =
        words.into_iter().flatten().find_map(|text| redactor.first_blocking_pattern(text)).map(str::to_owned);
    let parts = || failure.output.iter().chain(&failure.content);
    if let Some(name) = in_words.or_else(|| parts().find_map(blocked_secret)) {
        let message = format!("the tool failed, and its message is withheld: it contains a {name}");
        let hint = Some(BLOCKED_SECRET_HINT.to_owned());
        return Failure { message, hint, output: None, content: Vec::new(), ..failure };
    }
    let bytes: u64 = parts().map(|part| canonical::bytes(part).len() as u64).sum();
    if bytes > max_output {
        (failure.output, failure.content) = (None, Vec::new());
        let left_out = format!("its output is omitted: it has {bytes} bytes, and policy allows {max_output}");
        failure.hint = Some(failure.hint.map_or(left_out.clone(), |hint| format!("{hint}; {left_out}")));
    }
    failure.message = shorten(&failure.message, MAX_FAILURE_TEXT).into_owned();
    failure.hint = failure.hint.map(|hint| shorten(&hint, MAX_FAILURE_TEXT).into_owned());
    failure
}

/// Wraps a progress listener. It forwards no more output once a secret with the action `block` has appeared.
pub(crate) fn screen_progress(progress: &Progress) -> Progress {
    if !progress.has_listener() {
        return Progress::default();
    }
    let (listener, screen) = (progress.clone(), Mutex::new(ProgressScreen::default()));
    Progress::with_listener(move |note| {
        // At worst, a panic elsewhere leaves a shorter overlap.
        let passed = screen.lock().unwrap_or_else(PoisonError::into_inner).screen(note);
        listener.report(passed);
    })
}

/// Most recent output, and the name of the secret found in it.
#[derive(Default)]
struct ProgressScreen {
    recent_output: String,
    secret_name: Option<String>,
}

impl ProgressScreen {
    fn screen(&mut self, note: ProgressNote) -> ProgressNote {
        let piece = note.data.as_ref().and_then(|data| data.get("content")?.as_str());
        self.recent_output.push_str(piece.unwrap_or_default());
        if self.secret_name.is_none() {
            let redactor = redact::shared();
            let found = redactor
                .first_blocking_pattern(&self.recent_output)
                .or_else(|| redactor.first_blocking_pattern(&note.message));
            let anywhere = || note.data.as_ref().and_then(blocked_secret);
            self.secret_name = found.map(str::to_owned).or_else(anywhere);
        }
        let settled = self.recent_output.ceil_char_boundary(self.recent_output.len().saturating_sub(OVERLAP));
        self.recent_output.drain(..settled);
        match &self.secret_name {
            None => note,
            Some(name) => {
                let message = format!("the output is withheld: it contains a {name}");
                ProgressNote { message, data: None, ..note }
            }
        }
    }
}

fn blocked_secret(value: &Value) -> Option<String> {
    let redactor = redact::shared();
    let mut blocked = None;
    for_each_text(value, &mut |text| {
        blocked = blocked.take().or_else(|| redactor.first_blocking_pattern(text).map(str::to_owned));
    });
    blocked
}

/// Calls `each` for every string in a value, including object keys, which the author of the value also
/// controls.
pub(crate) fn for_each_text(value: &Value, each: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter().for_each(|item| for_each_text(item, each)),
        Value::Object(map) => for_each_text_in(map, each),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn for_each_text_in(map: &Arguments, each: &mut impl FnMut(&str)) {
    for (key, value) in map {
        each(key);
        for_each_text(value, each);
    }
}
