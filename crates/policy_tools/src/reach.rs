//! Computes what each tool can do in each mode without approval.

use std::collections::BTreeSet;

use governance::Policy;
use governance::rules::{
    Access, CommandRule, EffectivePolicy, HostPattern, PathGlobs, PrivateAddressRule, ToolApprovals,
};
use serde::Serialize;
use serde_json::Value;
use tool::definition::ExternalTargetKind;
use tool::{Mode, RuleRef, ToolDefinition};

/// Access of a tool in a mode without approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolReach {
    /// Tool name.
    pub tool: String,
    /// Operational mode.
    pub mode: Mode,
    /// True if the tool may change what it reaches.
    pub writes: bool,
    /// Accessible paths: patterns as written, or `workspaces`. Empty for a tool without paths.
    pub paths: Vec<String>,
    /// Patterns that restrict `paths` further, where approval is waived only on some paths. Empty otherwise.
    pub within: Vec<String>,
    /// Forbidden paths, which override the lists above, besides the built-in denials.
    pub except: Vec<String>,
    /// Commands that it may start. Empty for a tool that starts none.
    pub commands: Vec<String>,
    /// Commands that it may never start, which override `commands`.
    pub except_commands: Vec<String>,
    /// Hosts that both its own list and the gateway allow. Empty for a tool that makes no outbound calls.
    pub hosts: Vec<String>,
    /// Blocked hosts, which override `hosts`.
    pub except_hosts: Vec<String>,
    /// Maximum number of calls per hour.
    pub per_hour: Option<u32>,
    /// Rules that allow it.
    pub rules: Vec<RuleRef>,
}

/// Returns the access of every tool that can run in a mode without approval.
pub fn reach<'a>(
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
    mode: Mode,
) -> Vec<ToolReach> {
    definitions.into_iter().filter_map(|definition| reach_of(policy, definition, mode)).collect()
}

fn reach_of(policy: &Policy, definition: &ToolDefinition, mode: Mode) -> Option<ToolReach> {
    let effective_policy = EffectivePolicy::new(policy, definition);
    let admitted_by = effective_policy.admitting_rules(mode)?;
    let rules = effective_policy.rules;
    let asks = |attendance| effective_policy.access(mode, attendance).0 == Access::Asks;
    let unattended = match asks(ToolApprovals::Required) {
        false => None,
        // The tool runs without approval only on its unattended paths, and only if no rule outside
        // `tools.yaml` requires approval there.
        true => Some(rules.map(|rules| &*rules.unattended_paths).filter(|list| !list.patterns().is_empty())?),
    };
    if unattended.is_some() && asks(ToolApprovals::Waived) {
        return None;
    }
    let has_paths = !definition.path_arguments().is_empty();
    let allowed = match rules.and_then(|rules| rules.allowed_paths.as_ref()) {
        Some(list) => pattern_texts(&list.globs),
        None => vec!["workspaces".to_owned()],
    };
    let (paths, within) = match unattended {
        _ if !has_paths => (Vec::new(), Vec::new()),
        Some(list) => (pattern_texts(list), allowed),
        None => (allowed, Vec::new()),
    };
    let (commands, except_commands) = allowed_commands(&effective_policy);
    let (hosts, except_hosts) =
        if effective_policy.is_outbound() { hosts_of(policy, &effective_policy) } else { Default::default() };
    if commands.is_empty() && requires_argument(definition, ExternalTargetKind::Command)
        || hosts.is_empty() && requires_argument(definition, ExternalTargetKind::Url)
    {
        return None;
    }
    Some(ToolReach {
        tool: definition.name().to_string(),
        mode,
        writes: effective_policy.may_change_files(),
        paths,
        within,
        except: if has_paths { pattern_texts(effective_policy.forbidden_paths()) } else { Vec::new() },
        commands,
        except_commands,
        hosts,
        except_hosts,
        per_hour: effective_policy.calls_per_hour(),
        rules: admitted_by,
    })
}

