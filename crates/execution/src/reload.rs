//! Replacing the world while calls run: whole or not at all, on record, and what loosens only when a human agrees.
//!
//! A call keeps the world it began in; one that waits is judged again by the new one.

mod differences;
mod drift;

use std::sync::{Mutex, MutexGuard, PoisonError};

use governance::{Difference, Effect};
use jiff::Timestamp;
use ledger::Entry;
use ledger::entry::{Reload, ReloadResult};
use serde::Serialize;
use serde_json::json;
use telemetry::redact;
use tool::canonical;

use crate::content;
use crate::layer::ToolExecutionLayer;
use crate::world::World;

pub use differences::between_maps;

/// Whether a change that loosens is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// It waits for a human.
    Ask,
    /// A human has seen this very candidate, by its digest.
    Seen(String),
    /// The settings say that nobody needs to be asked.
    Always,
}

/// What became of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reloaded {
    /// Nothing had changed.
    Unchanged,
    /// It holds.
    Applied,
    /// It loosens something and waits for a human; what held before holds.
    Waiting,
    /// It cannot be used; what held before holds.
    Rejected,
}

/// What a reload found and did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReloadReport {
    /// What became of it.
    pub result: Reloaded,
    /// When.
    pub at: Timestamp,
    /// Names what was read, so that a human accepts what was shown and nothing else.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// What is different.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Difference>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One reload at a time, and what became of the last that mattered.
#[derive(Default)]
pub(crate) struct Reloads {
    turn: tokio::sync::Mutex<()>,
    last: Mutex<Option<ReloadReport>>,
}

impl Reloads {
    fn last(&self) -> MutexGuard<'_, Option<ReloadReport>> {
        // Replaced whole, so a panic elsewhere cannot have broken it.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last reload that left something to say: it was rejected, it waits, or it holds.
    pub(crate) fn report(&self) -> Option<ReloadReport> {
        self.last().clone()
    }

    /// Keeps a report, without the lines of the files: those are for whoever asked for the reload, and for nobody who only
    /// asks how the daemon is. Whether it says what the last one did not.
    fn keep(&self, report: &ReloadReport) -> bool {
        let error = report.error.as_deref().map(without_excerpts);
        let report = ReloadReport { error, ..report.clone() };
        let mut last = self.last();
        let is_news = last.as_ref().is_none_or(|last| {
            (last.result, &last.candidate, &last.error) != (report.result, &report.candidate, &report.error)
        });
        *last = Some(report);
        is_news
    }
}

/// Whether going from one world to the other loosens anything, or nobody can say.
pub fn loosens(old: &World, new: &World) -> bool {
    differences::between(old, new).iter().any(|change| change.effect == Effect::Loosens)
}

/// What is wrong and where, without the lines of the file: what is kept for long should not have what a person mistyped.
fn without_excerpts(error: &str) -> String {
    let is_excerpt = |line: &&str| {
        let numbered = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with(' ') && (numbered.starts_with(" | ") || numbered.starts_with("| "))
    };
    error.lines().filter(|line| !is_excerpt(line)).collect::<Vec<_>>().join("\n")
}

impl ToolExecutionLayer {
    /// Takes a new world, or says why not. `beside` is what changed outside of it, for the report and the decision.
    pub async fn reload(
        &self,
        candidate: World,
        beside: Vec<Difference>,
        acceptance: &Acceptance,
    ) -> ReloadReport {
        let _turn = self.reloads.turn.lock().await;
        let old = self.world.load_full();
        let mut changes = differences::between(&old, &candidate);
        changes.extend(beside);
        // What is read, and all that is shown of it: what changed beside the world, or what it is compared with, makes
        // it another candidate.
        let shown = json!([candidate.fingerprint(), changes]);
        let digest = canonical::sha256_hex(&canonical::bytes(&shown));
        let report = |result| ReloadReport {
            result,
            at: Timestamp::now(),
            candidate: Some(digest.clone()),
            changes: changes.clone(),
            error: None,
        };
        if changes.is_empty() {
            return self.leave_as_is();
        }
        let loosens = changes.iter().any(|change| change.effect == Effect::Loosens);
        let agreed = match acceptance {
            Acceptance::Ask => false,
            Acceptance::Seen(seen) => *seen == digest,
            Acceptance::Always => true,
        };
        if loosens && !agreed {
            let report = report(Reloaded::Waiting);
            if self.reloads.keep(&report) {
                tracing::warn!(
                    "reload_waiting: it loosens something; `sinew reload --accept` shows and takes it"
                );
                self.record_untaken(&report, ReloadResult::Waiting).await;
            }
            return report;
        }
        self.take(candidate, report(Reloaded::Applied), loosens).await
    }

