//! A permit is for one run: it moves into its record.

use governance::Permit;
use ledger::{Decision, Ledger};

async fn twice(ledger: &Ledger, decision: Decision, permit: Permit) {
    let _ = ledger.intend(decision.clone(), permit).await;
    let _ = ledger.intend(decision, permit).await;
}

fn main() {}
