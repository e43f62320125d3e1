//! Connects tools to the execution layer that runs them: status and self-checks for the introspection tools,
//! and the entry of the pipeline for meta tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Instant;

use approvals::ApprovalMode;
use connectors::PipelineEntry;
use execution::{CallRequest, ConnectionLoss, CuratedMapCheck, ToolExecutionLayer};
use governance::files::VerdictKind;
use sandbox::Sandbox;
use serde_json::Value;
use tool::Progress;
use tool::result::SandboxTier;
use toolbox::{Internals, InternalsSource, LedgerHealth, RuntimeStatus, SelfCheckResult, ToolVerdict};

/// Disk usage above which the ledger's disk counts as full.
const DISK_FULL_PERCENT: f64 = 97.0;

/// Registers this layer as the source of the introspection tools. `state` is an existing private folder.
pub(crate) fn connect_introspection(layer: &Arc<ToolExecutionLayer>, state: &Path) {
    // Weak references: the layer owns the tools, so a strong one would be a cycle.
    let (for_status, for_checks) = (Arc::downgrade(layer), Arc::downgrade(layer));
    let state: PathBuf = state.to_owned();
    Internals::of_this_process().set_source(InternalsSource {
        status: Box::new(move || for_status.upgrade().map(|layer| runtime_status(&layer))),
        checks: Box::new(move || self_checks(&for_checks, &state)),
    });
}

/// Runs the inner calls of meta tools through the pipeline of this layer, on behalf of the original caller.
pub(crate) fn connect_pipeline(layer: &Arc<ToolExecutionLayer>, pipeline_entry: &PipelineEntry) {
    let layer = Arc::downgrade(layer);
    pipeline_entry.connect(move |call| {
        let layer = layer.upgrade()?;
        let request = CallRequest {
            tool_name: call.tool,
            arguments: Value::Object(call.arguments),
            caller: call.caller,
            trace: call.trace,
            deadline: Some(call.deadline),
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: CuratedMapCheck::Applied,
            idempotency_key: None,
            cancellation: Default::default(),
            approval_mode: ApprovalMode::Wait,
            approval_id: None,
            connection_loss: ConnectionLoss::StopsCall,
        };
        Some(Box::pin(async move {
            // Dropping the future cancels the call.
            let _waiting = request.cancellation.clone().drop_guard();
            layer.execute_inner(request).await
        }))
    });
}

fn runtime_status(layer: &ToolExecutionLayer) -> RuntimeStatus {
    let status = layer.status();
    let tools = layer.tool_availability().into_iter().map(|offer| ToolVerdict {
        name: offer.name,
        category: offer.category.as_str().to_owned(),
        risk_level: offer.risk_level,
        verdict: match offer.verdict {
            VerdictKind::Allow => "allow",
            VerdictKind::Ask => "ask",
            VerdictKind::Deny => "deny",
        }
        .to_owned(),
        reason: offer.reason,
    });
    RuntimeStatus {
        version: status.version.to_owned(),
        mode: status.mode,
        uptime_seconds: status.uptime_seconds,
        running_calls: status.calls.running as u64,
        done_calls: status.calls.done,
        failed_calls: status.calls.failed,
        refused_calls: status.calls.refused,
        remaining: status.remaining,
        workspaces: status.workspaces,
        policy_hash: status.policy_hash,
        ledger: LedgerHealth {
            state: status.ledger.state.to_owned(),
            reason: status.ledger.reason,
            records: status.ledger.records,
            lost_records: status.ledger.lost_records,
        },
        tools: tools.collect(),
    }
}

fn self_checks(layer: &Weak<ToolExecutionLayer>, state: &Path) -> Vec<SelfCheckResult> {
    let mut all = sandbox_checks(state);
    if let Some(layer) = layer.upgrade() {
        let ledger = layer.status().ledger;
        let (is_ready, is_whole) = (ledger.state == "ready", ledger.lost_records == 0);
        all.push(SelfCheckResult {
            name: "calls are recorded in the ledger".to_owned(),
            ok: is_ready && is_whole,
            detail: Some(match (&ledger.reason, is_whole) {
                (Some(reason), _) => reason.clone(),
                (None, false) => format!("{} records are lost", ledger.lost_records),
                (None, true) => format!("{} records", ledger.records),
            }),
            remedy: (!is_ready || !is_whole).then(|| "`sinew ledger verify` shows details".to_owned()),
        });
    }
    let used = system_metrics::used_percent(state);
    let has_space = used.is_some_and(|used| used < DISK_FULL_PERCENT);
    all.push(SelfCheckResult {
        name: "the ledger's disk has free space".to_owned(),
        ok: has_space,
        detail: used.map(|used| format!("{used:.0} % used")),
        remedy: (!has_space).then(|| "free disk space: no call runs if it cannot be recorded".to_owned()),
    });
    all
}

/// Tests the sandbox from inside.
fn sandbox_checks(state: &Path) -> Vec<SelfCheckResult> {
    let sandbox = Sandbox::of_this_process();
    let availability = sandbox.availability();
    let missing = availability.missing.join("; ");
    let mut all = vec![SelfCheckResult {
        name: "programs can be confined".to_owned(),
        ok: availability.tier != SandboxTier::None,
        detail: Some(availability.tier.as_str().to_owned()),
        remedy: (!missing.is_empty()).then_some(missing),
    }];
    // Concurrent checks use separate folders, so that they do not find each other's files.
    let found = tempfile::tempdir_in(state).and_then(|own| sandbox.check(own.path()));
    match found {
        Ok(found) => all.extend(found.into_iter().map(|finding| {
            SelfCheckResult {
                name: format!("a confined program cannot {}", finding.attempt),
                ok: finding.blocked,
                detail: None,
                remedy: (!finding.blocked)
                    .then(|| "run nothing that must be confined; `sinew doctor` shows details".to_owned()),
            }
        })),
        Err(error) => all.push(SelfCheckResult {
            name: "the sandbox can be tested".to_owned(),
            ok: false,
            detail: Some(error.to_string()),
            remedy: None,
        }),
    }
    all
}
