//! Facts that a decision was based on, for the ledger: names, sizes and counts, enough to judge the call
//! again, but never content.

use std::borrow::Cow;
use std::path::Path;

use file_access::{HardLinkNames, ObjectKind, OpenedCall, OpenedPath, PathRequest};
use serde::Serialize;
use serde_json::{Value, json};
use tool::definition::PathAccess;
use tool::git::GitEntry;
use tool::text::SharedText;
use tool::{Arguments, Mode, Refusal, ToolDefinition, escaped_json};

use crate::command_rules::RequestedCommand;
use crate::external_targets::ExternalTargets;
use crate::host_rules::NetworkTarget;
use crate::normalized_path::path_text;
use crate::path_rules;
use crate::policy::Policy;
use crate::prechecked::Prechecked;
use crate::situation::{RateCounts, Situation, Workspaces};

/// Largest set of facts that is recorded for a denial. A refused call costs its caller nothing and must not
/// fill the ledger, so beyond this size only the mode, the policy and the counts are recorded.
const MAX_DENIAL_FACTS_BYTES: usize = 16 * 1024;
/// Initial capacity for facts as text, enough for most.
const TYPICAL_FACTS_BYTES: usize = 512;
/// `kind` of a path that was judged by its name alone.
pub(crate) const UNOPENED_KIND: &str = "unopened";
/// JSON key of an entry in `hosts` whose URL has no usable host.
pub(crate) const UNUSABLE_KEY: &str = "unusable";

/// Facts that a decision was based on, besides the call itself.
#[derive(Clone, Debug)]
pub(crate) struct SituationFacts {
    mode: Mode,
    counts: RateCounts,
    policy_hash: SharedText,
    shadow_denial: Option<Box<Refusal>>,
    is_recording: bool,
}

impl SituationFacts {
    pub(crate) fn new(
        policy: &Policy,
        situation: &Situation<'_>,
        shadow_denial: Option<Box<Refusal>>,
    ) -> Self {
        SituationFacts {
            mode: situation.mode,
            counts: situation.counts,
            policy_hash: policy.shared_hash(),
            shadow_denial,
            is_recording: policy.is_recording,
        }
    }

    /// Returns the same facts with other counts.
    pub(crate) fn with_counts(&self, counts: RateCounts) -> Self {
        SituationFacts { counts, ..self.clone() }
    }

    /// Returns the refusal that the tool's rules would give if they were not in shadow mode.
    pub(crate) fn shadow_denial(&self) -> Option<&Refusal> {
        self.shadow_denial.as_deref()
    }

    /// Combines these facts with those of an opened call.
    pub(crate) fn opened_facts(&self, opened: &OpenedCall<Prechecked>) -> Value {
        json!(self.facts_of(opened))
    }

    /// Like `opened_facts`, as JSON text without hidden characters.
    pub(crate) fn opened_facts_json(&self, opened: &OpenedCall<Prechecked>) -> String {
        let mut text = Vec::with_capacity(TYPICAL_FACTS_BYTES);
        // Facts consist of numbers and strings, so they can always be serialised, and JSON is UTF-8.
        let _ = escaped_json::append(&mut text, &self.facts_of(opened));
        String::from_utf8(text).unwrap_or_default()
    }

    fn facts_of<'a>(&'a self, opened: &'a OpenedCall<Prechecked>) -> DecisionFacts<'a> {
        let (prechecked, named) = (opened.call(), opened.call().named_targets());
        let paths = opened.paths().iter().zip(&named.path_requests);
        let paths = paths.map(|(path, request)| PathFacts::from_opened(path, request));
        self.build_facts(paths.collect(), &named.external_targets, prechecked.call().arguments())
    }

    /// Combines these facts with those of a call whose paths were not opened: its names as typed and their
    /// base.
    pub(crate) fn unopened_facts(
        &self,
        definition: &ToolDefinition,
        arguments: &Arguments,
        workspaces: &Workspaces,
    ) -> Value {
        let paths = definition.path_arguments().iter().flat_map(|argument| {
            argument.texts(arguments).map(|text| PathFacts {
                key: &argument.key,
                typed: Cow::Borrowed(text),
                access: access_name(argument.access),
                kind: UNOPENED_KIND,
                canonical: None,
                object: None,
                other_names: Vec::new(),
                missing_folders: Vec::new(),
                git_entry: None,
                base: relative_base(text, workspaces.base()),
            })
        });
        let targets = ExternalTargets::from_arguments(definition, arguments);
        json!(self.build_facts(paths.collect(), &targets, arguments))
    }

    fn build_facts<'a>(
        &'a self,
        paths: Vec<PathFacts<'a>>,
        targets: &'a ExternalTargets,
        arguments: &Arguments,
    ) -> DecisionFacts<'a> {
        DecisionFacts {
            moment: self.header(),
            paths,
            content_bytes: path_rules::content_bytes(arguments),
            commands: targets.commands.iter().map(CommandFacts::from_command).collect(),
            hosts: targets.network_targets.iter().map(HostFacts::from_target).collect(),
            would_deny: self.shadow_denial(),
            recording: self.is_recording,
        }
    }

    fn header(&self) -> FactsHeader<'_> {
        FactsHeader { mode: self.mode, policy: &self.policy_hash, counts: self.counts }
    }

    /// Returns the facts to record for a denial: all of them, or only the header if they exceed the limit.
    pub(crate) fn limit_for_denial(&self, facts: Value) -> Value {
        if facts.to_string().len() <= MAX_DENIAL_FACTS_BYTES {
            return facts;
        }
        let mut moment = json!(self.header());
        if let Value::Object(moment) = &mut moment {
            moment.insert("cut".to_owned(), Value::Bool(true));
        }
        moment
    }
}

