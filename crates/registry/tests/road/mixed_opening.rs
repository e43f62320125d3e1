//! Opened paths of one call cannot be combined with another call: only `open` combines them.

use governance::Cleared;
use file_access::{Opened, OpenedPath};

fn mix(mine: Cleared, theirs: Vec<OpenedPath>) -> Opened<Cleared> {
    Opened { call: mine, paths: theirs }
}

fn main() {}
