//! A permit is for one run: recording the decision moves it.

use governance::Permit;
use ledger::{Decision, Ledger};

async fn twice(ledger: &Ledger, decision: Decision, permit: Permit) {
    let _ = ledger.intend(decision.clone(), permit).await;
    let _ = ledger.intend(decision, permit).await;
}

fn main() {}
