//! What the judge saw, for the record: names, sizes and counts, enough to judge again, never content.

use std::sync::Arc;

use resources::{ObjectKind, Opened, OpenedPath, OtherNames};
use serde_json::{Value, json};
use tool::{Mode, PathAccess, Refusal};

use crate::cleared::Cleared;
use crate::command_rules::Command;
use crate::policy::Policy;
use crate::situation::{Counts, Situation};

/// What the judge saw besides the call itself.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    mode: Mode,
    counts: Counts,
    policy: Arc<str>,
    would_deny: Option<Box<Refusal>>,
}

impl Seen {
    pub(crate) fn by(policy: &Policy, situation: &Situation<'_>, would_deny: Option<Box<Refusal>>) -> Self {
        Seen { mode: situation.mode, counts: situation.counts, policy: Arc::clone(&policy.hash), would_deny }
    }

    /// Why the tool's rules, which are only recorded, would have denied the call.
    pub(crate) fn would_deny(&self) -> Option<&Refusal> {
        self.would_deny.as_deref()
    }

    /// All of it, in the shape of a record.
    pub(crate) fn with(&self, opened: &Opened<Cleared>) -> Value {
        let content = opened.call().call().arguments().get("content").and_then(Value::as_str);
        let errands = opened.call().errands();
        let mut facts = json!({
            "mode": self.mode,
            "policy": &*self.policy,
            "counts": {
                "tool_last_hour": self.counts.tool_last_hour,
                "all_last_minute": self.counts.all_last_minute,
            },
            "paths": opened.paths().iter().map(path).collect::<Vec<_>>(),
            "content_bytes": content.map(str::len),
        });
        let texts = |list: Vec<String>| if list.is_empty() { None } else { Some(json!(list)) };
        let commands: Vec<Vec<String>> = errands.commands.iter().map(words).collect();
        let entries = [
            ("commands", (!commands.is_empty()).then(|| json!(commands))),
            ("hosts", texts(errands.targets.iter().map(ToString::to_string).collect())),
            ("would_deny", self.would_deny().map(|refusal| json!(refusal))),
        ];
        if let Value::Object(facts) = &mut facts {
            facts.extend(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        }
        facts
    }
}

fn words(command: &Command) -> Vec<String> {
    match command {
        Command::Words(words) => words.clone(),
        Command::ForAShell(line) => vec![line.clone()],
    }
}

fn path(path: &OpenedPath) -> Value {
    let mut facts = json!({
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
    });
    if let (OtherNames::Known(names), Value::Object(facts)) = (path.other_names(), &mut facts)
        && !names.is_empty()
    {
        let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        facts.insert("other_names".to_owned(), json!(names));
    }
    facts
}
