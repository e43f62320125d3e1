//! A judgement without a record, for a process that owns none: it permits or asks, and leaves every denial to a layer,
//! which judges the call again and records it.

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

/// Judges by a world and by what a record says of the moment, and writes nothing.
pub struct HostJudge {
    world: Arc<World>,
    mode: Mode,
    limits: Limits,
    openings: Slots,
}

impl HostJudge {
    /// A judge of the moment that was found in the ledger.
    pub fn new(world: World, found: &Recovery) -> Result<Self, TelemetryError> {
        content::share_patterns(&world.policy)?;
        let mode = recorder::mode_after(found);
        let limits = Limits::restore(places(&world, mode), found, |tool| world.goes_out(tool.as_str()));
        Ok(HostJudge { world: Arc::new(world), mode, limits, openings: Slots::new(MOST_OPENING) })
    }

    /// What is to be said of a call; nothing where it is denied, which nobody may say before it is on record.
    pub async fn judge(&self, asked: HostCall) -> Result<Option<HostVerdict>, UnknownHost> {
        let host = self.world.host(&asked.host)?;
        let tool = match host.judges(&asked.request.tool_name) {
            Ok(tool) => tool,
            Err(because) => return Ok(Some(HostVerdict::None { because })),
        };
        let (call, input) = Call::glance(asked.request, Arc::clone(&self.world), self.mode);
        let deciding = Deciding { limits: &self.limits, openings: &self.openings };
        let judging = judged::judge(deciding, &call, tool, (input, host.user_home.as_deref()));
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

    /// The world it judged by, for the layer that records. Nothing while a call is still being judged.
    pub fn into_world(self) -> Option<World> {
        Arc::into_inner(self.world)
    }
}
