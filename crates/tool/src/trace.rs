//! Where a call stands in a distributed trace (W3C Trace Context), without any telemetry library.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The trace a call belongs to, the span that is the call itself, and the span that asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceContext {
    /// 32 lower-case hexadecimal digits.
    pub trace_id: String,
    /// 16 lower-case hexadecimal digits: this call.
    pub span_id: String,
    /// The caller's span, when it told us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent_span_id: Option<String>,
}

impl TraceContext {
    /// A new trace that starts here.
    pub fn root() -> Self {
        TraceContext { trace_id: hex(Uuid::new_v4()), span_id: span(), parent_span_id: None }
    }

    /// A new span below the caller's `traceparent`. A malformed header is ignored, as the standard asks:
    /// telemetry must never be the reason a call fails.
    pub fn from_traceparent(header: &str) -> Self {
        parse(header).map_or_else(TraceContext::root, |(trace_id, parent)| TraceContext {
            trace_id: trace_id.to_owned(),
            span_id: span(),
            parent_span_id: Some(parent.to_owned()),
        })
    }

    /// The header to hand on to whatever this call calls.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace_id, self.span_id)
    }
}

fn parse(header: &str) -> Option<(&str, &str)> {
    let mut parts = header.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |text: &str, digits: usize| {
        text.len() == digits && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let known = is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
    let whole = is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
    let set = trace.bytes().any(|b| b != b'0') && parent.bytes().any(|b| b != b'0');
    (known && whole && set).then_some((trace, parent))
}

fn span() -> String {
    let mut digits = hex(Uuid::new_v4());
    // The first half of a random UUID holds the version digit, so it is never all zero.
    digits.truncate(16);
    digits
}

fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_good_header_and_ignores_a_bad_one() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::from_traceparent(good);
        assert_eq!(context.trace_id, "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.parent_span_id.as_deref(), Some("00f067aa0ba902b7"));
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
}
