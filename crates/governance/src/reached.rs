//! What the judge knows of one path: the name it leads to, and what was found there.
//!
//! Usually that comes from what was opened. A rehearsal has only the name as typed, a replay only what a record kept;
//! the same judge rules on all three.

use std::path::Path;

use resources::{ObjectKind, OpenedPath, OtherNames, PathRequest};

use crate::name::Name;

/// What is known of what a path reached.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    /// The canonical name; `None` where there is no such name, by which then nothing can be allowed.
    pub(crate) name: Option<Name>,
    pub(crate) found: Found,
}

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// A regular file, and its other names, where they are known.
    File { size: u64, links: u64, others: Option<Vec<Name>> },
    /// Nothing, a directory, a device: neither a size nor a second name counts.
    Other,
}

impl Reached {
    pub(crate) fn of(path: &OpenedPath) -> Self {
        let found = match (path.kind(), path.metadata()) {
            (ObjectKind::File, Some(facts)) => {
                let others = match path.other_names() {
                    // A name that is none cannot be judged, and then nothing is known.
                    OtherNames::Known(names) => names.iter().map(|name| Name::canonical(name)).collect(),
                    OtherNames::Unknown => None,
                };
                Found::File { size: facts.size, links: facts.links, others }
            }
            _ => Found::Other,
        };
        Reached { name: Name::canonical(path.canonical()), found }
    }

    /// What a name would reach if no link stood in its way and nothing were there.
    pub(crate) fn by_name(request: &PathRequest) -> Self {
        Reached { name: Some(Name::lexical(&request.base, &request.text)), found: Found::Other }
    }

    /// What a record says of it.
    pub(crate) fn recorded(canonical: &Path, found: Found) -> Self {
        Reached { name: Name::canonical(canonical), found }
    }
}
