//! What the judge saw, for the record: names, sizes and counts, enough to judge again, never content. How it is written is
//! in `flat`.

mod flat;

use std::borrow::Cow;
use std::path::Path;

use resources::{ObjectKind, Opened, OpenedPath, OtherNames, PathRequest};
use serde::Serialize;
use serde_json::{Value, json};
use tool::{Arguments, Mode, PathAccess, Refusal, SharedText, ToolDefinition};

use crate::cleared::Cleared;
use crate::command_rules::Command;
use crate::errands::Errands;
use crate::host_rules::Target;
use crate::name::spelt;
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
    policy: SharedText,
    would_deny: Option<Box<Refusal>>,
}

impl Seen {
    pub(crate) fn by(policy: &Policy, situation: &Situation<'_>, would_deny: Option<Box<Refusal>>) -> Self {
        Seen { mode: situation.mode, counts: situation.counts, policy: policy.shared_hash(), would_deny }
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
    pub(crate) fn with<'a>(&'a self, opened: &'a Opened<Cleared>) -> Sighting<'a> {
        let (cleared, named) = (opened.call(), opened.call().named());
        let paths = opened.paths().iter().zip(&named.requests);
        let paths = paths.map(|(path, request)| PathSeen::of(path, request));
        self.shaped(paths.collect(), &named.errands, cleared.call().arguments())
    }

    /// The same of a call for which nothing was opened: its names as they were typed, and where they start.
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
                base: base_of(text, workspaces.base()),
            })
        });
        self.shaped(paths.collect(), &Errands::of(definition, arguments), arguments).value()
    }

    fn shaped<'a>(
        &'a self,
        paths: Vec<PathSeen<'a>>,
        errands: &'a Errands,
        arguments: &Arguments,
    ) -> Sighting<'a> {
        Sighting {
            moment: self.moment(),
            paths,
            content_bytes: path_rules::content_bytes(arguments),
            commands: errands.commands.iter().map(CommandSeen::of).collect(),
            hosts: errands.targets.iter().map(HostSeen::of).collect(),
            would_deny: self.would_deny(),
        }
    }

    fn moment(&self) -> Moment<'_> {
        Moment { mode: self.mode, policy: &self.policy, counts: self.counts }
    }

    /// What is kept of a denial: all that was seen, unless that is more than a refusal is worth.
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

/// What the judge saw of a call, as it stands in the record. Typed and borrowed: every call waits for its record, and to
/// build values of it first would take longer than to judge.
#[derive(Debug)]
pub struct Sighting<'a> {
    moment: Moment<'a>,
    paths: Vec<PathSeen<'a>>,
    content_bytes: Option<u64>,
    commands: Vec<CommandSeen<'a>>,
    hosts: Vec<HostSeen>,
    would_deny: Option<&'a Refusal>,
}

impl Sighting<'_> {
    /// The texts in it that somebody else chose, where each can be looked at by itself. The words of a command mean more
    /// together, and of a refusal only its parts are known here: with those there is no such list.
    pub fn chosen_texts(&self) -> Option<impl Iterator<Item = &str>> {
        let alone = self.commands.is_empty() && self.hosts.is_empty() && self.would_deny.is_none();
        alone.then(|| self.paths.iter().flat_map(PathSeen::texts))
    }

    /// The same as a value, for who looks into it.
    pub(crate) fn value(&self) -> Value {
        json!(self)
    }
}

/// When, and by which rules.
#[derive(Debug, Serialize)]
struct Moment<'a> {
    mode: Mode,
    policy: &'a str,
    counts: Counts,
}

/// A path, as it was typed and what it reached.
#[derive(Debug)]
struct PathSeen<'a> {
    key: &'a str,
    typed: Cow<'a, str>,
    canonical: Option<Cow<'a, str>>,
    access: &'static str,
    kind: &'static str,
    object: Option<ObjectSeen>,
    other_names: Vec<Cow<'a, str>>,
    missing_folders: Vec<String>,
    /// Where a relative name starts. An absolute one says so itself.
    base: Option<Cow<'a, str>>,
}

/// What there was to be seen of an object; nothing of one that is not there.
#[derive(Debug, Serialize)]
struct ObjectSeen {
    size: Option<u64>,
    links: Option<u64>,
}

impl<'a> PathSeen<'a> {
    /// The texts to be looked at. A name and its folder are left out where the canonical name is the two of them: what is found in
    /// a part is found in the whole, but for patterns that look for the beginning or the end of a text, and where there is
    /// one of those the redactor takes no text for plain.
    fn texts(&self) -> impl Iterator<Item = &str> {
        let parts = [Some(&*self.typed), self.base.as_deref()];
        let parts = (!self.is_where_it_was_named()).then_some(parts).into_iter().flatten().flatten();
        let others = self
            .other_names
            .iter()
            .map(|name| &**name)
            .chain(self.missing_folders.iter().map(String::as_str));
        [self.key].into_iter().chain(self.canonical.as_deref()).chain(parts).chain(others)
    }

