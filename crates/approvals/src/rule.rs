//! Standing rule: calls that need no further approval for a limited time. The rule contains exactly what was
//! displayed when it was created. Every input of the decision is part of it: a call that differs in any of
//! them needs approval.

mod command;

use std::collections::BTreeMap;

use globset::GlobBuilder;
use serde::{Deserialize, Serialize};
use tool::caller::{CallerKey, EndpointParty};
use tool::{Caller, Mode};

use crate::effect::quote_client_name;
use command::RuleCommand;

/// Label of a file that is named by the words of a command.
const READS_LABEL: &str = "reads";

/// Calls that a standing rule covers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RuleScope {
    tool: String,
    definition: String,
    uid: u32,
    client: Option<String>,
    session: Option<String>,
    /// Side that the calls come from: agents, the operator, or a layer embedded in another process.
    #[serde(default)]
    side: EndpointParty,
    /// Process of the agent. `None` for the operator, and in rules of older versions, which cover no agent.
    #[serde(default)]
    process: Option<CallerKey>,
    /// Run of the daemon and connection that the rule is limited to. `None`: any connection of the same
    /// process.
    connection: Option<(String, u64)>,
    mode: Mode,
    #[serde(rename = "asked_by")]
    approval_rules: Vec<String>,
    bounds: String,
    /// Further facts from the preview of the tool: the program behind a name, its working directory, the
    /// digest of a script.
    facts: Vec<(String, String)>,
    subject: RuleSubject,
}

/// Subject of the covered calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum RuleSubject {
    /// Calls that reach these paths, programs and hosts with these boolean arguments.
    Reaching {
        /// Paths by argument.
        paths: BTreeMap<String, PathScope>,
        command: Option<RuleCommand>,
        hosts: Vec<String>,
        /// Boolean arguments by name: an approval of a dry run does not cover the real run.
        #[serde(default)]
        switches: BTreeMap<String, bool>,
        /// Digest of all other arguments, unless they are arbitrary.
        #[serde(default)]
        others: Option<String>,
    },
    /// Calls with exactly these arguments, if nothing else describes what the call reaches.
    Arguments { digest: String },
}

/// Canonical paths that an argument may name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PathScope {
    Exactly(String),
    Within(String),
}

/// Properties of a call that a standing rule is matched against.
#[derive(Clone, Debug)]
pub(crate) struct CallProfile<'a> {
    pub(crate) tool: &'a str,
    pub(crate) definition: &'a str,
    pub(crate) caller: &'a Caller,
    /// Run of the daemon.
    pub(crate) instance_id: &'a str,
    pub(crate) mode: Mode,
    pub(crate) rules: &'a [String],
    /// Timeout, sandbox and network.
    pub(crate) bounds: &'a str,
    /// Facts from the preview of the tool.
    pub(crate) facts: &'a [(String, String)],
    /// Canonical paths by argument.
    pub(crate) paths: Vec<(String, String)>,
    pub(crate) commands: Vec<Vec<String>>,
    pub(crate) hosts: Vec<String>,
    /// Boolean arguments by name.
    pub(crate) switches: BTreeMap<String, bool>,
    /// Digest of the remaining arguments. `None` if the operator decides only about what the call reaches.
    pub(crate) other_arguments_digest: Option<String>,
    pub(crate) arguments_digest: &'a str,
}

