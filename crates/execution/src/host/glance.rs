//! Judge for host calls in a process without a ledger, such as a hook. It returns permits and approval
//! questions. It leaves every denial to the daemon, which judges the call again and records it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use ledger::Recovery;
use telemetry::TelemetryError;
use tool::Mode;

use crate::call::Call;
use crate::content;
use crate::explain::{self, Finding};
use crate::host::judged::{self, HostCall, HostVerdict, UnknownHost};
use crate::layer::{MOST_OPENING, places};
use crate::limits::Limits;
use crate::pipeline::Deciding;
use crate::recorder;
use crate::slots::Slots;
use crate::world::World;

/// Judges host calls by a snapshot and the recovered state of the ledger, and writes nothing.
pub struct HostJudge {
    world: Arc<World>,
    mode: Mode,
    limits: Limits,
    openings: Slots,
}

impl HostJudge {
    /// Creates a judge with the mode and the rate windows recovered from the ledger.
    pub fn new(world: World, recovery: &Recovery) -> Result<Self, TelemetryError> {
        content::share_patterns(&world.policy)?;
        let mode = recorder::mode_after(recovery);
        let limits = Limits::restore(places(&world, mode), recovery, |tool| world.goes_out(tool.as_str()));
        Ok(HostJudge { world: Arc::new(world), mode, limits, openings: Slots::new(MOST_OPENING) })
    }

    /// Judges a call. Returns `None` for a denial, which must be recorded before it is reported.
    pub async fn judge(&self, host_call: HostCall) -> Result<Option<HostVerdict>, UnknownHost> {
        let host = self.world.host(&host_call.host)?;
        let tool = match host.judges(&host_call.request.tool_name) {
            Ok(tool) => tool,
            Err(because) => return Ok(Some(HostVerdict::None { because })),
        };
        let (call, input) = Call::glance(host_call.request, Arc::clone(&self.world), self.mode);
        let context = Deciding { limits: &self.limits, openings: &self.openings };
        let judging = judged::judge(context, &call, tool, (input, host.user_home.as_deref()));
        let verdict =
            AssertUnwindSafe(judging).catch_unwind().await.unwrap_or_else(|_| Err(explain::fault(&call)));
        let (finding, rules) = explain::found(verdict);
        Ok(match finding {
            Finding::Deny { .. } => None,
            Finding::Permit | Finding::Ask { .. } => {
                let explanation = judged::explanation(&call, tool, finding, rules);
                Some(HostVerdict::Judged { explanation, on_permit: host.on_permit })
            }
        })
    }

    /// Returns the snapshot for the layer that records. `None` while a call is still being judged.
    pub fn into_world(self) -> Option<World> {
        Arc::into_inner(self.world)
    }
}