    /// Whether the canonical name is the one that was typed, letter by letter, in its folder where it has one.
    fn is_where_it_was_named(&self) -> bool {
        let Some(canonical) = self.canonical.as_deref() else { return false };
        let below = match &self.base {
            None => Some(canonical),
            Some(base) => canonical.strip_prefix(&**base).and_then(|rest| rest.strip_prefix('/')),
        };
        below == Some(&*self.typed)
    }

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
            base: base_of(&request.text, Some(&request.base)),
        }
    }
}

/// The words of a command; a line that needs a shell stays the one text it is.
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

/// A host by its name. An address that is none may hold a password, and is not repeated.
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
    use super::*;

    /// Every text of a path that is not a word of ours is one that is looked at for secrets.
    #[test]
    fn whatever_somebody_chose_is_among_the_chosen_texts() {
        let text = |name: &'static str| Cow::Borrowed(name);
        let path = PathSeen {
            key: "key",
            typed: text("typed"),
            canonical: Some(text("canonical")),
            access: "ours",
            kind: "ours",
            object: Some(ObjectSeen { size: Some(1), links: Some(1) }),
            other_names: vec![text("one"), text("other")],
            missing_folders: vec!["missing".to_owned()],
            base: Some(text("base")),
        };
        let written = json!(path);
        let mut chosen: Vec<&str> = path.texts().collect();
        let values = written.as_object().into_iter().flat_map(serde_json::Map::values);
        let lists = values.clone().filter_map(Value::as_array).flatten();
        let mut found: Vec<&str> = values.chain(lists).filter_map(Value::as_str).collect();
        found.retain(|text| *text != "ours");
        chosen.sort_unstable();
        found.sort_unstable();
        assert_eq!(chosen, found);
        assert_eq!(found.len(), 7, "{found:?}");
    }

    #[test]
    fn what_the_canonical_name_holds_is_looked_at_once() {
        let check = |typed, base: Option<&'static str>, canonical: Option<&'static str>, expect: &[&str]| {
            let (typed, base) = (Cow::Borrowed(typed), base.map(Cow::Borrowed));
            let canonical = canonical.map(Cow::Borrowed);
            let (access, kind, object) = ("read", "file", None);
            let (other_names, missing_folders) = (Vec::new(), Vec::new());
            let path = PathSeen {
                key: "key",
                typed,
                canonical,
                access,
                kind,
                object,
                other_names,
                missing_folders,
                base,
            };
            assert_eq!(path.texts().skip(1).collect::<Vec<_>>(), expect);
        };
        check("/a/b", None, Some("/a/b"), &["/a/b"]);
        check("b", Some("/a"), Some("/a/b"), &["/a/b"]);
        // A name that leads elsewhere is a text of its own, and so is its folder.
        check("/a/b", None, Some("/c"), &["/c", "/a/b"]);
        check("b", Some("/a"), Some("/c"), &["/c", "b", "/a"]);
        check("./b", Some("/a"), Some("/a/b"), &["/a/b", "./b", "/a"]);
        check("b", Some("/a"), Some("/ab"), &["/ab", "b", "/a"]);
        check("b", Some("/a"), Some("/a/bb"), &["/a/bb", "b", "/a"]);
        check("b", Some("/a"), None, &["b", "/a"]);
    }

    #[test]
    fn commands_hosts_and_refusals_are_looked_at_as_a_whole() {
        let moment = || Moment { mode: Mode::Normal, policy: "p", counts: Counts::default() };
        let refusal = Refusal::new("t", tool::RefusalCode::Busy, "reason");
        let words = ["sshpass".to_owned()];
        let check = |commands: Vec<CommandSeen<'_>>, hosts: Vec<HostSeen>, would_deny, expect: bool| {
            let (paths, content_bytes) = (Vec::new(), None);
            let sighting = Sighting { moment: moment(), paths, content_bytes, commands, hosts, would_deny };
            assert_eq!(sighting.chosen_texts().is_some(), expect, "{sighting:?}");
        };
        check(Vec::new(), Vec::new(), None, true);
        check(vec![CommandSeen::Words(&words)], Vec::new(), None, false);
        check(Vec::new(), vec![HostSeen::Named("a.org".to_owned())], None, false);
        check(Vec::new(), Vec::new(), Some(&refusal), false);
    }
}
