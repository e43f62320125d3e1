//! `config/sinew.yaml` as it is written. What its values mean, and whether they can be, is `settings.rs`.

use std::collections::BTreeMap;
use std::fmt;

use document::Located;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use telemetry::{LogSettings, OtlpSettings};

use crate::settings::{ApprovalSettings, KeyFile, LedgerFile, UndoFile, WebFile};

/// The settings of the daemon. Every key is optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "sinew.yaml")]
pub struct SettingsFile {
    /// The folders callers work in. Relative paths start at the first.
    pub(crate) workspaces: Vec<Located<WorkspaceEntry>>,
    /// What happens to a changed configuration that loosens something.
    pub(crate) reload: ReloadMode,
    /// What one connection, and all together, may take.
    pub(crate) limits: LimitsFile,
    /// The record of what was decided and done.
    pub(crate) ledger: LedgerFile,
    /// How the web tools go out.
    pub(crate) web: WebFile,
    /// Keys of servers on the network, by the names that manifests give them.
    pub(crate) keys: BTreeMap<String, Located<KeyFile>>,
    /// Questions to a human.
    pub(crate) approvals: ApprovalSettings,
    /// What is kept so that changes to files can be undone.
    pub(crate) undo: UndoFile,
    /// The daemon's own log.
    pub(crate) log: LogSettings,
    /// OpenTelemetry export; off unless an endpoint is set.
    pub(crate) otlp: OtlpSettings,
    /// Write arguments, redacted, to logs and spans. Off: only their digest.
    pub(crate) capture_content: bool,
}

/// What happens to a changed configuration that loosens something. What tightens is taken at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadMode {
    /// It waits until a human accepts it: `sinew reload --accept`.
    #[default]
    Ask,
    /// It is taken at once.
    Auto,
}

/// A folder as text (read and write), or with its access.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum WorkspaceEntry {
    /// An absolute path, or one that begins with `~/`; read and write.
    Path(String),
    /// A folder with its access.
    Full(WorkspaceFile),
}

/// A folder with its access.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceFile {
    /// An absolute path, or one that begins with `~/`.
    pub(crate) path: String,
    /// What callers may do there.
    #[serde(default)]
    pub(crate) access: WorkspaceAccess,
}

/// What callers may do in a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccess {
    /// Look, change nothing.
    ReadOnly,
    /// What the policy allows.
    #[default]
    ReadWrite,
}

/// What one connection, and all together, may take.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsFile {
    /// The longest message in either direction, in bytes. Default 4194304 (4 MiB).
    pub(crate) max_line_bytes: Option<Located<u64>>,
    /// Connections to the agent socket at a time. Default 256, or less where the system gives few descriptors.
    pub(crate) max_connections: Option<Located<u64>>,
    /// Calls of one connection at a time; further ones are not read until one has ended. Default 64.
    pub(crate) max_in_flight_per_connection: Option<Located<u64>>,
    /// How long running calls may go on when the daemon is told to stop. Default 10.
    pub(crate) drain_seconds: Option<Located<u64>>,
    /// How long a client may leave its replies unread before it is disconnected. Default 10.
    pub(crate) write_stall_seconds: Option<Located<u64>>,
}

// By hand: an untagged derive would answer every mistake with "did not match any variant".
impl<'de> Deserialize<'de> for WorkspaceEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = WorkspaceEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a path, or a mapping with `path` and `access`")
    }

    fn visit_str<E>(self, path: &str) -> Result<WorkspaceEntry, E> {
        Ok(WorkspaceEntry::Path(path.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WorkspaceEntry, A::Error> {
        WorkspaceFile::deserialize(MapAccessDeserializer::new(map)).map(WorkspaceEntry::Full)
    }
}
