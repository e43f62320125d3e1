//! Finds tools that bypass the `allowed_domains` of `fetch_url`: they may reach other hosts.

use std::collections::BTreeSet;
use std::path::Path;

use governance::files::NetworkAccess;
use governance::rules::{EffectivePolicy, HostList, HostPattern};

use super::{LintFindings, runs_in_some_mode};

/// Tool whose list of hosts is meant for the network as a whole.
const FETCH_TOOL: &str = "fetch_url";

/// Reports the list of `fetch_url` in the policy of the home and of each project, if another tool without a list of its own
/// uses the network.
pub(super) fn check(findings: &mut LintFindings<'_>, tools: &[EffectivePolicy<'_>]) {
    let Some(fetch) = tools.iter().find(|tool| tool.definition.name().as_str() == FETCH_TOOL) else { return };
    let others: Vec<&EffectivePolicy<'_>> =
        tools.iter().filter(|tool| is_other_reacher(tool) && allowed_hosts(tool).is_none()).collect();
    if let Some(list) = allowed_hosts(fetch) {
        report(findings, list, &others);
    }
    let roots: Vec<&Path> = findings.policy.project_policies().map(|(root, _)| root).collect();
    for root in roots {
        let Some(list) = fetch.in_project(root).and_then(|tool| allowed_hosts(&tool)) else { continue };
        let is_open = |tool: &&&EffectivePolicy<'_>| {
            let own = tool.in_project(root);
            own.is_some_and(|own| allowed_hosts(&own).is_none())
        };
        let open: Vec<&EffectivePolicy<'_>> = others.iter().filter(is_open).copied().collect();
        report(findings, list, &open);
    }
}

fn report(findings: &mut LintFindings<'_>, list: &HostList, open: &[&EffectivePolicy<'_>]) {
    let is_any = list.hosts.iter().any(|host| host.pattern == HostPattern::Any);
    let names: BTreeSet<&str> = open.iter().map(|tool| tool.definition.name().as_str()).collect();
    if is_any || names.is_empty() {
        return;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let placed: Vec<String> = names.iter().map(|name| findings.with_line(name)).collect();
    let message = format!("may be bypassed: {} may reach other hosts", placed.join(", "));
    let fix = format!("give {} `allowed_domains` too; `[]` permits none", names.join(", "));
    findings.add(&list.rule, &message, &fix);
}

/// Returns true for another tool that uses the network, itself or by its programs.
fn is_other_reacher(tool: &EffectivePolicy<'_>) -> bool {
    let is_networked = tool.definition.requires_sandbox()
        && tool.rules.is_some_and(|rules| rules.confinement.network == NetworkAccess::Full);
    tool.definition.name().as_str() != FETCH_TOOL
        && (tool.is_outbound() || is_networked)
        && runs_in_some_mode(tool)
}

fn allowed_hosts<'a>(tool: &EffectivePolicy<'a>) -> Option<&'a HostList> {
    let rules = tool.rules?;
    rules.shadow.as_deref().unwrap_or(rules).hosts.as_deref()
}

#[cfg(test)]
mod tests {
    use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

    use crate::judge_tests::machine;
    use crate::lint_host_lists;

    fn network_tool(name: &str) -> ToolDefinition {
        ToolSpec::new(name, "a test tool", Category::NETWORK, RiskLevel::Low).check().unwrap()
    }

    #[test]
    fn list_of_hosts_that_another_tool_bypasses_is_reported() {
        let check = |tools: &str, expect: &[(u64, &str)]| {
            let policy = machine(tools).policy();
            let definitions = ["fetch_url", "web_search", "other"].map(network_tool);
            let found = lint_host_lists(&policy, &definitions);
            let found: Vec<(u64, &str)> = found
                .iter()
                .filter_map(|one| Some((one.line, one.message.split_once("bypassed: ")?.1)))
                .collect();
            assert_eq!(found, expect, "{tools}");
        };
        let fetch = "tools:\n  fetch_url: {allowed_domains: [a.org]}\n";
        let closed = "  other: {allowed_domains: [b.org]}\n";
        check(fetch, &[(2, "other, web_search may reach other hosts")]);
        check(&format!("{fetch}{closed}"), &[(2, "web_search may reach other hosts")]);
        check(&format!("{fetch}{closed}  web_search: {{allowed_domains: []}}\n"), &[]);
        let nowhere = "{forbidden_in_modes: [NORMAL, ALERT, DEGRADED, LOCKDOWN, RECOVERY]}";
        check(&format!("{fetch}{closed}  web_search: {nowhere}\n"), &[]);
        check("tools:\n  fetch_url: {}\n", &[]);
        check("tools:\n  fetch_url: {allowed_domains: [\"*\"]}\n", &[]);
    }
}
