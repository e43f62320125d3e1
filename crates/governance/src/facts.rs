//! What the judge saw, for the record: names, sizes and counts, enough to judge again, never content.

use std::sync::Arc;

use resources::{ObjectKind, Opened, OpenedPath};
use serde_json::{Value, json};
use tool::{Mode, PathAccess};

use crate::cleared::Cleared;
use crate::policy::Policy;
use crate::situation::{Counts, Situation};

/// What the judge saw besides the call itself.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    mode: Mode,
    counts: Counts,
    policy: Arc<str>,
}

impl Seen {
    pub(crate) fn by(policy: &Policy, situation: &Situation<'_>) -> Self {
        Seen { mode: situation.mode, counts: situation.counts, policy: Arc::clone(&policy.hash) }
    }

    /// All of it, in the shape of a record.
    pub(crate) fn with(&self, opened: &Opened<Cleared>) -> Value {
        let content = opened.call().call().arguments().get("content").and_then(Value::as_str);
        json!({
            "mode": self.mode,
            "policy": &*self.policy,
            "counts": {
                "tool_last_hour": self.counts.tool_last_hour,
                "all_last_minute": self.counts.all_last_minute,
            },
            "paths": opened.paths().iter().map(path).collect::<Vec<_>>(),
            "content_bytes": content.map(str::len),
        })
    }
}

fn path(path: &OpenedPath) -> Value {
    json!({
        "key": path.key(),
        "typed": path.typed().to_string_lossy(),
        "canonical": path.canonical().to_string_lossy(),
        "access": match path.access() {
            PathAccess::Read => "read",
            PathAccess::Write => "write",
        },
        "kind": match path.kind() {
            ObjectKind::File => "file",
            ObjectKind::Directory => "directory",
            ObjectKind::Special(kind) => kind,
            ObjectKind::Missing => "missing",
            ObjectKind::Unreachable => "unreachable",
        },
        "size": path.metadata().map(|facts| facts.size),
        "links": path.metadata().map(|facts| facts.links),
    })
}
