//! Offers a repair of a malformed call only if the repaired call would be permitted. The repaired call runs
//! through the stages without side effects and is then dropped: it is neither counted nor recorded, and never
//! runs.

use std::borrow::Cow;
use std::time::Duration;

use governance::Verdict;
use guardrail::{RejectedCall, SchemaCheckedCall};
use telemetry::redact;
use tool::Refusal;

use crate::call::PipelineCall;
use crate::layer::Capacity;
use crate::pipeline::{self, JudgeCapacity};

/// Longest time a refusal waits for its repair, which a dead mount could block.
const REPAIR_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the refusal of a malformed call, with the repair if the repaired call would be permitted.
///
/// Only a permit counts. A repaired call that is denied or requires approval is not offered, so that a repair
/// reveals no more about a path than the call itself would.
pub(crate) async fn with_repair(
    capacity: &Capacity,
    call: &PipelineCall,
    rejected: RejectedCall,
) -> Box<Refusal> {
    let RejectedCall { mut refusal, proposal } = rejected;
    redact_quoted_values(&mut refusal);
    if let Some((repaired, offer)) = proposal.map(|proposal| proposal.into_parts())
        && is_permitted(capacity, call, repaired).await
    {
        offer.add_to(&mut refusal);
    }
    refusal
}

/// Redacts the texts of a refusal, which may quote a value of the call. They go to clients, logs and events.
fn redact_quoted_values(refusal: &mut Refusal) {
    let redactor = redact::shared();
    let messages = refusal.problems.iter_mut().flat_map(|problem| [&mut problem.message, &mut problem.got]);
    for text in messages.chain([&mut refusal.reason]).chain(&mut refusal.schema_error) {
        if let Cow::Owned(redacted) = redactor.redact_text(text) {
            *text = redacted;
        }
    }
}

async fn is_permitted(capacity: &Capacity, call: &PipelineCall, repaired: SchemaCheckedCall) -> bool {
    let judged = async {
        let valid = pipeline::validate(&capacity.validation_slots, call, repaired).await?;
        pipeline::judge_only(JudgeCapacity::of(capacity), call, valid).await
    };
    matches!(tokio::time::timeout(REPAIR_TIMEOUT, judged).await, Ok(Ok(Verdict::Permit(_))))
}