/// Returns the hosts that a tool may reach, and the blocked hosts.
fn hosts_of(policy: &Policy, effective_policy: &EffectivePolicy<'_>) -> (Vec<String>, Vec<String>) {
    let gateway = &policy.safety_rules().gateway;
    let gateway_hosts = &gateway.allowed.hosts;
    let own = effective_policy
        .rules
        .and_then(|rules| rules.hosts.as_deref())
        .map_or(gateway_hosts, |own| &own.hosts);
    // Both lists must allow a host, so each pair contributes its narrower pattern.
    let pairs =
        own.iter().flat_map(|own| gateway_hosts.iter().map(move |of_all| (&own.pattern, &of_all.pattern)));
    let narrower = pairs.filter_map(|(one, other)| one.narrower(other));
    let is_open = |host: &&HostPattern| !gateway.blocked.iter().any(|by| by.pattern.blocks_all_of(host));
    let hosts: BTreeSet<String> = narrower.filter(is_open).map(ToString::to_string).collect();
    let local = match gateway.private_addresses {
        PrivateAddressRule::Allowed if !hosts.is_empty() => Some("the local network".to_owned()),
        PrivateAddressRule::Allowed | PrivateAddressRule::Denied(_) => None,
    };
    let blocked = gateway.blocked.iter().map(|host| host.pattern.to_string());
    (hosts.into_iter().chain(local).collect(), blocked.collect())
}

fn pattern_texts(globs: &PathGlobs) -> Vec<String> {
    globs.patterns().iter().map(|written| written.text.clone()).collect()
}

/// Returns the commands that a tool may start, and those that it may not.
fn allowed_commands(effective_policy: &EffectivePolicy<'_>) -> (Vec<String>, Vec<String>) {
    let Some(rules) = effective_policy.rules else { return Default::default() };
    let shown = |rules: &[CommandRule]| rules.iter().map(ToString::to_string).collect();
    let allowed = rules.commands.allowed.as_ref().map_or_else(Vec::new, |list| shown(&list.rules));
    let forbidden = if allowed.is_empty() { Vec::new() } else { shown(&rules.commands.forbidden) };
    (allowed, forbidden)
}

/// Returns true if every call of the tool needs an argument of this kind. Such a tool never runs if no value
/// is allowed.
fn requires_argument(definition: &ToolDefinition, kind: ExternalTargetKind) -> bool {
    let required = definition.input_schema().get("required").and_then(Value::as_array);
    let is_required = |key: &str| required.is_some_and(|list| list.iter().any(|one| one == key));
    definition.external_target_arguments().iter().any(|one| one.kind == kind && is_required(&one.key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::{definition, machine};

    #[test]
    fn tools_that_start_programs_count_as_writing() {
        let policy = machine("tools: {run: {category: self_check, allowed_commands: [ls]}}\n").policy();
        for (tool, changes) in [("run", true), ("write_file", true), ("read_file", false), ("search", false)]
        {
            let found = reach(&policy, &[definition(tool)], Mode::Normal);
            assert_eq!(found.iter().map(|one| one.writes).collect::<Vec<_>>(), [changes], "{tool}");
        }
    }

    /// Returns the lists of one tool as one line.
    fn reach_line(tools: &str, safety: &str, tool: &str) -> Option<String> {
        let policy = machine(tools).safety(safety).policy();
        let found = reach(&policy, &[definition(tool)], Mode::Normal).pop()?;
        let ToolReach { paths, within, except, commands, except_commands, hosts, except_hosts, .. } = found;
        let lists = [paths, within, except, commands, except_commands, hosts, except_hosts];
        Some(lists.map(|list| list.join(",")).join("|"))
    }

    #[test]
    fn unattended_paths_stay_within_allowed_paths() {
        let check = |entry: &str, expect: Option<&str>| {
            let found = reach_line(&format!("tools: {{write_file: {{{entry}}}}}\n"), "", "write_file");
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
    fn forbidden_commands_are_listed() {
        let check = |entry: &str, expect: Option<&str>| {
            let found = reach_line(&format!("tools: {{run: {{{entry}}}}}\n"), "", "run");
            assert_eq!(found.as_deref(), expect, "{entry}");
        };
        check(
            "allowed_commands: [git], forbidden_commands: [{argv: [git, push]}]",
            Some("|||git|git push||"),
        );
        check("forbidden_commands: [sudo]", Some("||||||"));
    }

    #[test]
    fn hosts_are_the_intersection_of_both_lists() {
        let check = |own: &str, gateway: &str, expect: Option<&str>| {
            let tools = format!("tools: {{fetch: {{allowed_domains: {own}}}}}\n");
            let safety = format!("outbound_gateway: {{{gateway}}}\n");
            assert_eq!(reach_line(&tools, &safety, "fetch").as_deref(), expect, "{own} {gateway}");
        };
        check("[\"*\"]", "allowed_domains: [example.org]", Some("|||||example.org|"));
        check("[a.example.org]", "allowed_domains: [\"*.example.org\"]", Some("|||||a.example.org|"));
        check("[b.net]", "allowed_domains: [\"*\"], blocked_domains: [b.net]", Some("||||||b.net"));
        check("[b.net]", "allowed_domains: [c.net], allow_private_addresses: true", Some("||||||"));
    }
}
