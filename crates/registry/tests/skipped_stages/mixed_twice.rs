//! A permit is for one run: recording the decision moves it.

use governance::Permit;
use ledger::{RecordedDecision, Ledger};

async fn twice(ledger: &Ledger, decision: RecordedDecision, permit: Permit) {
    let _ = ledger.intend(decision.clone(), permit).await;
    let _ = ledger.intend(decision, permit).await;
}

fn main() {}
