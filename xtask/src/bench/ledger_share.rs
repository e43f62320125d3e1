//! Share of the ledger in the time of a read call, by the daemon's own clock: no estimate and no other build.
//!
//! The decision takes from the permit until its record is in the kernel, including building and redacting the
//! record. The end takes from the end of the tool until its record is in the kernel, including the digest of
//! the answer. The record of an end cannot contain its own duration. That is the latency in the reply, which
//! is taken after the write, minus the latency in the record, which is taken when the tool ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::results::{Bound, Results};

/// Average rounding error in microseconds: the clock rounds down to whole microseconds.
const ROUNDED_OFF: f64 = 0.5;

/// Unparsed replies of one lane. They are parsed after the last one, because work between two calls is part
/// of the measurement and must not be more for one lane than for the others.
#[derive(Default)]
pub(crate) struct Replies(Vec<String>);

impl Replies {
    pub(crate) fn keep(&mut self, answer: &str) {
        self.0.push(answer.to_owned());
    }

    /// Latencies in microseconds at the time of the reply, by call id.
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

/// Adds the figures of both parts and of their sum.
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
    results.add(group, "  of Sinew's time: write the decision", decisions);
    results.add(group, "  of Sinew's time: write the outcome", ends);
    let both = results.add(group, "  of Sinew's time: both ledger writes", sums);
    results.claim("ledger overhead of a read, p50", Some(both), "µs", Bound::AtMost(15.0));
    Ok(())
}

/// Duration of recording the decision, in microseconds.
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
