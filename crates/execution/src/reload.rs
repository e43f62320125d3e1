//! Replaces the configuration snapshot while calls run, and records it. A change that loosens the policy requires
//! confirmation by the operator. Until then the accepted configuration applies, with everything that the change
//! tightens.
//!
//! A running call keeps its snapshot; a waiting call is judged again by the new one.

mod differences;
mod drift;
mod interim;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use ledger::entry::{ReloadEntry, ReloadResult};
use ledger::{Ledger, LedgerEntry};
use serde::Serialize;
use serde_json::json;
use telemetry::redact::{self, Redactor};
use telemetry::{TelemetryEvent, emit};
use tool::canonical;

use crate::config_snapshot::{ConfigSnapshot, ManifestProblem};
use crate::current_policy::CurrentPolicy;
use crate::layer::{Capacity, ToolExecutionLayer};
use crate::modes::ModeWatch;
use crate::secret_screening;

pub use policy_tools::{PolicyDifference, PolicyEffect};

pub use differences::curated_map_differences;
use differences::{PartDifference, SnapshotPart};
use interim::CandidateDifferences;

/// Rule for accepting a change that loosens the policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The change waits for the operator.
    Ask,
    /// The operator has confirmed the candidate with this digest.
    Confirmed(String),
    /// The settings require no confirmation.
    Always,
}

/// Outcome of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// Nothing changed.
    Unchanged,
    /// The new configuration is in effect.
    Applied,
    /// The new configuration loosens the policy and waits for the operator. What it tightens is in effect.
    Waiting,
    /// The new configuration is invalid; the previous one stays in effect.
    Rejected,
}

/// Report of a reload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReloadReport {
    /// Outcome.
    pub result: ReloadOutcome,
    /// Time of the reload.
    pub at: Timestamp,
    /// Digest of the candidate and its changes, so that the operator confirms exactly what was shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate: Option<String>,
    /// Differences from the configuration in effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ReportedChange>,
    /// Reason for a rejection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Manifests and tools that could not be loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<ManifestProblem>,
}

/// Difference in a report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReportedChange {
    /// Difference from the accepted configuration.
    #[serde(flatten)]
    pub difference: PolicyDifference,
    /// True if it waits for the operator and is not in effect.
    pub waits: bool,
}

/// Serialises reloads and keeps the last relevant report.
#[derive(Default)]
pub(crate) struct ReloadState {
    reload_lock: tokio::sync::Mutex<()>,
    last: Mutex<Option<ReloadReport>>,
    problems: Mutex<Vec<ManifestProblem>>,
    /// Version of the tool list. Clients that show the list fetch it again when it changes.
    tool_changes: tokio::sync::watch::Sender<u64>,
    /// Accepted snapshot, while a change waits and a stricter snapshot is in effect.
    accepted: Mutex<Option<Arc<ConfigSnapshot>>>,
}

impl ReloadState {
    /// Returns the manifests and tools that could not be loaded.
    pub(crate) fn problems(&self) -> Vec<ManifestProblem> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the list of manifests and tools that could not be loaded, and emits an event for each new one.
    pub(crate) fn set_problems(&self, problems: &[ManifestProblem]) {
        let mut known = self.problems.lock().unwrap_or_else(PoisonError::into_inner);
        for problem in problems.iter().filter(|problem| !known.contains(problem)) {
            let ManifestProblem { file, line, code, message } = problem;
            emit(TelemetryEvent::ManifestRejected { file, line: *line, code, message });
        }
        *known = problems.to_vec();
    }

