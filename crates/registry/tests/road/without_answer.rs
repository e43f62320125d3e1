//! A question nobody answered is not a permit.

use governance::Question;
use ledger::{Decision, Intent, Ledger};

async fn walk(ledger: &Ledger, decision: Decision, question: Question) -> Option<registry::Order> {
    let order: Intent<Question> = ledger.intend(decision, question).await.ok()?;
    Some(order)
}

fn main() {}
