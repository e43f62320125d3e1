//! Without the pre-check stage: the paths of a checked call cannot be opened.

use guardrail::ValidCall;

fn execute(valid: ValidCall) {
    let _ = file_access::open(valid);
}

fn main() {}
