//! Model of the rules for commands and hosts, after decision 36 and the gateway rules, limited to the
//! generated words.

use super::plan::{CallPlan, HostZone, PolicyPlan, ToolPlan};

pub(super) fn refuses_commands(call: &CallPlan, stated: &ToolPlan, entry: &ToolPlan) -> bool {
    let line: Option<Vec<&str>> = call.line.map(|line| line.split_whitespace().collect());
    let for_a_shell = call.line.is_some_and(|line| line.contains([';', '*', '$']));
    let mut commands = call.words.map(<[&str]>::to_vec).into_iter().chain(line);
    for_a_shell || commands.any(|words| refuses_command(&words, stated, entry))
}

fn refuses_command(words: &[&str], stated: &ToolPlan, entry: &ToolPlan) -> bool {
    if words.is_empty() {
        return true;
    }
    let allowed = |rule: &&[&str]| **rule == ["*"] || words.starts_with(rule);
    let is_allowed = entry.allowed_commands.as_ref().is_some_and(|rules| rules.iter().any(allowed));
    !stated.shadow && (!is_allowed || entry.forbidden_commands.iter().any(|rule| is_forbidden(words, rule)))
}

/// Returns true if the command starts the program of the rule, in any folder, with the words of the rule.
fn is_forbidden(words: &[&str], rule: &[&str]) -> bool {
    words[0].rsplit('/').next() == Some(rule[0]) && words[1..].starts_with(&rule[1..])
}

pub(super) fn refuses_host(plan: &PolicyPlan, call: &CallPlan, entry: &ToolPlan) -> Option<&'static str> {
    let (host, place) = match call.url?.1 {
        Ok(target) => target,
        Err(code) => return Some(code),
    };
    let below = |name: &str| host.ends_with(&format!(".{name}"));
    let allows = |rule: &&str| match rule.strip_prefix("*.") {
        Some(name) => below(name),
        None => *rule == "*" || *rule == host,
    };
    let blocks = |rule: &&str| {
        let name = rule.trim_start_matches("*.");
        *rule == "*" || name == host || below(name)
    };
    let refused = plan.blocked_domains.iter().any(blocks)
        || (place == HostZone::Private && !plan.allows_private)
        || place == HostZone::AlwaysBlocked
        || !entry.domains.as_ref().is_none_or(|rules| rules.iter().any(allows))
        || !plan.allowed_domains.iter().any(allows);
    refused.then_some("domain_not_allowed")
}