/// Facts that a decision was based on, in the form that the ledger records.
#[derive(Debug, Serialize)]
struct DecisionFacts<'a> {
    #[serde(flatten)]
    moment: FactsHeader<'a>,
    paths: Vec<PathFacts<'a>>,
    content_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    commands: Vec<CommandFacts<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostFacts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    would_deny: Option<&'a Refusal>,
    /// True if the call was permitted only because its allowlists did not apply while calls were recorded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    recording: bool,
}

/// Mode, policy hash and counts at the time of the decision.
#[derive(Debug, Serialize)]
struct FactsHeader<'a> {
    mode: Mode,
    policy: &'a str,
    counts: RateCounts,
}

/// Path as typed, and the object it leads to.
#[derive(Debug, Serialize)]
struct PathFacts<'a> {
    key: &'a str,
    typed: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    canonical: Option<Cow<'a, str>>,
    access: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    object: Option<PathObjectFacts>,
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
struct PathObjectFacts {
    size: Option<u64>,
    links: Option<u64>,
}

impl<'a> PathFacts<'a> {
    fn from_opened(path: &'a OpenedPath, request: &'a PathRequest) -> Self {
        let facts = path.metadata();
        PathFacts {
            key: path.key(),
            typed: path_text(path.as_typed()),
            canonical: Some(path_text(path.canonical())),
            access: access_name(path.access()),
            kind: match path.kind() {
                ObjectKind::File => "file",
                ObjectKind::Directory => "directory",
                ObjectKind::Link => "symlink",
                ObjectKind::Special(kind) => kind,
                ObjectKind::Missing => "missing",
                ObjectKind::Unreachable => "unreachable",
            },
            object: Some(PathObjectFacts {
                size: facts.map(|facts| facts.size),
                links: facts.map(|facts| facts.links),
            }),
            other_names: match path.other_names() {
                HardLinkNames::Known(names) => names.iter().map(|name| path_text(name)).collect(),
                HardLinkNames::Unknown => Vec::new(),
            },
            missing_folders: path
                .missing_folders()
                .iter()
                .map(|name| name.to_string_lossy().into_owned())
                .collect(),
            git_entry: path.git_entry().map(GitEntry::as_str),
            base: relative_base(&request.text, Some(&request.base)),
        }
    }
}

/// Words of a command, or the whole line if it needs a shell.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum CommandFacts<'a> {
    Words(&'a [String]),
    ForAShell(&'a str),
}

impl<'a> CommandFacts<'a> {
    fn from_command(command: &'a RequestedCommand) -> Self {
        match command {
            RequestedCommand::Words(words) => CommandFacts::Words(words),
            RequestedCommand::ShellLine(line) => CommandFacts::ForAShell(line),
        }
    }
}

/// Host by its name. The text of an invalid URL is not recorded, because it may contain a password.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum HostFacts {
    Named(String),
    Unusable { unusable: &'static str },
}

impl HostFacts {
    fn from_target(target: &NetworkTarget) -> Self {
        match target {
            NetworkTarget::Host(host) => HostFacts::Named(host.to_string()),
            NetworkTarget::Unusable { detail, .. } => HostFacts::Unusable { unusable: detail },
        }
    }
}

fn access_name(access: PathAccess) -> &'static str {
    match access {
        PathAccess::Read => "read",
        PathAccess::Write => "write",
        PathAccess::Remove => "remove",
    }
}

fn relative_base<'a>(typed: &str, base: Option<&'a Path>) -> Option<Cow<'a, str>> {
    base.filter(|_| !Path::new(typed).is_absolute()).map(path_text)
}

#[cfg(test)]
mod tests {
    use tool::RefusalCode;

    use super::*;

    #[track_caller]
    fn check(facts: &DecisionFacts<'_>, expect: &str) {
        assert_eq!(json!(facts).to_string(), expect);
        assert_eq!(serde_json::to_string(facts).unwrap(), expect);
    }

    /// Records of older versions are compared with newer ones, so the form must not change.
    #[test]
    fn facts_are_flat_and_omit_empty_members() {
        let counts = RateCounts { tool_last_hour: 1, all_last_minute: 2, outbound_last_hour: 3 };
        let moment = || FactsHeader { mode: Mode::Alert, policy: "p", counts };
        let text = |name: &'static str| Cow::Borrowed(name);
        let whole = || PathFacts {
            key: "key",
            typed: text("typed"),
            canonical: Some(text("/canonical")),
            access: "write",
            kind: "file",
            object: Some(PathObjectFacts { size: Some(7), links: None }),
            other_names: vec![text("one"), text("other")],
            missing_folders: vec!["missing".to_owned()],
            git_entry: Some("existing"),
            base: Some(text("/base")),
        };
        let bare = PathFacts {
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
            &DecisionFacts {
                moment: moment(),
                paths: vec![whole(), bare],
                content_bytes: Some(3),
                commands: vec![CommandFacts::Words(&words), CommandFacts::ForAShell("a | b")],
                hosts: vec![HostFacts::Named("a.org".to_owned()), HostFacts::Unusable { unusable: "bad" }],
                would_deny: Some(&refusal),
                recording: false,
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
            &DecisionFacts {
                moment: moment(),
                paths,
                content_bytes: None,
                commands,
                hosts,
                would_deny: None,
                recording: false,
            },
            &format!(r#"{{{head},"paths":[],"content_bytes":null}}"#),
        );
    }
}
