//! What a record can be found by, read from its line without building the whole entry. Pure.

use serde::Deserialize;

use jiff::Timestamp;

/// The findable parts of a record.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Facets {
    pub(crate) seq: u64,
    /// Milliseconds since 1970.
    pub(crate) time: i64,
    pub(crate) kind: String,
    pub(crate) tool: Option<String>,
    pub(crate) outcome: Option<String>,
    pub(crate) mode: Option<String>,
    pub(crate) caller: Option<String>,
    pub(crate) session: Option<String>,
    pub(crate) trace: Option<String>,
    pub(crate) call: Option<String>,
    pub(crate) idempotency_key: Option<String>,
    /// The first record that is kept, in a retention entry.
    pub(crate) kept_from: Option<u64>,
}

#[derive(Deserialize)]
struct Raw {
    seq: u64,
    time: Timestamp,
    kind: String,
    tool: Option<String>,
    outcome: Option<String>,
    mode: Option<String>,
    to: Option<serde_json::Value>,
    caller: Option<RawCaller>,
    trace: Option<RawTrace>,
    call_id: Option<String>,
    idempotency_key: Option<String>,
    id: Option<String>,
    first: Option<u64>,
}

#[derive(Deserialize)]
struct RawCaller {
    uid: u32,
    client: Option<String>,
    session: Option<String>,
}

#[derive(Deserialize)]
struct RawTrace {
    trace_id: String,
}

impl Facets {
    /// Reads a line without its newline.
    pub(crate) fn parse(line: &[u8]) -> Option<Facets> {
        let raw: Raw = serde_json::from_slice(line).ok()?;
        let of = |kind: &str| raw.kind == kind;
        let outcome = if of("refusal") { Some("refused".to_owned()) } else { raw.outcome };
        let entered = raw.to.filter(|_| raw.kind == "mode");
        let mode = raw.mode.or_else(|| entered?.as_str().map(str::to_owned));
        let (mut caller, mut session) = (None, None);
        if let Some(found) = raw.caller {
            caller = Some(found.client.unwrap_or_else(|| format!("uid {}", found.uid)));
            session = found.session;
        }
        Some(Facets {
            session: if raw.kind == "session" { raw.id } else { session },
            kept_from: raw.first.filter(|_| raw.kind == "retention"),
            seq: raw.seq,
            time: raw.time.as_millisecond(),
            kind: raw.kind,
            tool: raw.tool,
            outcome,
            mode,
            caller,
            trace: raw.trace.map(|trace| trace.trace_id),
            call: raw.call_id,
            idempotency_key: raw.idempotency_key,
        })
    }
}
