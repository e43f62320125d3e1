//! Rules for the hosts a tool may reach: the host of a URL, checked against the lists of the tool and the
//! gateway.
//!
//! A URL is parsed once, by the parser that the HTTP client uses, and its host is compared label by label. An
//! allowed name is matched narrowly: `*.example.org` means the names below `example.org`. A blocked name is
//! matched widely: the name itself and everything below it. No name is resolved here.

mod network_target;

use std::net::IpAddr;
use std::sync::Arc;

use strict_yaml::Located;
use tool::{RefusalCode, RuleRef};
use url::Host;

use crate::address;
use crate::built_in_denials;
use crate::denial_reason::{DenialReason, allowlist_hint, display_text, rule_location};
use crate::problems::FileInspection;
use crate::rule_trace::{RuleTrace, TraceRecorder};
use crate::safety_file::OutboundGateway;

use network_target::MALFORMED;
pub(crate) use network_target::NetworkTarget;

const GATEWAY: &str = "outbound_gateway";
/// Entry in a list of hosts: `example.org`, `*.example.org` or `*`.
#[derive(Clone, Debug)]
pub struct HostRule {
    /// Hosts that it matches.
    pub pattern: HostPattern,
    /// Location in the policy file.
    pub rule: RuleRef,
}

/// Pattern for host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host.
    Any,
    /// This host.
    Exact(String),
    /// Hosts below this name.
    Subdomains(String),
}

/// List of hosts and the line in the policy file that it is on.
#[derive(Clone, Debug)]
pub struct HostList {
    /// Entries, in file order.
    pub hosts: Vec<HostRule>,
    /// Location in the policy file.
    pub rule: RuleRef,
}

/// Rules of the outbound gateway, which apply to every tool.
#[derive(Clone, Debug)]
pub struct GatewayRules {
    /// Hosts that tools may reach.
    pub allowed: HostList,
    /// Hosts that no tool may reach.
    pub blocked: Vec<HostRule>,
    /// Rule for private addresses.
    pub private_addresses: PrivateAddressRule,
    /// Rule that requires approval for outbound calls.
    pub approval_rule: Option<RuleRef>,
    /// Largest response.
    pub max_response_bytes: Option<u64>,
}

/// Rule for addresses of this machine and of private networks.
#[derive(Clone, Debug)]
pub enum PrivateAddressRule {
    /// They may be reached.
    Allowed,
    /// They are denied by this rule.
    Denied(RuleRef),
}

/// Location of a service, judged by the host name in the settings or in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostLocation {
    /// This machine or a private network.
    Local,
    /// The public Internet.
    Public,
}

impl HostRule {
    /// Parses a list of hosts and reports an error for each invalid one.
    pub(crate) fn compile(
        list: &[Located<String>],
        id: &str,
        inspection: &mut FileInspection<'_>,
    ) -> Vec<Self> {
        let mut rules = Vec::new();
        for text in list {
            match HostPattern::parse(text) {
                Some(pattern) => rules.push(HostRule { pattern, rule: inspection.rule_ref(text, id) }),
                None => {
                    let suggestion = "write a name such as example.org, *.example.org for all below it, or *; \
                                      non-ASCII names in their xn-- form";
                    let message = format!("`{}` is not a host name", text.value);
                    inspection.error(text, &message, Some(suggestion.to_owned()));
                }
            }
        }
        rules
    }
}

impl HostPattern {
    /// Parses `example.org`, `*.example.org` or `*`.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(HostPattern::Any);
        }
        let name = text.strip_prefix("*.").unwrap_or(text);
        let label = |label: &str| {
            let inner = |c: char| c.is_ascii_alphanumeric() || c == '-';
            !label.is_empty()
                && label.len() <= 63
                && label.chars().all(inner)
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > 253 || !name.split('.').all(label) {
            return None;
        }
        let name = name.to_ascii_lowercase();
        Some(if text.starts_with("*.") { HostPattern::Subdomains(name) } else { HostPattern::Exact(name) })
    }

    /// Returns true if the pattern allows the host.
    pub fn allows(&self, host: &str) -> bool {
        match self {
            HostPattern::Any => true,
            HostPattern::Exact(name) => host == name,
            HostPattern::Subdomains(name) => is_subdomain(host, name),
        }
    }

    /// Returns true if this pattern blocks every host that the other pattern allows.
    pub fn blocks_all_of(&self, other: &HostPattern) -> bool {
        match other {
            HostPattern::Any => *self == HostPattern::Any,
            HostPattern::Exact(name) | HostPattern::Subdomains(name) => self.blocks(name),
        }
    }

    /// Returns true if both patterns may allow the same host.
    pub fn overlaps(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
            (HostPattern::Exact(name), other) => other.allows(name),
            (HostPattern::Subdomains(_), HostPattern::Exact(name)) => self.allows(name),
            (HostPattern::Subdomains(a), HostPattern::Subdomains(b)) => {
                a == b || is_subdomain(a, b) || is_subdomain(b, a)
            }
        }
    }

    /// Returns the narrower of two patterns if one contains the other.
    pub fn narrower<'p>(&'p self, other: &'p HostPattern) -> Option<&'p HostPattern> {
        match (self, other) {
            _ if !self.overlaps(other) => None,
            (HostPattern::Any, _) | (_, HostPattern::Exact(_)) => Some(other),
            (_, HostPattern::Any) | (HostPattern::Exact(_), _) => Some(self),
            (HostPattern::Subdomains(a), HostPattern::Subdomains(b)) => {
                Some(if is_subdomain(b, a) { other } else { self })
            }
        }
    }

    pub(crate) fn blocks(&self, host: &str) -> bool {
        match self {
            HostPattern::Any => true,
            HostPattern::Exact(name) | HostPattern::Subdomains(name) => {
                host == name || is_subdomain(host, name)
            }
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Any => f.write_str("*"),
            HostPattern::Exact(name) => f.write_str(name),
            HostPattern::Subdomains(name) => write!(f, "*.{name}"),
        }
    }
}

