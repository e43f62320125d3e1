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
    /// The folders on the way that are not there: a write may bring them into being. One without a name cannot be judged.
    pub(crate) missing_folders: Vec<Option<Name>>,
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
        let missing_folders = path.missing_folders().iter().map(|name| Name::canonical(name)).collect();
        Reached { name: Name::canonical(path.canonical()), found, missing_folders }
    }

    /// What a name would reach if no link stood in its way and nothing were there.
    pub(crate) fn by_name(request: &PathRequest) -> Self {
        let name = Some(Name::lexical(request));
        Reached { name, found: Found::Other, missing_folders: Vec::new() }
    }

    /// What a record says of it.
    pub(crate) fn recorded(canonical: &Path, found: Found, missing_folders: Vec<Option<Name>>) -> Self {
        Reached { name: Name::canonical(canonical), found, missing_folders }
    }
}