    /// What was read cannot be used: what held before holds, and everybody can see why.
    pub async fn reject_reload(&self, error: String) -> ReloadReport {
        let _turn = self.reloads.turn.lock().await;
        let report = ReloadReport {
            result: Reloaded::Rejected,
            at: Timestamp::now(),
            candidate: None,
            changes: Vec::new(),
            error: Some(error),
        };
        if self.reloads.keep(&report) {
            let error = report.error.as_deref().map(without_excerpts);
            tracing::error!(error, "reload_rejected: the last good configuration holds");
            self.record_untaken(&report, ReloadResult::Rejected).await;
        }
        report
    }

    /// The files are again what they were: nothing waits and nothing is wrong any more.
    fn leave_as_is(&self) -> ReloadReport {
        let mut last = self.reloads.last();
        if last.as_ref().is_some_and(|last| last.result != Reloaded::Applied) {
            *last = None;
        }
        let (result, at) = (Reloaded::Unchanged, Timestamp::now());
        ReloadReport { result, at, candidate: None, changes: Vec::new(), error: None }
    }

    /// What loosens is on record before it holds; what only tightens does not wait for the record.
    async fn take(&self, world: World, report: ReloadReport, loosens: bool) -> ReloadReport {
        let hash = world.policy.hash().to_owned();
        // Made first and shared last: what is not taken leaves the patterns of secrets as they were.
        let made = content::redactor(&world.policy).map_err(|error| error.to_string());
        let ready = match made {
            Ok(redactor) if loosens => {
                self.record_reload(&report, ReloadResult::Applied, &hash).await.map(|()| redactor)
            }
            made => made,
        };
        let redactor = match ready {
            Ok(redactor) => redactor,
            Err(error) => {
                let error = format!("it could not be taken: {error}");
                let report = ReloadReport { result: Reloaded::Rejected, error: Some(error), ..report };
                self.reloads.keep(&report);
                return report;
            }
        };
        redact::share(redactor);
        let tools_changed = !differences::between_tools(&self.world.load(), &world).is_empty();
        let rules = world.policy.transitions();
        self.world.store(world.into());
        self.watch.machine().follow(rules);
        self.limits.set_places(self.places());
        self.changes.send_modify(|changes| *changes += 1);
        self.watch.wake();
        if tools_changed {
            self.tool_changes.send_modify(|changes| *changes += 1);
        }
        self.reloads.keep(&report);
        tracing::info!(changes = report.changes.len(), "reload_applied");
        if !loosens && let Err(error) = self.record_reload(&report, ReloadResult::Applied, &hash).await {
            tracing::error!(error, "the reload holds, but could not be recorded");
        }
        report
    }

    /// A reload that is not taken: the policy that holds after it is the one before it.
    async fn record_untaken(&self, report: &ReloadReport, result: ReloadResult) {
        let hash = self.world.load().policy.hash().to_owned();
        if let Err(error) = self.record_reload(report, result, &hash).await {
            tracing::error!(error, "a reload that was not taken could not be recorded");
        }
    }

    async fn record_reload(
        &self,
        report: &ReloadReport,
        result: ReloadResult,
        policy_hash: &str,
    ) -> Result<(), String> {
        let reason = report.error.as_deref().map(without_excerpts);
        let reason = reason.map(|text| redact::shared().redact_text(&text).into_owned());
        let policy_hash = policy_hash.to_owned();
        let entry = Reload { result, policy_hash, reason, changes: json!(report.changes) };
        let written = self.ledger.append_durably(&Entry::Reload(entry)).await;
        written.map(|_| ()).map_err(|error| error.to_string())
    }

    /// Follows changes of the list of tools.
    pub fn tool_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.tool_changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::without_excerpts;

    #[test]
    fn what_is_recorded_has_no_line_of_the_file() {
        let error =
            "a.yaml:12:1: unknown key `b`\n 12 | b: secret\n    | ^\n  help: did you mean `c`? (d | e)";
        let expect = "a.yaml:12:1: unknown key `b`\n  help: did you mean `c`? (d | e)";
        assert_eq!(without_excerpts(error), expect);
    }
}
