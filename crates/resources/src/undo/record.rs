//! What is on disk about a saved state: enough to put it back, and to tell whether that still makes sense.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tool::CallId;

/// One change of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Whose change it is.
    pub(crate) call_id: CallId,
    /// Which of the call's changes.
    pub(crate) number: u32,
    /// In milliseconds since 1970.
    pub(crate) saved_ms: u64,
    /// The canonical name of the folder. Names need not be Unicode, so they are kept as bytes.
    pub(crate) folder: OsString,
    /// The name in it.
    pub(crate) leaf: OsString,
    /// The name in the same folder that the change uses until it is done.
    pub(crate) temporary: String,
    pub(crate) before: Before,
    pub(crate) after: After,
    /// What is kept takes so many bytes.
    pub(crate) bytes: u64,
}

/// What was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Before {
    Absent,
    File { sha256: Option<String>, mode: u32, held: Held },
    Link { text: OsString },
    Folder { held: Held },
}

/// How the state before is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Held {
    /// As a copy, whose permissions are private and stand in the record.
    Copied,
    /// It is the very object, moved here. Whoever has it open, or knows another name of it, can still change it: the seal
    /// is what it was like when it went. There is none where nothing is kept.
    Moved { seal: Option<String> },
    /// Not at all: nothing is kept by the settings.
    Not,
}

/// What is there once the change is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum After {
    Absent,
    File {
        sha256: String,
    },
    /// Folders of these names within each other, below the one that the record is of; at their end a file where there is a
    /// digest.
    Folders {
        below: Vec<OsString>,
        sha256: Option<String>,
    },
}

impl Record {
    /// The name its files begin with.
    pub(crate) fn key(&self) -> String {
        format!("{}-{}", self.call_id, self.number)
    }

    pub(crate) fn path(&self) -> PathBuf {
        Path::new(&self.folder).join(&self.leaf)
    }

    pub(crate) fn held(&self) -> &Held {
        match &self.before {
            Before::File { held, .. } | Before::Folder { held } => held,
            Before::Absent | Before::Link { .. } => &Held::Not,
        }
    }
}