impl RuleScope {
    /// Creates the rule for calls like this one, from any connection of the same process.
    pub(crate) fn from_call(call_profile: &CallProfile<'_>) -> Result<RuleScope, String> {
        let mut paths: BTreeMap<String, PathScope> = BTreeMap::new();
        for (key, path) in &call_profile.paths {
            if paths.insert(key.clone(), PathScope::Exactly(path.clone())).is_some() {
                return Err(format!("`{key}` names several paths: this call can only be approved once"));
            }
        }
        let command = match call_profile.commands.as_slice() {
            [] => None,
            [argv] => Some(RuleCommand::exact(argv)),
            _ => return Err("it names several commands: this call can only be approved once".to_owned()),
        };
        let nothing_named = paths.is_empty() && command.is_none() && call_profile.hosts.is_empty();
        let subject = match nothing_named {
            true => RuleSubject::Arguments { digest: call_profile.arguments_digest.to_owned() },
            false => {
                let (hosts, switches) = (call_profile.hosts.clone(), call_profile.switches.clone());
                RuleSubject::Reaching {
                    paths,
                    command,
                    hosts,
                    switches,
                    others: call_profile.other_arguments_digest.clone(),
                }
            }
        };
        Ok(RuleScope {
            tool: call_profile.tool.to_owned(),
            definition: call_profile.definition.to_owned(),
            uid: call_profile.caller.uid,
            client: call_profile.caller.client.clone(),
            session: call_profile.caller.session.clone(),
            side: call_profile.caller.endpoint.party(),
            process: call_profile.caller.bound_key(),
            connection: None,
            mode: call_profile.mode,
            approval_rules: call_profile.rules.to_vec(),
            bounds: call_profile.bounds.to_owned(),
            facts: call_profile.facts.to_vec(),
            subject,
        })
    }

    /// Limits the rule to one connection in one run of the daemon.
    pub(crate) fn on_connection(self, instance_id: &str, connection: u64) -> RuleScope {
        RuleScope { connection: Some((instance_id.to_owned(), connection)), ..self }
    }

    /// Widens the rule by `argument=pattern`: a glob over canonical paths, or the first words of a command.
    /// Each pattern must cover the value that it replaces.
    pub(crate) fn with_patterns(mut self, patterns: &[String]) -> Result<RuleScope, String> {
        for pattern in patterns {
            let (key, value) =
                pattern.split_once('=').ok_or_else(|| format!("`{pattern}` is not `argument=pattern`"))?;
            let RuleSubject::Reaching { paths, command, .. } = &mut self.subject else {
                return Err("this call names no path and no command".to_owned());
            };
            match (paths.get_mut(key), command.as_mut()) {
                (Some(scope), _) => *scope = scope.widen(key, value)?,
                (None, Some(command)) if key == "command" => {
                    *command = command.widen(value, &self.facts)?;
                    // The files that further words may name are not known yet.
                    self.facts.retain(|(label, _)| label != READS_LABEL);
                }
                _ => return Err(format!("`{key}` is neither a path nor the command of this call")),
            }
        }
        Ok(self)
    }

    pub(crate) fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns true if the rule covers a call.
    pub(crate) fn covers(&self, call_profile: &CallProfile<'_>) -> bool {
        let caller = call_profile.caller;
        // Another process can copy the client name.
        let same_instance = (self.uid, &self.client, &self.session, self.side, self.process)
            == (caller.uid, &caller.client, &caller.session, caller.endpoint.party(), caller.bound_key());
        let same_connection = self.connection.as_ref().is_none_or(|(instance_id, connection)| {
            instance_id == call_profile.instance_id && *connection == caller.connection
        });
        let same_moment = self.mode == call_profile.mode
            && self.bounds == call_profile.bounds
            && self.matches_facts(call_profile)
            && call_profile.rules.iter().all(|rule| self.approval_rules.contains(rule));
        let same_tool = self.tool == call_profile.tool && self.definition == call_profile.definition;
        same_instance && same_connection && same_moment && same_tool && self.subject.matches(call_profile)
    }

    /// Returns true if the facts from the preview are the same. Files named by further words of an open
    /// command are ignored.
    fn matches_facts(&self, call_profile: &CallProfile<'_>) -> bool {
        let is_open = matches!(&self.subject, RuleSubject::Reaching { command: Some(command), .. } if command.is_prefix());
        let counts = |(label, _): &&(String, String)| !is_open || label != READS_LABEL;
        call_profile.facts.iter().filter(counts).eq(&self.facts)
    }

