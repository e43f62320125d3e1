//! What the ledger takes of a read call, by the daemon's own clock: not an estimate, and not another build.
//!
//! The decision: from the permit to the record in the kernel, with what is built and redacted for it. The end: from
//! the end of the tool to the record in the kernel, with the digest of the answer. The record of an end cannot hold how long
//! it took itself, but the reply says when it was written, and the record when the tool was done.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::results::{Bound, Results};

/// The clock counts whole microseconds, rounded down: half of one is what that leaves out on average.
const ROUNDED_OFF: f64 = 0.5;

/// The replies of one lane, as they came. Read only when all have come: what is done between two calls is part of what
/// is measured, and must be no more for one lane than for the others.
#[derive(Default)]
pub(crate) struct Replies(Vec<String>);

impl Replies {
    pub(crate) fn keep(&mut self, answer: &str) {
        self.0.push(answer.to_owned());
    }

    /// How long each call took when its reply was made, in microseconds, by the call.
    fn latencies(&self) -> Result<HashMap<String, f64>> {
        self.0.iter().map(|answer| Self::latency(answer)).collect()
    }

    fn latency(answer: &str) -> Result<(String, f64)> {
        let answer: Value = serde_json::from_str(answer)?;
        let read = || {
            let id = answer.pointer("/result/metadata/call_id")?.as_str()?;
            let latency = answer.pointer("/result/latency_ms")?.as_f64()?;
            Some((id.to_owned(), latency * 1e3))
        };
        read().context("a reply names its call and how long it took")
    }
}

/// Adds both parts and their sum.
pub(crate) fn add(
    ledger: &Path,
    replies: &Replies,
    group: &'static str,
    results: &mut Results,
) -> Result<()> {
    let latencies = replies.latencies()?;
    let (mut decisions, mut ends, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    for segment in segments(ledger)? {
        let text = std::fs::read_to_string(segment)?;
        for line in text.lines().filter(|line| line.contains("\"outcome\":\"done\"")) {
            let record: Value = serde_json::from_str(line)?;
            let id = record.get("call_id").and_then(Value::as_str).unwrap_or_default();
            let Some(replied) = latencies.get(id) else { continue };
            let decision =
                decision(&record).context("a record says how long its decision took")? + ROUNDED_OFF;
            let ran = record.get("latency_us").and_then(Value::as_f64).context("a record has a latency")?;
            let end = replied - ran - ROUNDED_OFF;
            decisions.push(decision);
            ends.push(end);
            sums.push(decision + end);
        }
    }
    anyhow::ensure!(
        sums.len() == latencies.len(),
        "{} of {} replies are on record",
        sums.len(),
        latencies.len()
    );
    results.add(group, "  of Sinew's: the decision into the ledger", decisions);
    results.add(group, "  of Sinew's: the end into the ledger", ends);
    let both = results.add(group, "  of Sinew's: both, what the ledger adds", sums);
    results.claim("what the ledger adds to a read, p50", Some(both), "µs", Bound::AtMost(15.0));
    Ok(())
}

/// How long the decision took to be recorded.
fn decision(record: &Value) -> Option<f64> {
    let stages = record.pointer("/facts/stages")?.as_array()?;
    let of_record = |stage: &&Value| stage.get("stage").and_then(Value::as_str) == Some("record");
    stages.iter().find(of_record)?.get("duration_us")?.as_f64()
}

fn segments(ledger: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(ledger)?.filter_map(|entry| Some(entry.ok()?.path()));
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "ndjson");
    Ok(entries.filter(is_segment).collect())
}
