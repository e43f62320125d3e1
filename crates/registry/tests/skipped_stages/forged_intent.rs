//! The record of a decision cannot be created outside the ledger.

use governance::Permit;
use ledger::Intent;

fn forge(permit: Permit) -> registry::RecordedPermit {
    Intent::new(permit)
}

fn main() {}