    /// The complete rule as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} needs no further approval where", self.tool)];
        match &self.subject {
            RuleSubject::Arguments { .. } => lines.push("  all arguments are the same".to_owned()),
            RuleSubject::Reaching { paths, command, hosts, switches, others } => {
                lines.extend(paths.iter().map(|(key, scope)| match scope {
                    PathScope::Exactly(path) => format!("  {key} is {path}"),
                    PathScope::Within(glob) => format!("  {key} matches {glob}"),
                }));
                lines.extend(command.iter().map(RuleCommand::to_line));
                lines.extend(hosts.iter().map(|host| format!("  the host is {host}")));
                lines.extend(switches.iter().map(|(key, on)| format!("  {key} is {on}")));
                let bound = if others.is_some() { "the same" } else { "any" };
                lines.push(format!("  other arguments: {bound}"));
            }
        }
        let client = quote_client_name(self.client.as_deref());
        let session = self.session.as_deref().map(|id| format!(", session {id}")).unwrap_or_default();
        let process = match self.process {
            Some(CallerKey::Process(process)) => format!(", process {}", process.pid),
            Some(CallerKey::User(_)) | None => String::new(),
        };
        let connection = if self.connection.is_some() { ", on this connection" } else { "" };
        lines.push(format!(
            "for {client} (uid {}{process}){}{session}{connection}",
            self.uid,
            self.side.description_suffix()
        ));
        lines.push(format!("in {}, required by {}", self.mode, self.approval_rules.join(", ")));
        lines.extend(self.facts.iter().map(|(label, text)| format!("{label} {text}")));
        lines.push(self.bounds.clone());
        lines
    }
}

impl RuleSubject {
    fn matches(&self, call_profile: &CallProfile<'_>) -> bool {
        match self {
            RuleSubject::Arguments { digest } => digest == call_profile.arguments_digest,
            RuleSubject::Reaching { paths, command, hosts, switches, others } => {
                let path_is_covered =
                    |(key, path): &(String, String)| paths.get(key).is_some_and(|scope| scope.matches(path));
                let command_is_covered = match (command, call_profile.commands.as_slice()) {
                    (None, []) => true,
                    (Some(command), [argv]) => command.covers(argv),
                    _ => false,
                };
                call_profile.paths.len() == paths.len()
                    && call_profile.paths.iter().all(path_is_covered)
                    && command_is_covered
                    && call_profile.hosts.iter().all(|host| hosts.contains(host))
                    && call_profile.switches == *switches
                    && call_profile.other_arguments_digest == *others
            }
        }
    }
}

impl PathScope {
    fn matches(&self, path: &str) -> bool {
        match self {
            PathScope::Exactly(exact) => exact == path,
            PathScope::Within(glob) => {
                build_glob(glob).is_ok_and(|glob| glob.compile_matcher().is_match(path))
            }
        }
    }

    /// Widens the path to a glob within a directory that is named in full.
    fn widen(&self, key: &str, glob: &str) -> Result<PathScope, String> {
        build_glob(glob).map_err(|error| format!("`{glob}` is not a valid pattern: {}", error.kind()))?;
        let literal = glob.split(['*', '?', '[', '{']).next().unwrap_or_default();
        let named = literal.rsplit_once('/').map_or("", |(folder, _)| folder);
        let deep = named.split('/').filter(|part| !part.is_empty()).count() >= 2;
        if !glob.starts_with('/') || !deep || glob.split('/').any(|part| part == "..") {
            return Err(format!(
                "the pattern of `{key}` must name a folder in full, such as /home/me/project/**"
            ));
        }
        let wider = PathScope::Within(glob.to_owned());
        match self {
            PathScope::Exactly(path) if wider.matches(path) => Ok(wider),
            _ => Err(format!("`{glob}` does not cover the call that is being approved")),
        }
    }
}

fn build_glob(glob: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(glob).literal_separator(true).backslash_escape(true).empty_alternates(true).build()
}

#[cfg(test)]
mod tests;
