//! The permit of one call cannot be given the files of another: they are private fields of the permit.

use governance::Permit;

fn mix(mut mine: Permit, theirs: Permit) -> Permit {
    mine.opened = theirs.opened;
    mine
}

fn main() {}
