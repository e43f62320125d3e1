//! Facts that a decision was based on, for the ledger: names, sizes and counts, enough to judge the call
//! again, but never content.

use std::borrow::Cow;
use std::path::Path;

use file_access::{ObjectKind, Opened, OpenedPath, OtherNames, PathRequest};
use serde::Serialize;
use serde_json::{Value, json};
use tool::{Arguments, GitEntry, Mode, PathAccess, Refusal, SharedText, ToolDefinition};

use crate::cleared::Cleared;
use crate::command_rules::Command;
use crate::errands::Errands;
use crate::host_rules::Target;
use crate::name::spelt;
use crate::path_rules;
use crate::policy::Policy;
use crate::situation::{Counts, Situation, Workspaces};

/// Largest set of facts that is recorded for a denial. A refused call costs its caller nothing and must not
/// fill the ledger, so beyond this size only the mode, the policy and the counts are recorded.
const MOST_OF_A_DENIAL: usize = 16 * 1024;
/// `kind` of a path that was judged by its name alone.
pub(crate) const UNOPENED: &str = "unopened";
/// JSON key of an entry in `hosts` whose URL has no usable host.
pub(crate) const UNUSABLE: &str = "unusable";

/// Facts that a decision was based on, besides the call itself.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    mode: Mode,
    counts: Counts,
    policy: SharedText,
    would_deny: Option<Box<Refusal>>,
}

impl Seen {
    pub(crate) fn by(policy: &Policy, situation: &Situation<'_>, would_deny: Option<Box<Refusal>>) -> Self {
        Seen { mode: situation.mode, counts: situation.counts, policy: policy.shared_hash(), would_deny }
    }

    /// Returns the same facts with other counts.
    pub(crate) fn after(&self, counts: Counts) -> Self {
        Seen { counts, ..self.clone() }
    }

    /// Returns the refusal that the tool's rules would give if they were not in shadow mode.
    pub(crate) fn would_deny(&self) -> Option<&Refusal> {
        self.would_deny.as_deref()
    }

    /// Combines these facts with those of an opened call.
    pub(crate) fn with(&self, opened: &Opened<Cleared>) -> Value {
        let (cleared, named) = (opened.call(), opened.call().named());
        let paths = opened.paths().iter().zip(&named.requests);
        let paths = paths.map(|(path, request)| PathSeen::of(path, request));
        self.shaped(paths.collect(), &named.errands, cleared.call().arguments())
    }

    /// Combines these facts with those of a call whose paths were not opened: its names as typed and their
    /// base.
    pub(crate) fn unopened(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
        workspaces: &Workspaces,
    ) -> Value {
        let paths = definition.path_arguments().iter().flat_map(|argument| {
            argument.texts(arguments).map(|text| PathSeen {
                key: &argument.key,
                typed: Cow::Borrowed(text),
                access: word(argument.access),
                kind: UNOPENED,
                canonical: None,
                object: None,
                other_names: Vec::new(),
                missing_folders: Vec::new(),
                git_entry: None,
                base: base_of(text, workspaces.base()),
            })
        });
        self.shaped(paths.collect(), &Errands::of(definition, arguments), arguments)
    }

    fn shaped(&self, paths: Vec<PathSeen<'_>>, errands: &Errands, arguments: &Arguments) -> Value {
        json!(Sighting {
            moment: self.moment(),
            paths,
            content_bytes: path_rules::content_bytes(arguments),
            commands: errands.commands.iter().map(CommandSeen::of).collect(),
            hosts: errands.targets.iter().map(HostSeen::of).collect(),
            would_deny: self.would_deny(),
        })
    }

    fn moment(&self) -> Moment<'_> {
        Moment { mode: self.mode, policy: &self.policy, counts: self.counts }
    }

    /// Returns the facts to record for a denial: all of them, or only the header if they exceed the limit.
    pub(crate) fn for_denial(&self, facts: Value) -> Value {
        if facts.to_string().len() <= MOST_OF_A_DENIAL {
            return facts;
        }
        let mut moment = json!(self.moment());
        if let Value::Object(moment) = &mut moment {
            moment.insert("cut".to_owned(), Value::Bool(true));
        }
        moment
    }
}

/// Facts that a decision was based on, in the form that the ledger records.
#[derive(Debug, Serialize)]
struct Sighting<'a> {
    #[serde(flatten)]
    moment: Moment<'a>,
    paths: Vec<PathSeen<'a>>,
    content_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<CommandSeen<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostSeen>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_deny: Option<&'a Refusal>,
}

/// Mode, policy hash and counts at the time of the decision.
#[derive(Debug, Serialize)]
struct Moment<'a> {
    mode: Mode,
    policy: &'a str,
    counts: Counts,
}

/// Path as typed, and the object it leads to.
#[derive(Debug, Serialize)]
struct PathSeen<'a> {
    key: &'a str,
    typed: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<Cow<'a, str>>,
    access: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: Option<ObjectSeen>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    other_names: Vec<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_folders: Vec<String>,
    /// Relation of a change to a git directory, in a word.
    #[serde(skip_serializing_if = "Option::is_none")]
    git_entry: Option<&'static str>,
    /// Folder that a relative name starts in; `None` for an absolute name.
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<Cow<'a, str>>,
}

/// Metadata of an object; empty if it does not exist.
#[derive(Debug, Serialize)]
struct ObjectSeen {
    size: Option<u64>,
    links: Option<u64>,
}

