//! Comparison of two results without values that depend on the time or the caller.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keys whose values differ between runs. Outputs are compared directly and not by their digest, which covers
/// file times. The digests of an idempotency key cover the caller and its working directory.
const VOLATILE_KEYS: [&str; 29] = [
    "approval_id",
    "requested_at",
    "at",
    "call_id",
    "request_digest",
    "confine_ms",
    "counts",
    "cpu_ms",
    "expires_at",
    "hash",
    "idempotency_key",
    "latency_us",
    "max_memory_bytes",
    "max_rss_bytes",
    "modified",
    "of",
    "output_digest",
    "prev",
    "remaining",
    "repeat_of",
    "request_digest",
    "retry_after_ms",
    "seq",
    "span_id",
    "stages",
    "time",
    "trace",
    "trace_id",
    "until",
];
/// Bytes that a sandboxed program reads at its start depend on the page cache.
const VOLATILE_IN_SANDBOX: &str = "read_bytes";

/// Removes values that depend on the time, the caller or the endpoint.
pub(super) fn without_volatile(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let confined = fields.contains_key("confine_ms") || fields.contains_key("max_memory_bytes");
            let passes = |key: &str| VOLATILE_KEYS.contains(&key) || (confined && key == VOLATILE_IN_SANDBOX);
            let kept = fields.into_iter().filter(|(key, _)| !passes(key));
            let reported = kept.map(|(key, value)| {
                let reported = if key == "caller" { value["uid"].clone() } else { without_volatile(value) };
                (key, reported)
            });
            Value::Object(reported.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_volatile).collect()),
        other => other,
    }
}

/// Lists the paths at which two values differ, with both values.
pub(super) fn differences(place: &str, ours: &Value, theirs: &Value) -> Vec<String> {
    match (ours, theirs) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            let below = |key: &String| differences(&format!("{place}/{key}"), &ours[key], &theirs[key]);
            keys.into_iter().flat_map(below).collect()
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let pairs = one.iter().zip(other).enumerate();
            pairs
                .flat_map(|(index, (one, other))| differences(&format!("{place}/{index}"), one, other))
                .collect()
        }
        _ if ours == theirs => Vec::new(),
        _ => vec![format!("{place}: {ours} and {theirs}")],
    }
}
