//! Record of a saved state on disk: enough to restore it, and to tell whether that is still possible.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tool::CallId;

/// One change of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UndoRecord {
    /// Call that made the change.
    pub(crate) call_id: CallId,
    /// Number of the change within the call.
    pub(crate) number: u32,
    /// Time in milliseconds since 1970.
    pub(crate) saved_ms: u64,
    /// Canonical path of the folder. Paths need not be Unicode, so they are stored as bytes.
    pub(crate) folder: OsString,
    /// Name in the folder.
    pub(crate) leaf: OsString,
    /// Name in the same folder that the change uses until it is completed.
    pub(crate) temporary: String,
    pub(crate) before: StateBefore,
    pub(crate) after: StateAfter,
    /// Size of the saved state in bytes.
    pub(crate) bytes: u64,
}

/// State before the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateBefore {
    Absent,
    File {
        sha256: Option<String>,
        mode: u32,
        #[serde(alias = "held")]
        saved_as: SavedAs,
    },
    Link {
        text: OsString,
    },
    Folder {
        #[serde(alias = "held")]
        saved_as: SavedAs,
    },
}

/// Storage form of the state before the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SavedAs {
    /// A copy with private permissions; the original permissions are in the record.
    Copied,
    /// The object itself, moved into the store. A process that has it open, or knows another hard link, can
    /// still change it: the seal is its digest at the time of the move. There is no seal if undo is disabled.
    Moved { seal: Option<String> },
    /// Not saved, because undo is disabled.
    #[serde(alias = "not")]
    NotSaved,
}

/// State after the change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StateAfter {
    Absent,
    File {
        sha256: String,
    },
    /// Nested folders of these names below the recorded one, with a file at the end if there is a digest.
    Folders {
        below: Vec<OsString>,
        sha256: Option<String>,
    },
}

impl UndoRecord {
    /// Returns the key, with which the names of its files begin.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.call_id, self.number)
    }

    pub(crate) fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(&self.leaf)
    }

    pub(crate) fn saved_as(&self) -> &SavedAs {
        match &self.before {
            StateBefore::File { saved_as, .. } | StateBefore::Folder { saved_as } => saved_as,
            StateBefore::Absent | StateBefore::Link { .. } => &SavedAs::NotSaved,
        }
    }
}
