//! What can run without a human: every tool in every mode, and how far it goes.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use tool::{Mode, Outward, RuleRef, ToolDefinition};

use crate::command_rules::CommandRule;
use crate::glob::PathGlobs;
use crate::host_rules::{HostPattern, Private};
use crate::policy::Policy;
use crate::situation::{Counts, Situation, Workspaces};
use crate::standing::{Attendance, Standing};
use crate::trail::{Notes, Trail};

/// What a tool can do by itself in a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// The tool.
    pub tool: String,
    /// The mode.
    pub mode: Mode,
    /// Whether it changes what it reaches.
    pub writes: bool,
    /// Where it goes: patterns as they are written, or `workspaces`. Empty for a tool without paths.
    pub paths: Vec<String>,
    /// What bounds those patterns as well, where nobody is asked only on some of the paths. Empty where nothing does.
    pub within: Vec<String>,
    /// Where it never goes, whatever the above says, besides the floor.
    pub except: Vec<String>,
    /// What it may start. Empty for a tool that starts nothing.
    pub commands: Vec<String>,
    /// What it never starts, whatever the above says.
    pub except_commands: Vec<String>,
    /// Where on the network it may go: what both its own list and the gateway's name. Empty for a tool that does not leave
    /// the machine.
    pub hosts: Vec<String>,
    /// Where it never goes on the network, whatever the above says.
    pub except_hosts: Vec<String>,
    /// How often, in an hour.
    pub per_hour: Option<u32>,
    /// The rules that let it.
    pub rules: Vec<RuleRef>,
}

impl Policy {
    /// Everything that can run in a mode without anybody being asked.
    pub fn reach<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
        mode: Mode,
    ) -> Vec<Reach> {
        definitions.into_iter().filter_map(|definition| self.reach_of(definition, mode)).collect()
    }

    fn reach_of(&self, definition: &ToolDefinition, mode: Mode) -> Option<Reach> {
        let standing = Standing::of(self, definition);
        let workspaces = Workspaces::default();
        let situation = Situation { mode, workspaces: &workspaces, counts: Counts::default() };
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        standing.admit(&situation, &mut notes).ok()?;
        let rules = standing.rules;
        let asked =
            |attendance| !standing.approvals(mode, attendance, &mut Notes::on(&mut Trail::off())).is_empty();
        let unattended = match asked(Attendance::Asked) {
            false => None,
            // Only where nobody is asked, and only if nothing else asks.
            true => Some(rules.map(|rules| &*rules.unattended).filter(|list| !list.written().is_empty())?),
        };
        if unattended.is_some() && asked(Attendance::LeftOut) {
            return None;
        }
        let has_paths = !definition.path_arguments().is_empty();
        let allowed = match rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            Some(list) => texts(&list.globs),
            None => vec!["workspaces".to_owned()],
        };
        let (paths, within) = match unattended {
            _ if !has_paths => (Vec::new(), Vec::new()),
            Some(list) => (texts(list), allowed),
            None => (allowed, Vec::new()),
        };
        let (commands, except_commands) = commands_of(&standing);
        let (hosts, except_hosts) =
            if standing.goes_out() { self.hosts_of(&standing) } else { Default::default() };
        if commands.is_empty() && must_be_given(definition, Outward::Command)
            || hosts.is_empty() && must_be_given(definition, Outward::Url)
        {
            return None;
        }
        Some(Reach {
            tool: definition.name().to_string(),
            mode,
            writes: standing.changes_things(),
            paths,
            within,
            except: rules.filter(|_| has_paths).map_or_else(Vec::new, |rules| texts(&rules.forbidden_paths)),
            commands,
            except_commands,
            hosts,
            except_hosts,
            per_hour: standing.per_hour(),
            rules: notes.passed,
        })
    }

    /// The hosts that a tool may go to, and those among them that it may not.
    fn hosts_of(&self, standing: &Standing<'_>) -> (Vec<String>, Vec<String>) {
        let gateway = &self.safety.gateway;
        let everybody = &gateway.allowed.hosts;
        let own = standing.rules.and_then(|rules| rules.hosts.as_deref()).map_or(everybody, |own| &own.hosts);
        // Of each pair the narrower one: both lists must name a host.
        let pairs =
            own.iter().flat_map(|own| everybody.iter().map(move |of_all| (&own.pattern, &of_all.pattern)));
        let narrower = pairs.filter_map(|(one, other)| one.narrower(other));
        let is_open = |host: &&HostPattern| !gateway.blocked.iter().any(|by| by.pattern.blocks_all_of(host));
        let hosts: BTreeSet<String> = narrower.filter(is_open).map(ToString::to_string).collect();
        let local = match gateway.private {
            Private::Allowed if !hosts.is_empty() => Some("the local network".to_owned()),
            Private::Allowed | Private::Denied(_) => None,
        };
        let blocked = gateway.blocked.iter().map(|host| host.pattern.to_string());
        (hosts.into_iter().chain(local).collect(), blocked.collect())
    }
}

