//! A record of an intent cannot be made outside the ledger.

use governance::Permit;
use ledger::Intent;

fn forge(permit: Permit) -> registry::Order {
    Intent::new(permit)
}

fn main() {}
