//! Secrets that the policy blocks: a call that carries one is refused, an answer that carries one is withheld.

use governance::{Policy, SecretRule};
use guardrail::ValidCall;
use serde_json::Value;
use telemetry::redact::{self, Action, Redactor, SecretPattern};
use tool::{Arguments, Failure, FailureKind, Refusal, RefusalCode};

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
    let redactor = redact::shared();
    let mut blocked = None;
    for_each_text(answer, &mut |text| {
        blocked = blocked.take().or_else(|| redactor.blocked(text).map(str::to_owned));
    });
    blocked.map(|name| {
        Failure::new(FailureKind::Unreadable, format!("the answer is withheld: it contains a {name}"))
            .hint("safety.yaml blocks it; a human can look at it elsewhere")
    })
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
