//! Nothing opened: the judge does not judge names alone.

use governance::{Cleared, Policy, Situation};

fn walk(policy: &Policy, situation: &Situation<'_>, cleared: Cleared) {
    let _ = governance::judge(policy, situation, cleared);
}

fn main() {}
