//! Serialisation of decisions and outcomes: the fields of the call and of the record in one JSON object. It
//! gives the same bytes as `#[serde(flatten)]` without its buffering, which would slow down every call twice.

use serde::ser::{Serialize, SerializeStruct, Serializer};
use tool::json_text::write_some;

use super::{Call, Concluded, Decision, EndFacts, Outcome};

/// Minimum number of fields, used by serde as a size hint.
const FIELDS: usize = 9;

impl Serialize for Decision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Decision {
            call,
            risk,
            effect,
            decided_at,
            definition_hash,
            policy_hash,
            arguments_digest,
            idempotency_key,
            request_digest,
            approval_id,
            rules,
            facts,
        } = self;
        let mut out = serializer.serialize_struct("Decision", FIELDS)?;
        write_call(&mut out, call)?;
        out.serialize_field("risk", risk)?;
        out.serialize_field("effect", effect)?;
        write_some(&mut out, "decided_at", decided_at.as_ref())?;
        out.serialize_field("definition_hash", definition_hash)?;
        out.serialize_field("policy_hash", policy_hash)?;
        out.serialize_field("arguments_digest", arguments_digest)?;
        write_some(&mut out, "idempotency_key", idempotency_key.as_ref())?;
        write_some(&mut out, "request_digest", request_digest.as_ref())?;
        write_some(&mut out, "approval_id", approval_id.as_ref())?;
        write_some(&mut out, "rules", Some(rules).filter(|rules| !rules.is_empty()))?;
        write_some(&mut out, "facts", Some(facts).filter(|facts| !facts.is_none()))?;
        out.end()
    }
}

impl Serialize for Concluded {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Concluded { call, outcome } = self;
        let Outcome {
            status,
            failure,
            message,
            latency_us,
            output_digest,
            files_touched,
            truncated,
            usage,
            facts,
        } = outcome;
        let mut out = serializer.serialize_struct("Concluded", FIELDS)?;
        write_call(&mut out, call)?;
        out.serialize_field("outcome", status)?;
        write_some(&mut out, "failure", failure.as_ref())?;
        write_some(&mut out, "message", message.as_ref())?;
        out.serialize_field("latency_us", latency_us)?;
        write_some(&mut out, "output_digest", output_digest.as_ref())?;
        write_some(&mut out, "files_touched", Some(files_touched).filter(|files| !files.is_empty()))?;
        write_some(&mut out, "truncated", truncated.as_ref())?;
        out.serialize_field("usage", usage)?;
        write_some(&mut out, "facts", Some(facts).filter(|facts| **facts != EndFacts::default()))?;
        out.end()
    }
}

