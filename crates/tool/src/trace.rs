//! Identifiers of a call: its id and its W3C Trace Context, without any telemetry library. Also random
//! identifiers that cannot be guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::canonical;
use crate::text::SharedText;

/// Trace of a call, the span of the call itself, and the span of its caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceContext {
    /// Trace id: 32 lower-case hexadecimal digits.
    pub trace_id: SharedText,
    /// Span id of this call: 16 lower-case hexadecimal digits.
    pub span_id: SharedText,
    /// Span id of the caller, if the caller sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
    /// True if the caller samples the trace. Propagated, but not recorded.
    #[serde(skip, default = "sampled")]
    pub sampled: bool,
    /// Vendor data of other tracing systems (`tracestate`). Propagated, but not recorded.
    #[serde(skip)]
    pub trace_state: Option<String>,
}

/// Returns the default for a trace that starts in this process, in which the local sampler decides.
fn sampled() -> bool {
    true
}

impl TraceContext {
    /// Starts a new trace.
    pub fn root() -> Self {
        TraceContext {
            trace_id: new_trace_id(),
            span_id: new_span_id(),
            parent_span_id: None,
            sampled: sampled(),
            trace_state: None,
        }
    }

    /// Starts a new span below the caller's `traceparent`. A malformed header is ignored, as the standard
    /// requires: telemetry must never make a call fail.
    pub fn from_traceparent(header: &str) -> Self {
        parse_traceparent(header).map_or_else(TraceContext::root, |(trace_id, parent, sampled)| {
            TraceContext {
                trace_id: trace_id.into(),
                span_id: new_span_id(),
                parent_span_id: Some(parent.to_owned()),
                sampled,
                trace_state: None,
            }
        })
    }

    /// Adds the caller's `tracestate`. It is dropped if it is malformed or there is no parent span, as the
    /// standard requires.
    #[must_use]
    pub fn with_tracestate(self, header: &str) -> Self {
        let trace_state = self.parent_span_id.as_ref().and_then(|_| checked_tracestate(header));
        TraceContext { trace_state, ..self }
    }

    /// Returns the `traceparent` header for requests that this call makes.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// Returns the trace id, the caller's span id, and true if the caller samples.
fn parse_traceparent(header: &str) -> Option<(&str, &str, bool)> {
    let mut parts = header.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let whole = is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let set = trace.bytes().any(|b| b != b'0') && parent.bytes().any(|b| b != b'0');
    let sampled = u8::from_str_radix(flags, 16).ok()? & 1 == 1;
    (known && whole && set).then_some((trace, parent, sampled))
}

/// Checks the limits and characters of a list of `key=value` members.
fn checked_tracestate(header: &str) -> Option<String> {
    let is_key = |key: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-*/@".contains(&b);
        (1..=256).contains(&key.len()) && key.bytes().all(plain)
    };
    let is_value = |value: &str| {
        let plain = |b: u8| (b' '..=b'~').contains(&b) && b != b'=';
        (1..=256).contains(&value.len()) && value.bytes().all(plain)
    };
    let members: Vec<&str> = header.split(',').map(str::trim).filter(|member| !member.is_empty()).collect();
    let good =
        |member: &&str| member.split_once('=').is_some_and(|(key, value)| is_key(key) && is_value(value));
    let whole = header.len() <= 512 && (1..=32).contains(&members.len()) && members.iter().all(good);
    whole.then(|| members.join(","))
}

fn new_trace_id() -> SharedText {
    (&*Uuid::new_v4().simple().encode_lower(&mut Uuid::encode_buffer())).into()
}

fn new_span_id() -> SharedText {
    let mut buffer = Uuid::encode_buffer();
    let digits = Uuid::new_v4().simple().encode_lower(&mut buffer);
    // The first half of a random UUID contains the version digit, so it is never all zero.
    digits.get(..16).unwrap_or(digits).into()
}

/// Identifier of one call in the reply, the ledger, the logs and the spans. Sorts by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CallId(#[schemars(with = "String")] Uuid);

impl CallId {
    /// Generates a new id (UUID version 7).
    pub fn fresh() -> Self {
        CallId(Uuid::now_v7())
    }
}

impl std::fmt::Display for CallId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl std::str::FromStr for CallId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(CallId)
    }
}

/// Returns 128 random bits as 32 hexadecimal digits, for an id that must not be guessed.
pub fn random_id() -> String {
    // A version 4 UUID has 122 random bits. A digest of two of them has 128.
    let [first, second] = [Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
    let mut digest = canonical::sha256_hex(&[first, second].concat());
    digest.truncate(32);
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_traceparent_is_used_and_invalid_is_ignored() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::from_traceparent(good);
        assert_eq!(context.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
        assert!(context.sampled && context.traceparent().ends_with("-01"));
        let silent =
            TraceContext::from_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02");
        assert!(
            !silent.sampled && silent.traceparent().ends_with("-00"),
            "an unsampled trace stays unsampled"
        );
        for bad in [
            "",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra",
            "x\n00",
        ] {
            let context = TraceContext::from_traceparent(bad);
            assert_eq!(context.parent_span_id, None, "{bad:?}");
            assert_eq!((context.trace_id.len(), context.span_id.len()), (32, 16));
        }
    }

    #[test]
    fn tracestate_is_propagated_whole_or_dropped() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let check = |header: &str, expect: Option<&str>| {
            let context = TraceContext::from_traceparent(good).with_tracestate(header);
            assert_eq!(context.trace_state.as_deref(), expect, "{header:?}");
        };
        check("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
        check(" a@b/c=1 , ,x=y ", Some("a@b/c=1,x=y"));
        let many = vec!["a=b"; 33].join(",");
        let long = format!("a={}", "x".repeat(257));
        for bad in ["", ",", "a", "a=", "=b", "A=b", "a=b=c", "a=\u{7f}", "a=é", "a=b\nc", &many, &long] {
            check(bad, None);
        }
        assert_eq!(TraceContext::root().with_tracestate("a=b").trace_state, None, "no parent span");
    }
}
