//! What the judge saw, for the record: names, sizes and counts, enough to judge again, never content.

use std::path::Path;
use std::sync::Arc;

use resources::{ObjectKind, Opened, OpenedPath, OtherNames, PathRequest};
use serde_json::{Value, json};
use tool::{Arguments, Mode, PathAccess, Refusal, ToolDefinition};

use crate::cleared::Cleared;
use crate::command_rules::Command;
use crate::errands::Errands;
use crate::host_rules::Target;
use crate::path_rules;
use crate::policy::Policy;
use crate::situation::{Counts, Situation, Workspaces};

/// A refused call costs its caller nothing, and must not fill the record: beyond this only the moment is kept.
const MOST_OF_A_DENIAL: usize = 16 * 1024;
/// What stands for the kind of a path that was judged by its name alone.
pub(crate) const UNOPENED: &str = "unopened";
/// Where there was an address that leads to no host.
pub(crate) const UNUSABLE: &str = "unusable";

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

    /// The same when so much has run.
    pub(crate) fn after(&self, counts: Counts) -> Self {
        Seen { counts, ..self.clone() }
    }

    /// Why the tool's rules, which are only recorded, would have denied the call.
    pub(crate) fn would_deny(&self) -> Option<&Refusal> {
        self.would_deny.as_deref()
    }

    /// All of it, in the shape of a record.
    pub(crate) fn with(&self, opened: &Opened<Cleared>) -> Value {
        let cleared = opened.call();
        let paths =
            opened.paths().iter().zip(cleared.requests()).map(|(path, request)| reached(path, request));
        self.shaped(paths.collect(), cleared.errands(), cleared.call().arguments())
    }

    /// The same of a call for which nothing was opened: its names as they were typed, and where they start.
    pub(crate) fn unopened(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
        workspaces: &Workspaces,
    ) -> Value {
        let paths = definition.path_arguments().iter().flat_map(|argument| {
            argument.texts(arguments).map(|text| {
                let facts = json!({"key": argument.key, "typed": text, "access": word(argument.access),
                    "kind": UNOPENED});
                with_base(facts, text, workspaces.base())
            })
        });
        self.shaped(paths.collect(), &Errands::of(definition, arguments), arguments)
    }

    fn shaped(&self, paths: Vec<Value>, errands: &Errands, arguments: &Arguments) -> Value {
        let mut facts = self.moment();
        let list = |items: Vec<Value>| (!items.is_empty()).then_some(Value::Array(items));
        let entries = [
            ("paths", Some(Value::Array(paths))),
            ("content_bytes", Some(json!(path_rules::content_bytes(arguments)))),
            ("commands", list(errands.commands.iter().map(command).collect())),
            ("hosts", list(errands.targets.iter().map(host).collect())),
            ("would_deny", self.would_deny().map(|refusal| json!(refusal))),
        ];
        if let Value::Object(facts) = &mut facts {
            facts.extend(entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        }
        facts
    }

    fn moment(&self) -> Value {
        json!({
            "mode": self.mode,
            "policy": &*self.policy,
            "counts": {
                "tool_last_hour": self.counts.tool_last_hour,
                "all_last_minute": self.counts.all_last_minute,
                "outbound_last_hour": self.counts.outbound_last_hour,
            },
        })
    }

    /// What is kept of a denial: all that was seen, unless that is more than a refusal is worth.
    pub(crate) fn for_denial(&self, facts: Value) -> Value {
        if facts.to_string().len() <= MOST_OF_A_DENIAL {
            return facts;
        }
        let mut moment = self.moment();
        if let Value::Object(moment) = &mut moment {
            moment.insert("cut".to_owned(), Value::Bool(true));
        }
        moment
    }
}

/// The words of a command; a line that needs a shell stays the one text it is.
fn command(command: &Command) -> Value {
    match command {
        Command::Words(words) => json!(words),
        Command::ForAShell(line) => json!(line),
    }
}

/// A host by its name. An address that is none may hold a password, and is not repeated.
fn host(target: &Target) -> Value {
    match target {
        Target::Host(host) => json!(host.to_string()),
        Target::Unusable { detail, .. } => json!({UNUSABLE: detail}),
    }
}

fn word(access: PathAccess) -> &'static str {
    match access {
        PathAccess::Read => "read",
        PathAccess::Write => "write",
        PathAccess::Remove => "remove",
    }
}

/// Where a relative name starts. An absolute one says so itself.
fn with_base(mut facts: Value, typed: &str, base: Option<&Path>) -> Value {
    if let (Value::Object(facts), Some(base), false) = (&mut facts, base, Path::new(typed).is_absolute()) {
        facts.insert("base".to_owned(), json!(base.to_string_lossy()));
    }
    facts
}

fn reached(path: &OpenedPath, request: &PathRequest) -> Value {
    let mut facts = json!({
        "key": path.key(),
        "typed": path.typed().to_string_lossy(),
        "canonical": path.canonical().to_string_lossy(),
        "access": word(path.access()),
        "kind": match path.kind() {
            ObjectKind::File => "file",
            ObjectKind::Directory => "directory",
            ObjectKind::Link => "symlink",
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
    let missing = path.missing_folders();
    if let (false, Value::Object(facts)) = (missing.is_empty(), &mut facts) {
        let names: Vec<_> = missing.iter().map(|name| name.to_string_lossy()).collect();
        facts.insert("missing_folders".to_owned(), json!(names));
    }
    with_base(facts, &request.text, Some(&request.base))
}
