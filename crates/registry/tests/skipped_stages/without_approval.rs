//! A pending approval is not a permit.

use governance::ApprovalRequired;
use ledger::{RecordedDecision, Intent, Ledger};

async fn execute(ledger: &Ledger, decision: RecordedDecision, required: ApprovalRequired) -> registry::RecordedPermit {
    let Ok(order): Result<Intent<ApprovalRequired>, _> = ledger.intend(decision, required).await else { panic!() };
    order
}

fn main() {}