fn texts(globs: &PathGlobs) -> Vec<String> {
    globs.written().iter().map(|written| written.text.clone()).collect()
}

/// The programs that a tool may start, and those among them that it may not.
fn commands_of(standing: &Standing<'_>) -> (Vec<String>, Vec<String>) {
    let Some(rules) = standing.rules else { return Default::default() };
    let shown = |rules: &[CommandRule]| rules.iter().map(ToString::to_string).collect();
    let allowed = rules.commands.allowed.as_ref().map_or_else(Vec::new, |list| shown(&list.rules));
    let forbidden = if allowed.is_empty() { Vec::new() } else { shown(&rules.commands.forbidden) };
    (allowed, forbidden)
}

/// Whether no call of the tool is without such an argument: where nothing it may say is allowed, it never runs.
fn must_be_given(definition: &ToolDefinition, kind: Outward) -> bool {
    let required = definition.input_schema().get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|list| list.iter().any(|one| one == key));
    definition.outward_arguments().iter().any(|one| one.kind == kind && is_required(&one.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::{definition, machine};

    #[test]
    fn who_starts_programs_changes_things() {
        let policy = machine("tools: {run: {category: self_check, allowed_commands: [ls]}}\n").policy();
        for (tool, changes) in [("run", true), ("write_file", true), ("read_file", false), ("search", false)]
        {
            let found = policy.reach(&[definition(tool)], Mode::Normal);
            assert_eq!(found.iter().map(|one| one.writes).collect::<Vec<_>>(), [changes], "{tool}");
        }
    }

    /// What is said of one tool, in one line.
    fn told(tools: &str, safety: &str, tool: &str) -> Option<String> {
        let policy = machine(tools).safety(safety).policy();
        let found = policy.reach(&[definition(tool)], Mode::Normal).pop()?;
        let Reach { paths, within, except, commands, except_commands, hosts, except_hosts, .. } = found;
        let lists = [paths, within, except, commands, except_commands, hosts, except_hosts];
        Some(lists.map(|list| list.join(",")).join("|"))
    }

    #[test]
    fn a_place_where_nobody_is_asked_is_bound_like_any_other() {
        let check = |entry: &str, expect: Option<&str>| {
            let found = told(&format!("tools: {{write_file: {{{entry}}}}}\n"), "", "write_file");
            assert_eq!(found.as_deref(), expect, "{entry}");
        };
        check("forbidden_paths: [/w/x]", Some("workspaces||/w/x||||"));
        check("allowed_paths: [/w/**]", Some("/w/**||||||"));
        check("requires_approval: true", None);
        check("requires_approval: true, unattended_paths: [/w/a]", Some("/w/a|workspaces|||||"));
        check(
            "requires_approval: true, unattended_paths: [/w/a], allowed_paths: [/v/**]",
            Some("/w/a|/v/**|||||"),
        );
    }

    #[test]
    fn what_is_forbidden_of_what_is_allowed_is_told_too() {
        let check = |entry: &str, expect: Option<&str>| {
            let found = told(&format!("tools: {{run: {{{entry}}}}}\n"), "", "run");
            assert_eq!(found.as_deref(), expect, "{entry}");
        };
        check(
            "allowed_commands: [git], forbidden_commands: [{argv: [git, push]}]",
            Some("|||git|git push||"),
        );
        check("forbidden_commands: [sudo]", Some("||||||"));
    }

    #[test]
    fn a_host_is_reached_where_both_lists_name_it() {
        let check = |own: &str, gateway: &str, expect: Option<&str>| {
            let tools = format!("tools: {{fetch: {{allowed_domains: {own}}}}}\n");
            let safety = format!("outbound_gateway: {{{gateway}}}\n");
            assert_eq!(told(&tools, &safety, "fetch").as_deref(), expect, "{own} {gateway}");
        };
        check("[\"*\"]", "allowed_domains: [example.org]", Some("|||||example.org|"));
        check("[a.example.org]", "allowed_domains: [\"*.example.org\"]", Some("|||||a.example.org|"));
        check("[b.net]", "allowed_domains: [\"*\"], blocked_domains: [b.net]", Some("||||||b.net"));
        check("[b.net]", "allowed_domains: [c.net], allow_private_addresses: true", Some("||||||"));
    }
}