fn write_call<S: SerializeStruct>(out: &mut S, call: &Call) -> Result<(), S::Error> {
    let Call { call_id, tool, mode, caller, trace } = call;
    out.serialize_field("call_id", call_id)?;
    out.serialize_field("tool", tool)?;
    out.serialize_field("mode", mode)?;
    out.serialize_field("caller", caller)?;
    out.serialize_field("trace", trace)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;
    use serde::Serialize;
    use serde_json::{Value, json};
    use tool::json_text::{self, Texts};
    use tool::{CutUnit, FailureKind, RiskLevel, RuleRef, Truncation, Usage};

    use super::*;
    use crate::{
        entry::{Effect, Entry, Facts, StageTime, Status},
        line, samples,
    };

    /// Reference types that serialise with `flatten`.
    #[derive(Serialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Flattened<'a> {
        Decision(FlatDecision<'a>),
        Outcome(FlatEnd<'a>),
    }

    #[derive(Serialize)]
    struct FlatEnd<'a> {
        #[serde(flatten)]
        call: &'a Call,
        outcome: Status,
        #[serde(skip_serializing_if = "Option::is_none")]
        failure: Option<FailureKind>,
        #[serde(skip_serializing_if = "Option::is_none")]
        message: Option<&'a str>,
        latency_us: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        output_digest: Option<&'a str>,
        #[serde(skip_serializing_if = "<[String]>::is_empty")]
        files_touched: &'a [String],
        #[serde(skip_serializing_if = "Option::is_none")]
        truncated: Option<&'a Truncation>,
        usage: Usage,
        #[serde(skip_serializing_if = "says_nothing")]
        facts: &'a EndFacts,
    }

    fn says_nothing(facts: &&EndFacts) -> bool {
        **facts == EndFacts::default()
    }

    #[derive(Serialize)]
    struct FlatDecision<'a> {
        #[serde(flatten)]
        call: &'a Call,
        risk: RiskLevel,
        effect: Effect,
        #[serde(skip_serializing_if = "Option::is_none")]
        decided_at: Option<Timestamp>,
        definition_hash: &'a str,
        policy_hash: &'a str,
        arguments_digest: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        idempotency_key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        request_digest: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        approval_id: Option<&'a str>,
        #[serde(skip_serializing_if = "<[RuleRef]>::is_empty")]
        rules: &'a [RuleRef],
        #[serde(skip_serializing_if = "Facts::is_none")]
        facts: &'a Facts,
    }

    fn flattened(entry: &Entry) -> Flattened<'_> {
        match entry {
            Entry::Decision(decision) => Flattened::Decision(FlatDecision {
                call: &decision.call,
                risk: decision.risk,
                effect: decision.effect,
                decided_at: decision.decided_at,
                definition_hash: &decision.definition_hash,
                policy_hash: &decision.policy_hash,
                arguments_digest: &decision.arguments_digest,
                idempotency_key: decision.idempotency_key.as_deref(),
                request_digest: decision.request_digest.as_deref(),
                approval_id: decision.approval_id.as_deref(),
                rules: &decision.rules,
                facts: &decision.facts,
            }),
            Entry::Outcome(Concluded { call, outcome }) => Flattened::Outcome(FlatEnd {
                call,
                outcome: outcome.status,
                failure: outcome.failure,
                message: outcome.message.as_deref(),
                latency_us: outcome.latency_us,
                output_digest: outcome.output_digest.as_deref(),
                files_touched: &outcome.files_touched,
                truncated: outcome.truncated.as_ref(),
                usage: outcome.usage,
                facts: &outcome.facts,
            }),
            other => panic!("{other:?}"),
        }
    }

    /// Asserts that an entry has the same bytes as with `flatten` and `members` members, and that it reads
    /// back unchanged.
    #[track_caller]
    fn check(entry: &Entry, members: usize) {
        let mut bytes = Vec::new();
        json_text::append(&mut bytes, entry, Texts::Visible(line::is_hidden)).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert_eq!(text, serde_json::to_string(&flattened(entry)).unwrap());
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), *entry, "{text}");
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value.as_object().unwrap().len(), members, "{text}");
    }

    #[test]
    fn decision_fields_are_written_in_order_without_empty_ones() {
        let bare = Decision { facts: Facts::default(), ..samples::decided(&samples::call("t")) };
        check(&Entry::Decision(bare.clone()), 11);
        let whole = Decision {
            decided_at: Some(Timestamp::UNIX_EPOCH),
            idempotency_key: Some("k".into()),
            request_digest: Some("r".into()),
            approval_id: Some("a".into()),
            rules: vec![RuleRef { file: "f".into(), line: 1, id: "i".into() }],
            facts: Facts::Read(json!({"seen": true})),
            ..bare
        };
        check(&Entry::Decision(whole), 17);
    }

    #[test]
    fn outcome_fields_are_written_in_order_without_empty_ones() {
        let call = samples::call("t");
        let bare = Outcome::new(Status::Done, Duration::from_micros(3));
        let entry = |outcome: Outcome| Entry::Outcome(Concluded { call: call.clone(), outcome });
        check(&entry(bare.clone()), 9);
        let stage = StageTime { stage: "run".into(), start_us: 1, duration_us: 2 };
        let whole = Outcome {
            failure: Some(FailureKind::Io),
            message: Some("m".into()),
            output_digest: Some("o".into()),
            files_touched: vec!["f".into()],
            truncated: Some(Truncation {
                unit: CutUnit::default(),
                total: 9,
                returned: 1,
                how_to_continue: "h".into(),
            }),
            facts: EndFacts { stages: vec![stage], ..EndFacts::default() },
            ..bare
        };
        check(&entry(whole), 15);
    }
}
