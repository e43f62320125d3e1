//! Without the open stage: `judge` does not accept unopened paths.

use governance::{Cleared, Policy, Situation};

fn walk(policy: &Policy, situation: &Situation<'_>, cleared: Cleared) {
    let _ = governance::judge(policy, situation, cleared);
}

fn main() {}
