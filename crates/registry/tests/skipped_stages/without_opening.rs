//! Without the open stage: `judge` does not accept unopened paths.

use governance::{Prechecked, Policy, Situation};

fn execute(policy: &Policy, situation: &Situation<'_>, prechecked: Prechecked) {
    let _ = governance::judge(policy, situation, prechecked);
}

fn main() {}
