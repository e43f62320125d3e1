//! One call's permit cannot be given another call's files: they are inside it, and stay there.

use governance::Permit;

fn mix(mut mine: Permit, theirs: Permit) -> Permit {
    mine.opened = theirs.opened;
    mine
}

fn main() {}
