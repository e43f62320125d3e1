//! What was opened for one call cannot be put under another: nothing but `open` puts them together.

use governance::Cleared;
use resources::{Opened, OpenedPath};

fn mix(mine: Cleared, theirs: Vec<OpenedPath>) -> Opened<Cleared> {
    Opened { call: mine, paths: theirs }
}

fn main() {}
