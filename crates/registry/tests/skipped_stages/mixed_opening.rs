//! Opened paths of one call cannot be combined with another call: only `open` combines them.

use governance::Prechecked;
use file_access::{OpenedCall, OpenedPath};

fn mix(mine: Prechecked, theirs: Vec<OpenedPath>) -> OpenedCall<Prechecked> {
    OpenedCall { call: mine, paths: theirs }
}

fn main() {}
