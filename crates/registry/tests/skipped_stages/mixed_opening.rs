//! Opened paths of one call cannot be combined with another call: only `open` combines them.

use governance::Prechecked;
use file_access::{Opened, OpenedPath};

fn mix(mine: Prechecked, theirs: Vec<OpenedPath>) -> Opened<Prechecked> {
    Opened { call: mine, paths: theirs }
}

fn main() {}
