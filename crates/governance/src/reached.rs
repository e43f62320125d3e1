//! Facts about one path for the judge: its canonical name, and the object at that name.
//!
//! They usually come from the opened path. A dry run only has the path as typed, and a replay only the facts
//! in the ledger; the same judge decides on all three.

use std::path::Path;

use file_access::{ObjectKind, OpenedPath, OtherNames, PathRequest};
use tool::GitEntry;

use crate::name::Name;

/// Path that was reached, and the object found there.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    /// Canonical path; `None` where there is none, and then no rule can allow it.
    pub(crate) name: Option<Name>,
    pub(crate) found: Found,
    /// Missing parent folders, which a write may create. An entry without a canonical name cannot be judged.
    pub(crate) missing_folders: Vec<Option<Name>>,
    /// Relation of a change to the git directories on the way, if no tool may make it.
    pub(crate) git_entry: Option<GitEntry>,
}

/// Object at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Regular file, with its other hard links where all of them are known.
    File { size: u64, links: u64, others: Option<Vec<Name>> },
    /// Nothing, a directory or a device: size and hard links do not matter.
    Other,
}

impl Reached {
    pub(crate) fn of(path: &OpenedPath) -> Self {
        let found = match (path.kind(), path.metadata()) {
            (ObjectKind::File, Some(facts)) => {
                let others = match path.other_names() {
                    // A name that is not canonical cannot be judged, so the other names count as unknown.
                    OtherNames::Known(names) => names.iter().map(|name| Name::canonical(name)).collect(),
                    OtherNames::Unknown => None,
                };
                Found::File { size: facts.size, links: facts.links, others }
            }
            _ => Found::Other,
        };
        let missing_folders = path.missing_folders().iter().map(|name| Name::canonical(name)).collect();
        let git_entry = path.git_entry();
        Reached { name: Name::canonical(path.canonical()), found, missing_folders, git_entry }
    }

    /// Returns the facts as if no symbolic link were on the path and nothing existed there.
    pub(crate) fn by_name(request: &PathRequest) -> Self {
        let name = Some(Name::lexical(request));
        Reached { name, found: Found::Other, missing_folders: Vec::new(), git_entry: None }
    }

    /// Returns the facts from a ledger record.
    pub(crate) fn recorded(
        canonical: &Path,
        found: Found,
        missing_folders: Vec<Option<Name>>,
        git_entry: Option<GitEntry>,
    ) -> Self {
        Reached { name: Name::canonical(canonical), found, missing_folders, git_entry }
    }
}
