//! A repair is offered only once it is proven: the repaired call walks the road as far as nothing happens, and is
//! dropped there. It is neither counted nor put on record, and nothing ever runs from it.

use std::time::Duration;

use governance::Verdict;
use guardrail::{Fitting, Rejected};
use tool::Refusal;

use crate::call::Call;
use crate::layer::ToolExecutionLayer;
use crate::pipeline;

/// A refusal does not wait longer for its repair: a dead mount would hold it up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The refusal of a malformed call, with its repair where that would be permitted as it stands.
///
/// Only a permit counts. A call that a human would be asked about, or that is denied, is not offered, so that a repair
/// tells no more of what lies behind a path than the call itself would have been told.
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
