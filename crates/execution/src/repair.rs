//! Offers a repair of a malformed call only if the repaired call would be permitted. The repaired call runs
//! through the stages without side effects and is then dropped: it is neither counted nor recorded, and never
//! runs.

use std::time::Duration;

use governance::Verdict;
use guardrail::{Fitting, Rejected};
use tool::Refusal;

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::pipeline;

/// Longest time a refusal waits for its repair, which a dead mount could block.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the refusal of a malformed call, with the repair if the repaired call would be permitted.
///
/// Only a permit counts. A repaired call that is denied or requires approval is not offered, so that a repair
/// reveals no more about a path than the call itself would.
pub(crate) async fn offered(layer: &ToolExecutionLayer, call: &Call, rejected: Rejected) -> Box<Refusal> {
    let Rejected { mut refusal, proposal } = rejected;
    if let Some((repaired, offer)) = proposal.map(|proposal| proposal.into_parts())
        && is_permitted(layer, call, repaired).await
    {
        offer.add_to(&mut refusal);
    }
    refusal
}

async fn is_permitted(layer: &ToolExecutionLayer, call: &Call, repaired: Fitting) -> bool {
    let judged = async {
        let valid = pipeline::valid(layer, call, repaired).await?;
        pipeline::decide(layer.deciding(), call, valid).await
    };
    matches!(tokio::time::timeout(PATIENCE, judged).await, Ok(Ok(Verdict::Permit(_))))
}
