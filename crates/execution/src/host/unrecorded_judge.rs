//! Judge for host calls in a process that does not open the ledger, such as a hook. It returns permits and
//! required approvals. For a denial it returns nothing: the caller then opens the ledger, judges the call again and
//! records the denial.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use ledger::LedgerRecovery;
use telemetry::TelemetryError;
use tool::Mode;

use crate::call::PipelineCall;
use crate::config_snapshot::ConfigSnapshot;
use crate::current_policy::max_running_calls;
use crate::explain::{self, ExplainedVerdict};
use crate::host::judge::{self, AdviceMemory, HostCall, HostCallInput, HostVerdict, UnknownHost};
use crate::layer::MAX_OPENING;
use crate::limits::CallLimits;
use crate::modes;
use crate::pipeline::JudgeCapacity;
use crate::secret_screening;
use crate::slots::FairSlots;

/// Judge of host calls. It uses a configuration snapshot and the state recovered from the ledger, and writes
/// nothing.
pub struct HostJudge {
    snapshot: Arc<ConfigSnapshot>,
    mode: Mode,
    limits: CallLimits,
    opening_slots: FairSlots,
}

impl HostJudge {
    /// Creates a judge with the mode and the rate counters that were recovered from the ledger.
    pub fn new(snapshot: ConfigSnapshot, recovery: &LedgerRecovery) -> Result<Self, TelemetryError> {
        secret_screening::install_patterns(&snapshot.policy)?;
        let mode = modes::recovered_mode(recovery);
        let limits = CallLimits::restore(max_running_calls(&snapshot, mode), recovery, |tool| {
            snapshot.is_outbound(tool.as_str())
        });
        Ok(HostJudge {
            snapshot: Arc::new(snapshot),
            mode,
            limits,
            opening_slots: FairSlots::new(MAX_OPENING),
        })
    }

    /// Judges a call. Returns `None` for a denial, which must be recorded before it is reported.
    pub async fn judge(&self, host_call: HostCall) -> Result<Option<HostVerdict>, UnknownHost> {
        let host = self.snapshot.host(&host_call.host)?;
        let subject = match host.subject(&self.snapshot, &host_call.request) {
            Ok(subject) => subject,
            Err(reason) => return Ok(Some(HostVerdict::None { because: reason })),
        };
        let (rules_tool, approval_rule) =
            (subject.rules_tool_name(&host_call.request), subject.approval_rule());
        let (call, input) =
            PipelineCall::unrecorded(host_call.request, Arc::clone(&self.snapshot), self.mode);
        let capacity = JudgeCapacity { limits: &self.limits, opening_slots: &self.opening_slots };
        let advice = AdviceMemory { memory: None, host: &host.name, session: None };
        let system_programs = &host_call.system_programs;
        let host_call = HostCallInput { host, subject, input, system_programs, advice };
        let judgement = judge::judge(capacity, &call, host_call);
        let verdict = AssertUnwindSafe(judgement)
            .catch_unwind()
            .await
            .unwrap_or_else(|_| Err(explain::internal_fault(&call)));
        let (finding, rules) = explain::explain_verdict(verdict);
        let (finding, rules) = judge::with_location(approval_rule, finding, rules);
        Ok(match finding {
            ExplainedVerdict::Deny { .. } => None,
            ExplainedVerdict::Permit | ExplainedVerdict::Ask { .. } => {
                let explanation = judge::explanation(&call, rules_tool, finding, rules);
                let (on_permit, on_approval) = (host.on_permit, host.on_approval);
                Some(HostVerdict::Judged { explanation, on_permit, on_approval })
            }
        })
    }

    /// Returns the snapshot, for an execution layer that can record. `None` while a call is still being judged.
    pub fn into_snapshot(self) -> Option<ConfigSnapshot> {
        Arc::into_inner(self.snapshot)
    }
}
