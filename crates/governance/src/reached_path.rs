//! Facts about one path for the judge: its canonical name, and the object at that name.
//!
//! They usually come from the opened path. A dry run only has the path as typed, and a replay only the facts
//! in the ledger; the same judge decides on all three.

use std::path::Path;

use file_access::{HardLinkNames, ObjectKind, OpenedPath, PathRequest};
use tool::git::GitEntry;

use crate::normalized_path::NormalizedPath;

/// Path that was reached, and the object found there.
#[derive(Clone, Debug)]
pub(crate) struct ReachedPath {
    /// Canonical path; `None` where there is none, and then no rule can allow it.
    pub(crate) name: Option<NormalizedPath>,
    pub(crate) object: ReachedObject,
    /// Missing parent folders, which a write may create. An entry without a canonical name cannot be judged.
    pub(crate) missing_folders: Vec<Option<NormalizedPath>>,
    /// Relation of a change to the git directories on the way, if no tool may make it.
    pub(crate) git_entry: Option<GitEntry>,
}

/// Object at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReachedObject {
    /// Regular file, with its other hard links where all of them are known.
    File { size: u64, links: u64, others: Option<Vec<NormalizedPath>> },
    /// Nothing, a directory or a device: size and hard links do not matter.
    Other,
}

impl ReachedPath {
    pub(crate) fn from_opened(path: &OpenedPath) -> Self {
        let found = match (path.kind(), path.metadata()) {
            (ObjectKind::File, Some(facts)) => {
                let others = match path.other_names() {
                    // A name that is not canonical cannot be judged, so the other names count as unknown.
                    HardLinkNames::Known(names) => {
                        names.iter().map(|name| NormalizedPath::canonical(name)).collect()
                    }
                    HardLinkNames::Unknown => None,
                };
                ReachedObject::File { size: facts.size, links: facts.links, others }
            }
            _ => ReachedObject::Other,
        };
        let missing_folders =
            path.missing_folders().iter().map(|name| NormalizedPath::canonical(name)).collect();
        let git_entry = path.git_entry();
        ReachedPath {
            name: NormalizedPath::canonical(path.canonical()),
            object: found,
            missing_folders,
            git_entry,
        }
    }

    /// Returns the facts as if no symbolic link were on the path and nothing existed there.
    pub(crate) fn from_request(request: &PathRequest) -> Self {
        let name = Some(NormalizedPath::lexical(request));
        ReachedPath { name, object: ReachedObject::Other, missing_folders: Vec::new(), git_entry: None }
    }

    /// Returns the facts from a ledger record.
    pub(crate) fn from_record(
        canonical: &Path,
        found: ReachedObject,
        missing_folders: Vec<Option<NormalizedPath>>,
        git_entry: Option<GitEntry>,
    ) -> Self {
        ReachedPath { name: NormalizedPath::canonical(canonical), object: found, missing_folders, git_entry }
    }
}
