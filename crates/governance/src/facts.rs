//! Facts that a decision was based on, for the ledger: names, sizes and counts, enough to judge the call
//! again, but never content. `serialize.rs` defines their JSON form.

mod flat;

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
    pub(crate) fn with<'a>(&'a self, opened: &'a Opened<Cleared>) -> Sighting<'a> {
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
///
/// Typed and borrowed, because every call waits for its ledger record, and building a JSON value first would
/// take longer than judging.
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
    /// Returns the texts that the caller or the file system chose, if the redactor can check each of them
    /// separately.
    ///
    /// Returns `None` if there are commands, hosts or a refusal: the words of a command have to be checked
    /// together, and the texts inside a refusal are not known here.
    pub fn chosen_texts(&self) -> Option<impl Iterator<Item = &str>> {
        let alone = self.commands.is_empty() && self.hosts.is_empty() && self.would_deny.is_none();
        alone.then(|| self.paths.iter().flat_map(PathSeen::texts))
    }

    /// Converts the facts to a JSON value.
    pub(crate) fn value(&self) -> Value {
        json!(self)
    }
}

/// Mode, policy hash and counts at the time of the decision.
#[derive(Debug, Serialize)]
struct Moment<'a> {
    mode: Mode,
    policy: &'a str,
    counts: Counts,
}

/// Path as typed, and the object it leads to.
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
    /// Relation of a change to a git directory, in a word.
    git_entry: Option<&'static str>,
    /// Folder that a relative name starts in; `None` for an absolute name.
    base: Option<Cow<'a, str>>,
}

/// Metadata of an object; empty if it does not exist.
#[derive(Debug, Serialize)]
struct ObjectSeen {
    size: Option<u64>,
    links: Option<u64>,
}

impl<'a> PathSeen<'a> {
    /// Returns the texts that the redactor has to check.
    ///
    /// The typed name and its base are omitted if the canonical name is their concatenation: a match in a
    /// part is also a match in the whole. Patterns that are anchored to the start or end of a text are an
    /// exception, but with such a pattern the redactor treats no text as plain.
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

    /// Returns true if the canonical name is exactly the typed name, below its base if it has one.
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
    use super::*;

    /// Every text of a path that is not a fixed word of Sinew is checked for secrets.
    #[test]
    fn untrusted_texts_include_every_external_text() {
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
            git_entry: Some("ours"),
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
    fn parts_of_the_canonical_name_are_checked_once() {
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
                git_entry: None,
                base,
            };
            assert_eq!(path.texts().skip(1).collect::<Vec<_>>(), expect);
        };
        check("/a/b", None, Some("/a/b"), &["/a/b"]);
        check("b", Some("/a"), Some("/a/b"), &["/a/b"]);
        // If the name leads elsewhere, the typed name and its base are separate texts.
        check("/a/b", None, Some("/c"), &["/c", "/a/b"]);
        check("b", Some("/a"), Some("/c"), &["/c", "b", "/a"]);
        check("./b", Some("/a"), Some("/a/b"), &["/a/b", "./b", "/a"]);
        check("b", Some("/a"), Some("/ab"), &["/ab", "b", "/a"]);
        check("b", Some("/a"), Some("/a/bb"), &["/a/bb", "b", "/a"]);
        check("b", Some("/a"), None, &["b", "/a"]);
    }

    #[test]
    fn commands_hosts_and_refusals_are_checked_as_a_whole() {
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