    fn accepted(&self) -> MutexGuard<'_, Option<Arc<ConfigSnapshot>>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_last(&self) -> MutexGuard<'_, Option<ReloadReport>> {
        // The report is replaced as a whole, so a panic elsewhere cannot leave it inconsistent.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Report of the last reload that was applied, rejected or is waiting.
    pub(crate) fn last_report(&self) -> Option<ReloadReport> {
        self.lock_last().clone()
    }

    /// Stores a report without the excerpts of the files, which only the client that requested the reload may
    /// see. Returns true if the report differs from the last one.
    fn store(&self, report: &ReloadReport) -> bool {
        let error = report.error.as_deref().map(without_excerpts);
        let report = ReloadReport { error, ..report.clone() };
        let mut last = self.lock_last();
        let is_news = last.as_ref().is_none_or(|last| {
            (last.result, &last.candidate, &last.error) != (report.result, &report.candidate, &report.error)
        });
        *last = Some(report);
        is_news
    }
}

/// Returns true if the change from `old` to `new` loosens anything, or if that cannot be determined.
pub fn loosens(old: &ConfigSnapshot, new: &ConfigSnapshot) -> bool {
    differences::all_differences(old, new).iter().any(|(_, change)| change.effect == PolicyEffect::Loosens)
}

/// Returns the snapshot in effect while the change from `accepted` to `files` waits for the operator, or `files` if
/// the change does not have to wait.
pub fn in_effect(accepted: &ConfigSnapshot, files: ConfigSnapshot) -> ConfigSnapshot {
    let found = differences::all_differences(accepted, &files);
    match found.iter().any(|(_, change)| change.effect == PolicyEffect::Loosens) {
        true => CandidateDifferences(&found).interim(accepted, files),
        false => files,
    }
}

/// Removes the file excerpts from an error. A stored error must not contain what a person mistyped, which may
/// be a secret.
fn without_excerpts(error: &str) -> String {
    let is_excerpt = |line: &&str| {
        let numbered = line.trim_start().trim_start_matches(|c: char| c.is_ascii_digit());
        line.starts_with(' ') && (numbered.starts_with(" | ") || numbered.starts_with("| "))
    };
    error.lines().filter(|line| !is_excerpt(line)).collect::<Vec<_>>().join("\n")
}

impl ToolExecutionLayer {
    /// Applies a new snapshot, or reports why it was not applied. `other_changes` are differences outside the
    /// snapshot, for the report and the decision.
    pub async fn reload(
        &self,
        candidate: ConfigSnapshot,
        other_changes: Vec<PolicyDifference>,
        acceptance: &Acceptance,
    ) -> ReloadReport {
        let _turn = self.reloads.reload_lock.lock().await;
        let cx = ReloadContext::of(self);
        let accepted = cx.reloads.accepted().clone().unwrap_or_else(|| cx.current.snapshot.load_full());
        cx.reloads.set_problems(&candidate.problems);
        let mut found = differences::all_differences(&accepted, &candidate);
        found.extend(other_changes.into_iter().map(|change| (SnapshotPart::Settings, change)));
        if found.is_empty() {
            return cx.report_unchanged(accepted);
        }
        // The digest covers the candidate and everything shown about it. Other changes outside the snapshot,
        // or another accepted configuration, make it a different candidate.
        let changes: Vec<&PolicyDifference> = found.iter().map(|(_, change)| change).collect();
        let digest = canonical::sha256_hex(&canonical::bytes(&json!([candidate.fingerprint(), changes])));
        let loosens = changes.iter().any(|change| change.effect == PolicyEffect::Loosens);
        let agreed = match acceptance {
            Acceptance::Ask => false,
            Acceptance::Confirmed(seen) => *seen == digest,
            Acceptance::Always => true,
        };
        let is_waiting = loosens && !agreed;
        let waiting = CandidateDifferences(&found);
        let reported = |found: &PartDifference| ReportedChange {
            difference: found.1.clone(),
            waits: is_waiting && waiting.waits(found),
        };
        let report = ReloadReport {
            result: if is_waiting { ReloadOutcome::Waiting } else { ReloadOutcome::Applied },
            at: Timestamp::now(),
            candidate: Some(digest),
            changes: found.iter().map(reported).collect(),
            error: None,
            problems: candidate.problems.clone(),
        };
        match is_waiting {
            true => cx.hold(accepted, &waiting, candidate, report).await,
            false => cx.apply(candidate, report, loosens).await,
        }
    }

    /// Reports that the configuration files are invalid. The previous configuration stays in effect, and the
    /// status shows the error.
    pub async fn reject_reload(&self, error: String) -> ReloadReport {
        let _turn = self.reloads.reload_lock.lock().await;
        let report = ReloadReport {
            result: ReloadOutcome::Rejected,
            at: Timestamp::now(),
            candidate: None,
            changes: Vec::new(),
            error: Some(error),
            problems: Vec::new(),
        };
        if self.reloads.store(&report) {
            let error = report.error.as_deref().map(without_excerpts);
            tracing::error!(error, "reload_rejected: the last valid configuration stays in effect");
            ReloadContext::of(self).record_not_applied(&report, ReloadResult::Rejected).await;
        }
        report
    }

    /// Subscribes to changes of the tool list.
    pub fn tool_changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.reloads.tool_changes.subscribe()
    }
}

/// Parts of the layer that a reload uses.
struct ReloadContext<'a> {
    reloads: &'a ReloadState,
    current: &'a CurrentPolicy,
    watch: &'a ModeWatch,
    capacity: &'a Capacity,
    ledger: &'a Ledger,
}

impl<'a> ReloadContext<'a> {
    fn of(layer: &'a ToolExecutionLayer) -> Self {
        ReloadContext {
            reloads: &layer.reloads,
            current: &layer.current,
            watch: &layer.modes.watch,
            capacity: &layer.capacity,
            ledger: &layer.recorder.ledger,
        }
    }