fn is_subdomain(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

impl GatewayRules {
    pub(crate) fn compile(file: &OutboundGateway, inspection: &mut FileInspection<'_>) -> Self {
        let id = |key: &str| format!("{GATEWAY}.{key}");
        let nowhere = Located::without_position(());
        let place = |at: Option<&Located<bool>>, key: &str| match at {
            Some(at) => inspection.rule_ref(at, id(key)),
            None => inspection.rule_ref(&nowhere, id(key)),
        };
        let private_addresses = match &file.allow_private_addresses {
            Some(flag) if flag.value => PrivateAddressRule::Allowed,
            flag => PrivateAddressRule::Denied(place(flag.as_ref(), "allow_private_addresses")),
        };
        let approval_rule = file.require_approval_for_new_domains.as_ref().filter(|flag| flag.value);
        let approval_rule =
            approval_rule.map(|flag| inspection.rule_ref(flag, id("require_approval_for_new_domains")));
        let rule = match file.allowed_domains.first() {
            Some(first) => inspection.rule_ref(first, id("allowed_domains")),
            None => inspection.rule_ref(&nowhere, id("allowed_domains")),
        };
        let hosts = HostRule::compile(&file.allowed_domains, &id("allowed_domains"), inspection);
        let blocked = HostRule::compile(&file.blocked_domains, &id("blocked_domains"), inspection);
        let max_response_bytes = file.max_response_kb.map(|kibibytes| kibibytes.saturating_mul(1024));
        GatewayRules {
            allowed: HostList { hosts, rule },
            blocked,
            private_addresses,
            approval_rule,
            max_response_bytes,
        }
    }
}

/// Outbound rules of one tool: its own list, if it has one, and the rules of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct OutboundRules {
    pub(crate) tool_hosts: Option<Arc<HostList>>,
    pub(crate) gateway: Arc<GatewayRules>,
}

impl OutboundRules {
    /// Checks that the call may reach a target.
    pub(crate) fn check(
        &self,
        target: &NetworkTarget,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        notes.set_value(|| target.to_string());
        let host = self.check_not_blocked(target, notes)?;
        self.check_not_private(host, target)?;
        self.check_listed(host, target, notes)
    }

    /// Checks that the call may reach a service from the settings, and returns its location by its name.
    ///
    /// The lists of hosts apply. A private address is accepted, because the operator configured it.
    pub(crate) fn check_service(&self, target: &NetworkTarget) -> Result<HostLocation, DenialReason> {
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        let host = self.check_not_blocked(target, &mut notes)?;
        self.check_listed(host, target, &mut notes)?;
        Ok(if is_local_host(host) { HostLocation::Local } else { HostLocation::Public })
    }

    /// Checks that the call may reach a server from its manifest, and returns its location.
    ///
    /// A manifest is not policy: a host on this machine or a private network is accepted only if the tool's
    /// own list names exactly that host.
    pub(crate) fn check_manifest_server(&self, target: &NetworkTarget) -> Result<HostLocation, DenialReason> {
        let mut trace = RuleTrace::disabled();
        let mut notes = TraceRecorder::new(&mut trace);
        let host = self.check_not_blocked(target, &mut notes)?;
        let is_granted = is_local_host(host) && self.lists_host(host);
        if !is_granted {
            self.check_not_private(host, target)?;
        }
        self.check_listed(host, target, &mut notes)?;
        Ok(if is_granted { HostLocation::Local } else { HostLocation::Public })
    }

    fn lists_host(&self, host: &Host<String>) -> bool {
        let name = HostPattern::Exact(host.to_string());
        self.tool_hosts.as_deref().is_some_and(|list| list.hosts.iter().any(|rule| rule.pattern == name))
    }

