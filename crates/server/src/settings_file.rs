//! Raw form of `config/sinew.yaml`. `settings.rs` checks the values.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use strict_yaml::Located;
use telemetry::{LogSettings, OtlpSettings};

use crate::settings::{ApprovalSettings, FleetSection, KeyFile, LedgerFile, UndoFile, WebFile};

/// Settings of the daemon. Every key is optional.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "sinew.yaml")]
pub struct DaemonSettingsFile {
    /// Workspaces of callers. Relative paths start at the first.
    pub(crate) workspaces: Vec<Located<WorkspaceEntry>>,
    /// Handling of configuration changes that loosen the policy.
    pub(crate) reload: ReloadMode,
    /// Limits of connections.
    pub(crate) limits: LimitsFile,
    /// Ledger: the record of decisions and outcomes.
    pub(crate) ledger: LedgerFile,
    /// Settings of the web tools.
    pub(crate) web: WebFile,
    /// API keys of network servers, by the names that manifests use.
    pub(crate) keys: BTreeMap<String, Located<KeyFile>>,
    /// Approval requests to the operator.
    pub(crate) approvals: ApprovalSettings,
    /// Retention of earlier file states, so that changes can be undone.
    pub(crate) undo: UndoFile,
    /// Log of the daemon.
    pub(crate) log: LogSettings,
    /// OpenTelemetry export; off unless an endpoint is set.
    pub(crate) otlp: OtlpSettings,
    /// Writes redacted arguments to logs and spans. Off: only their digest.
    pub(crate) capture_content: bool,
    /// Membership of this host in a fleet. Without it, Sinew connects to no fleet.
    pub(crate) fleet: Option<FleetSection>,
}

/// Handling of configuration changes that loosen the policy. Other changes apply at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReloadMode {
    /// The change waits until the operator accepts it with `sinew reload --accept`.
    #[default]
    Ask,
    /// The change applies at once.
    Auto,
}

/// Workspace as a path (read and write), or as a mapping with its access.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
pub(crate) enum WorkspaceEntry {
    /// Absolute path, or one that begins with `~/`; read and write.
    Path(String),
    /// Workspace with its access.
    Full(WorkspaceFile),
}

/// Workspace with its access.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WorkspaceFile {
    /// Absolute path, or one that begins with `~/`.
    pub(crate) path: String,
    /// Access of callers.
    #[serde(default)]
    pub(crate) access: WorkspaceAccessSetting,
}

/// Access of callers to a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceAccessSetting {
    /// Read only.
    ReadOnly,
    /// Read and write, within the policy.
    #[default]
    ReadWrite,
}

/// Limits of connections.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsFile {
    /// Longest message in either direction, in bytes. Default 16777216 (16 MiB).
    pub(crate) max_line_bytes: Option<Located<u64>>,
    /// Maximum number of connections to the agent socket. Default 256, or fewer if the file descriptor limit
    /// is low.
    pub(crate) max_connections: Option<Located<u64>>,
    /// Maximum number of concurrent calls of one connection; further ones wait until one has ended, and get `busy`
    /// if none ends for five seconds. Default 64.
    pub(crate) max_in_flight_per_connection: Option<Located<u64>>,
    /// Time in seconds for running calls to end when the daemon stops. Default 10.
    pub(crate) drain_seconds: Option<Located<u64>>,
    /// Time in seconds that a client may leave its replies unread before it is disconnected. Default 10.
    pub(crate) write_stall_seconds: Option<Located<u64>>,
    /// Time in seconds after which a call that waits for approval is answered with `approval_pending`, if its client
    /// gets no progress: shorter than the client's own limit. A repeated call continues. Default 50.
    pub(crate) approval_answer_seconds: Option<Located<u64>>,
    /// Maximum number of manifests in `tools/`. With more, the configuration does not load. Default 20000.
    pub(crate) max_manifests: Option<Located<u64>>,
}

// Written by hand, because an untagged derive reports every error as "did not match any variant".
impl<'de> Deserialize<'de> for WorkspaceEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WorkspaceEntryVisitor)
    }
}

struct WorkspaceEntryVisitor;

impl<'de> Visitor<'de> for WorkspaceEntryVisitor {
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