    /// Keeps a change for the operator, and applies what it tightens.
    async fn hold(
        &self,
        accepted: Arc<ConfigSnapshot>,
        waiting: &CandidateDifferences<'_>,
        candidate: ConfigSnapshot,
        mut report: ReloadReport,
    ) -> ReloadReport {
        let interim = waiting.interim(&accepted, candidate);
        *self.reloads.accepted() = Some(accepted);
        if interim.fingerprint() != self.current.snapshot.load().fingerprint() {
            match secret_screening::redactor(&interim.policy) {
                Ok(redactor) => self.install(Arc::new(interim), redactor),
                Err(error) => {
                    report.changes.iter_mut().for_each(|change| change.waits = true);
                    report.error = Some(format!("the part that tightens could not be applied: {error}"));
                }
            }
        }
        if self.reloads.store(&report) {
            tracing::warn!(
                "reload_waiting: it loosens the policy; run `sinew reload --accept` to review and apply it"
            );
            self.record_not_applied(&report, ReloadResult::Waiting).await;
        }
        report
    }

    /// Reports that the files match the accepted configuration, and clears a waiting or rejected report. If a change
    /// was waiting, what it tightened no longer applies.
    fn report_unchanged(&self, accepted: Arc<ConfigSnapshot>) -> ReloadReport {
        let was_waiting = self.reloads.accepted().take().is_some();
        if let Some(redactor) = secret_screening::redactor(&accepted.policy).ok().filter(|_| was_waiting) {
            self.install(accepted, redactor);
        }
        let mut last = self.reloads.lock_last();
        if last.as_ref().is_some_and(|last| last.result != ReloadOutcome::Applied) {
            *last = None;
        }
        let (result, at) = (ReloadOutcome::Unchanged, Timestamp::now());
        let problems = self.reloads.problems();
        ReloadReport { result, at, candidate: None, changes: Vec::new(), error: None, problems }
    }

    /// Applies a snapshot. A change that loosens the policy is recorded before it takes effect; a change that
    /// only tightens it takes effect first.
    async fn apply(&self, snapshot: ConfigSnapshot, report: ReloadReport, loosens: bool) -> ReloadReport {
        let hash = snapshot.policy.hash().to_owned();
        // Created first and installed last, so that a reload that is not applied leaves the secret patterns
        // unchanged.
        let made = secret_screening::redactor(&snapshot.policy).map_err(|error| error.to_string());
        let ready = match made {
            Ok(redactor) if loosens => {
                record_reload(self.ledger, &report, ReloadResult::Applied, &hash).await.map(|()| redactor)
            }
            made => made,
        };
        let redactor = match ready {
            Ok(redactor) => redactor,
            Err(error) => {
                let error = format!("it could not be applied: {error}");
                let report = ReloadReport { result: ReloadOutcome::Rejected, error: Some(error), ..report };
                self.reloads.store(&report);
                return report;
            }
        };
        *self.reloads.accepted() = None;
        self.install(Arc::new(snapshot), redactor);
        self.reloads.store(&report);
        tracing::info!(changes = report.changes.len(), "reload_applied");
        if !loosens
            && let Err(error) = record_reload(self.ledger, &report, ReloadResult::Applied, &hash).await
        {
            tracing::error!(error, "the reload is in effect, but could not be recorded");
        }
        report
    }

    /// Puts a snapshot into effect.
    fn install(&self, snapshot: Arc<ConfigSnapshot>, redactor: Redactor) {
        redact::set_shared(redactor);
        let tools_changed =
            !differences::tool_differences(&self.current.snapshot.load(), &snapshot).is_empty();
        let rules = snapshot.policy.transitions();
        self.current.snapshot.store(snapshot);
        self.watch.machine().set_rules(rules);
        self.capacity.limits.set_capacity(self.current.max_running_calls());
        self.current.changes.send_modify(|changes| *changes += 1);
        self.watch.wake();
        if tools_changed {
            self.reloads.tool_changes.send_modify(|changes| *changes += 1);
        }
    }

    /// Records a reload that was not applied, with the hash of the policy that stays in effect.
    async fn record_not_applied(&self, report: &ReloadReport, result: ReloadResult) {
        let hash = self.current.snapshot.load().policy.hash().to_owned();
        if let Err(error) = record_reload(self.ledger, report, result, &hash).await {
            tracing::error!(error, "a reload that was not applied could not be recorded");
        }
    }
}

async fn record_reload(
    ledger: &Ledger,
    report: &ReloadReport,
    result: ReloadResult,
    policy_hash: &str,
) -> Result<(), String> {
    let reason = report.error.as_deref().map(without_excerpts);
    let reason = reason.map(|text| redact::shared().redact_text(&text).into_owned());
    let policy_hash = policy_hash.to_owned();
    let entry = ReloadEntry { result, policy_hash, reason, changes: json!(report.changes) };
    let written = ledger.append_durably(&LedgerEntry::Reload(entry)).await;
    written.map(|_| ()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::without_excerpts;

    #[test]
    fn recorded_error_has_no_file_excerpts() {
        let error =
            "a.yaml:12:1: unknown key `b`\n 12 | b: secret\n    | ^\n  help: did you mean `c`? (d | e)";
        let expect = "a.yaml:12:1: unknown key `b`\n  help: did you mean `c`? (d | e)";
        assert_eq!(without_excerpts(error), expect);
    }
}