    fn check_not_blocked<'a>(
        &self,
        target: &'a NetworkTarget,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<&'a Host<String>, DenialReason> {
        let host = match target {
            NetworkTarget::Host(host) => host,
            NetworkTarget::Unusable { detail: detail @ MALFORMED, hint, .. } => {
                let reason = format!("`{}` is not a URL", display_text(&target.to_string()));
                return Err(DenialReason::invalid_argument(detail, &reason, hint));
            }
            NetworkTarget::Unusable { detail, hint, .. } => {
                return Err(self.denial(target, detail, (*hint).to_owned(), &self.gateway.allowed.rule));
            }
        };
        self.check_not_always_blocked(host, target)?;
        let name = host.to_string();
        let blocked = &self.gateway.blocked;
        let found = blocked.iter().position(|rule| rule.pattern.blocks(&name));
        let before = blocked.iter().take(found.unwrap_or(blocked.len()));
        notes.record_skipped(before.map(|rule| (&rule.rule, rule.pattern.to_string())));
        if let Some(rule) = found.and_then(|at| blocked.get(at)) {
            notes.set_yaml(|| rule.pattern.to_string());
            let hint = format!("{} blocks it, even if another rule allows it", rule_location(&rule.rule));
            return Err(self.denial(target, "blocked_domain", hint, &rule.rule));
        }
        Ok(host)
    }

    fn check_listed(
        &self,
        host: &Host<String>,
        target: &NetworkTarget,
        notes: &mut TraceRecorder<'_>,
    ) -> Result<(), DenialReason> {
        let name = host.to_string();
        for list in self.tool_hosts.as_deref().into_iter().chain([&self.gateway.allowed]) {
            let found = list.hosts.iter().position(|rule| rule.pattern.allows(&name));
            let before = list.hosts.iter().take(found.unwrap_or(list.hosts.len()));
            notes.record_skipped(before.map(|rule| (&rule.rule, rule.pattern.to_string())));
            let Some(rule) = found.and_then(|at| list.hosts.get(at)) else {
                let permitted = list.hosts.iter().map(|rule| rule.pattern.to_string());
                let hint = allowlist_hint(&list.rule, "hosts", permitted);
                return Err(self.denial(target, "not_listed", hint, &list.rule));
            };
            notes.record_passed(rule.rule.clone(), || rule.pattern.to_string(), || name.clone());
        }
        Ok(())
    }

    /// Denies the addresses that are blocked regardless of policy and settings.
    fn check_not_always_blocked(
        &self,
        host: &Host<String>,
        target: &NetworkTarget,
    ) -> Result<(), DenialReason> {
        let is_closed = match host {
            Host::Domain(_) => false,
            Host::Ipv4(address) => address::is_always_blocked(IpAddr::V4(*address)),
            Host::Ipv6(address) => address::is_always_blocked(IpAddr::V6(*address)),
        };
        if !is_closed {
            return Ok(());
        }
        let hint = "it is link-local or a cloud metadata address, which no policy file can allow";
        Err(self.denial(
            target,
            "private_address",
            hint.to_owned(),
            &built_in_denials::rule_ref("link_local"),
        ))
    }

    fn check_not_private(&self, host: &Host<String>, target: &NetworkTarget) -> Result<(), DenialReason> {
        match &self.gateway.private_addresses {
            PrivateAddressRule::Denied(rule) if is_local_host(host) => {
                let hint = format!(
                    "it is on this machine or a private network, which {} blocks",
                    rule_location(rule)
                );
                Err(self.denial(target, "private_address", hint, rule))
            }
            PrivateAddressRule::Denied(_) | PrivateAddressRule::Allowed => Ok(()),
        }
    }

    /// Checks that the call may connect to a resolved address of a host with this location.
    pub(crate) fn check_address(&self, address: IpAddr, location: HostLocation) -> Result<(), DenialReason> {
        let host = match address {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        };
        let target = NetworkTarget::Host(host.clone());
        self.check_not_always_blocked(&host, &target)?;
        match location {
            HostLocation::Local => Ok(()),
            HostLocation::Public => self.check_not_private(&host, &target),
        }
    }

    fn denial(&self, target: &NetworkTarget, detail: &str, hint: String, rule: &RuleRef) -> DenialReason {
        let reason = format!("Host {} is not allowed", display_text(&target.to_string()));
        DenialReason::new(RefusalCode::DomainNotAllowed, detail, &reason, hint, rule)
    }
}

/// Returns true if a host, by its name or address, is this machine or on a private network.
fn is_local_host(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => address::is_local_name(name),
        Host::Ipv4(address) => address::is_private(IpAddr::V4(*address)),
        Host::Ipv6(address) => address::is_private(IpAddr::V6(*address)),
    }
}

#[cfg(test)]
mod tests;
