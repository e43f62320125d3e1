//! A pending approval is not a permit.

use governance::Question;
use ledger::{Decision, Intent, Ledger};

async fn walk(ledger: &Ledger, decision: Decision, question: Question) -> registry::Order {
    let Ok(order): Result<Intent<Question>, _> = ledger.intend(decision, question).await else { panic!() };
    order
}

fn main() {}
