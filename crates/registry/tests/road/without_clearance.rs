//! No first judgement: a checked call cannot have its paths opened.

use guardrail::ValidCall;

fn walk(valid: ValidCall) {
    let _ = resources::open(valid);
}

fn main() {}
