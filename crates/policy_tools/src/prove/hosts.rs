//! Finite set of hosts that represents all hosts for some host rules.

use std::collections::BTreeSet;

use governance::rules::{EffectivePolicy, HostPattern};

/// Names and addresses that the judge treats as local, and a public address.
const SPECIAL_HOSTS: [&str; 10] = [
    "localhost",
    "local",
    "internal",
    "home.arpa",
    "lan",
    "intranet",
    "127.0.0.1",
    "10.0.0.1",
    "169.254.169.254",
    "192.175.48.1",
];

/// Hosts of the question, as far as the rules can tell them apart.
pub(super) fn representatives(tools: &[&EffectivePolicy<'_>], question: &HostPattern) -> Vec<String> {
    let mut names: BTreeSet<String> = SPECIAL_HOSTS.into_iter().map(str::to_owned).collect();
    names.extend(name_of(question));
    for tool in tools {
        add_names(tool, &mut names);
    }
    let fresh = (1..).map(|length| "x".repeat(length));
    let is_label = |label: &str| names.iter().any(|name| name.split('.').any(|part| part == label));
    let fresh = fresh.into_iter().find(|label| !is_label(label)).unwrap_or_default();
    let unknown = [fresh.clone(), format!("{fresh}.org")];
    let below = names.iter().map(|name| format!("{fresh}.{name}"));
    let all: BTreeSet<String> = names.iter().cloned().chain(below).chain(unknown).collect();
    let mut all: Vec<String> = all.into_iter().filter(|host| question.allows(host)).collect();
    // A name says more to a person than an address.
    all.sort_by_key(|host| host.parse::<std::net::IpAddr>().is_ok());
    all
}

fn add_names(tool: &EffectivePolicy<'_>, names: &mut BTreeSet<String>) {
    let gateway = &tool.policy.safety_rules().gateway;
    let listed = gateway.allowed.hosts.iter().chain(&gateway.blocked);
    names.extend(listed.filter_map(|rule| name_of(&rule.pattern)));
    let projects = tool.policy.project_policies().filter_map(|(root, _)| tool.in_project(root));
    let own = projects.filter_map(|project| project.rules).chain(tool.rules);
    let own = own.filter_map(|rules| rules.hosts.as_ref()).flat_map(|list| &list.hosts);
    names.extend(own.filter_map(|rule| name_of(&rule.pattern)));
    if let Some(stricter) = tool.stricter() {
        add_names(&stricter, names);
    }
}

fn name_of(pattern: &HostPattern) -> Option<String> {
    match pattern {
        HostPattern::Any => None,
        HostPattern::Exact(name) | HostPattern::Subdomains(name) => Some(name.clone()),
    }
}