impl<'a> PathSeen<'a> {
    fn of(path: &'a OpenedPath, request: &'a PathRequest) -> Self {
        let facts = path.metadata();
        PathSeen {
            key: path.key(),
            typed: spelt(path.typed()),
            canonical: Some(spelt(path.canonical())),
            access: word(path.access()),
            kind: match path.kind() {
                ObjectKind::File => "file",
                ObjectKind::Directory => "directory",
                ObjectKind::Link => "symlink",
                ObjectKind::Special(kind) => kind,
                ObjectKind::Missing => "missing",
                ObjectKind::Unreachable => "unreachable",
            },
            object: Some(ObjectSeen {
                size: facts.map(|facts| facts.size),
                links: facts.map(|facts| facts.links),
            }),
            other_names: match path.other_names() {
                OtherNames::Known(names) => names.iter().map(|name| spelt(name)).collect(),
                OtherNames::Unknown => Vec::new(),
            },
            missing_folders: path
                .missing_folders()
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            git_entry: path.git_entry().map(GitEntry::as_str),
            base: base_of(&request.text, Some(&request.base)),
        }
    }
}

/// Words of a command, or the whole line if it needs a shell.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum CommandSeen<'a> {
    Words(&'a [String]),
    ForAShell(&'a str),
}

impl<'a> CommandSeen<'a> {
    fn of(command: &'a Command) -> Self {
        match command {
            Command::Words(words) => CommandSeen::Words(words),
            Command::ForAShell(line) => CommandSeen::ForAShell(line),
        }
    }
}

/// Host by its name. The text of an invalid URL is not recorded, because it may contain a password.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HostSeen {
    Named(String),
    Unusable { unusable: &'static str },
}

impl HostSeen {
    fn of(target: &Target) -> Self {
        match target {
            Target::Host(host) => HostSeen::Named(host.to_string()),
            Target::Unusable { detail, .. } => HostSeen::Unusable { unusable: detail },
        }
    }
}

fn word(access: PathAccess) -> &'static str {
    match access {
        PathAccess::Read => "read",
        PathAccess::Write => "write",
        PathAccess::Remove => "remove",
    }
}

fn base_of<'a>(typed: &str, base: Option<&'a Path>) -> Option<Cow<'a, str>> {
    base.filter(|_| !Path::new(typed).is_absolute()).map(spelt)
}

#[cfg(test)]
mod tests {
    use tool::RefusalCode;

    use super::*;

    #[track_caller]
    fn check(facts: &Sighting<'_>, expect: &str) {
        assert_eq!(json!(facts).to_string(), expect);
        assert_eq!(serde_json::to_string(facts).unwrap(), expect);
    }

    /// Records of older versions are compared with newer ones, so the form must not change.
    #[test]
    fn facts_are_flat_and_omit_empty_members() {
        let counts = Counts { tool_last_hour: 1, all_last_minute: 2, outbound_last_hour: 3 };
        let moment = || Moment { mode: Mode::Alert, policy: "p", counts };
        let text = |name: &'static str| Cow::Borrowed(name);
        let whole = || PathSeen {
            key: "key",
            typed: text("typed"),
            canonical: Some(text("/canonical")),
            access: "write",
            kind: "file",
            object: Some(ObjectSeen { size: Some(7), links: None }),
            other_names: vec![text("one"), text("other")],
            missing_folders: vec!["missing".to_owned()],
            git_entry: Some("existing"),
            base: Some(text("/base")),
        };
        let bare = PathSeen {
            canonical: None,
            object: None,
            other_names: Vec::new(),
            missing_folders: Vec::new(),
            git_entry: None,
            base: None,
            ..whole()
        };
        let (words, refusal) = (["ls".to_owned()], Refusal::new("t", RefusalCode::Busy, "reason"));
        let head = r#""mode":"ALERT","policy":"p","counts":{"tool_last_hour":1,"all_last_minute":2,"outbound_last_hour":3}"#;
        check(
            &Sighting {
                moment: moment(),
                paths: vec![whole(), bare],
                content_bytes: Some(3),
                commands: vec![CommandSeen::Words(&words), CommandSeen::ForAShell("a | b")],
                hosts: vec![HostSeen::Named("a.org".to_owned()), HostSeen::Unusable { unusable: "bad" }],
                would_deny: Some(&refusal),
            },
            &format!(
                r#"{{{head},"paths":[{},{}],"content_bytes":3,"commands":{},"hosts":{},"would_deny":{}}}"#,
                r#"{"key":"key","typed":"typed","canonical":"/canonical","access":"write","kind":"file","size":7,"links":null,"other_names":["one","other"],"missing_folders":["missing"],"git_entry":"existing","base":"/base"}"#,
                r#"{"key":"key","typed":"typed","access":"write","kind":"file"}"#,
                r#"[["ls"],"a | b"]"#,
                r#"["a.org",{"unusable":"bad"}]"#,
                serde_json::to_string(&refusal).unwrap(),
            ),
        );
        let (paths, commands, hosts) = (Vec::new(), Vec::new(), Vec::new());
        check(
            &Sighting { moment: moment(), paths, content_bytes: None, commands, hosts, would_deny: None },
            &format!(r#"{{{head},"paths":[],"content_bytes":null}}"#),
        );
    }
}
