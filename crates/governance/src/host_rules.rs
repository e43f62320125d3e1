//! Rules for the hosts a tool may reach: the host of a URL, checked against the lists of the tool and the
//! gateway.
//!
//! A URL is parsed once, by the parser that the HTTP client uses, and its host is compared label by label. An
//! allowed name is matched narrowly: `*.example.org` means the names below `example.org`. A blocked name is
//! matched widely: the name itself and everything below it. No name is resolved here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use strict_yaml::Located;
use tool::{RefusalCode, RuleRef};
use url::{Host, Url};

use crate::address;
use crate::floor;
use crate::grounds::{Grounds, place, shown};
use crate::problems::Inspection;
use crate::safety_file::OutboundGateway;
use crate::trail::{Notes, Trail};

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
    Exactly(String),
    /// Hosts below this name.
    Below(String),
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
pub struct Gateway {
    /// Hosts that tools may reach.
    pub allowed: HostList,
    /// Hosts that no tool may reach.
    pub blocked: Vec<HostRule>,
    /// Rule for private addresses.
    pub private: Private,
    /// Rule that requires approval for outbound calls.
    pub asks: Option<RuleRef>,
    /// Largest response.
    pub max_response_bytes: Option<u64>,
}

/// Rule for addresses of this machine and of private networks.
#[derive(Clone, Debug)]
pub enum Private {
    /// They may be reached.
    Allowed,
    /// They are denied by this rule.
    Denied(RuleRef),
}

/// Location of a service, judged by the host name in the settings or in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// This machine or a private network.
    Near,
    /// The public Internet.
    Public,
}

/// Network target that a call names: a host, or a text that is not a usable URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Host(Host<String>),
    Unusable { text: String, detail: &'static str, hint: &'static str },
}

impl Target {
    /// Parses a URL.
    pub(crate) fn of_url(text: &str) -> Self {
        let unusable = |detail, hint| Target::Unusable { text: without_secrets(text), detail, hint };
        // The parser drops these characters silently, and the HTTP client might not.
        if text.chars().any(|c| c.is_control() || c == '\\' || c.is_whitespace()) {
            return unusable("bad_url", "a URL must not contain spaces, backslashes or control characters");
        }
        let Ok(url) = Url::parse(text) else {
            return unusable("bad_url", "write a full URL, such as https://example.org/page");
        };
        if !matches!(url.scheme(), "http" | "https") {
            return unusable("scheme", "only http and https are supported");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return unusable("userinfo", "remove the user name and password from the URL");
        }
        match url.host() {
            Some(host) => Target::Host(plain(host.to_owned())),
            None => unusable("bad_url", "the URL has no host"),
        }
    }

    /// Parses a host without a URL, as the ledger records it.
    pub(crate) fn of_host(text: &str) -> Self {
        match Host::parse(text) {
            Ok(host) => Target::Host(plain(host)),
            Err(_) => Target::Unusable { text: text.to_owned(), detail: "bad_url", hint: "it is not a host" },
        }
    }

    /// Returns the target for a URL that is known only to be unusable.
    pub(crate) fn unusable() -> Self {
        let hint = "write a full URL, such as https://example.org/page";
        Target::Unusable { text: String::new(), detail: "bad_url", hint }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Host(host) => host.fmt(f),
            Target::Unusable { text, .. } => f.write_str(text),
        }
    }
}

/// Removes user, password and query from a URL, because they often are credentials, so that it can be quoted.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.rsplit_once('@'), text.split_once("://")) {
        (Some((_, rest)), Some((scheme, _))) => format!("{scheme}://…@{rest}"),
        (Some((_, rest)), None) => format!("…@{rest}"),
        (None, _) => text.to_owned(),
    }
}

/// Normalises a host: a name without its final dot, and an IPv4 address embedded in IPv6 as IPv4.
fn plain(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        Host::Ipv6(address) => unwrapped(address).map_or(Host::Ipv6(address), Host::Ipv4),
        Host::Ipv4(address) => Host::Ipv4(address),
    }
}

/// Returns the IPv4 address in `::ffff:a.b.c.d` or in the well-known NAT64 prefix, `64:ff9b::a.b.c.d`.
fn unwrapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => address.to_ipv4_mapped(),
    }
}

impl HostRule {
    /// Parses a list of hosts and reports an error for each invalid one.
    pub(crate) fn compile(list: &[Located<String>], id: &str, inspection: &mut Inspection<'_>) -> Vec<Self> {
        let mut rules = Vec::new();
        for text in list {
            match HostPattern::read(text) {
                Some(pattern) => rules.push(HostRule { pattern, rule: inspection.rule(text, id) }),
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
    fn read(text: &str) -> Option<Self> {
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
        Some(if text.starts_with("*.") { HostPattern::Below(name) } else { HostPattern::Exactly(name) })
    }

    pub(crate) fn allows(&self, host: &str) -> bool {
        match self {
            HostPattern::Any => true,
            HostPattern::Exactly(name) => host == name,
            HostPattern::Below(name) => is_below(host, name),
        }
    }

    /// Returns true if this pattern blocks every host that the other pattern allows.
    pub fn blocks_all_of(&self, other: &HostPattern) -> bool {
        match other {
            HostPattern::Any => *self == HostPattern::Any,
            HostPattern::Exactly(name) | HostPattern::Below(name) => self.blocks(name),
        }
    }

    /// Returns true if both patterns may allow the same host.
    pub fn meets(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
            (HostPattern::Exactly(name), other) => other.allows(name),
            (HostPattern::Below(_), HostPattern::Exactly(name)) => self.allows(name),
            (HostPattern::Below(a), HostPattern::Below(b)) => a == b || is_below(a, b) || is_below(b, a),
        }
    }

    /// Returns the narrower of two patterns if one contains the other.
    pub fn narrower<'p>(&'p self, other: &'p HostPattern) -> Option<&'p HostPattern> {
        match (self, other) {
            _ if !self.meets(other) => None,
            (HostPattern::Any, _) | (_, HostPattern::Exactly(_)) => Some(other),
            (_, HostPattern::Any) | (HostPattern::Exactly(_), _) => Some(self),
            (HostPattern::Below(a), HostPattern::Below(b)) => Some(if is_below(b, a) { other } else { self }),
        }
    }

    pub(crate) fn blocks(&self, host: &str) -> bool {
        match self {
            HostPattern::Any => true,
            HostPattern::Exactly(name) | HostPattern::Below(name) => host == name || is_below(host, name),
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HostPattern::Any => f.write_str("*"),
            HostPattern::Exactly(name) => f.write_str(name),
            HostPattern::Below(name) => write!(f, "*.{name}"),
        }
    }
}

fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
}

impl Gateway {
    pub(crate) fn compile(file: &OutboundGateway, inspection: &mut Inspection<'_>) -> Self {
        let id = |key: &str| format!("{GATEWAY}.{key}");
        let nowhere = Located::nowhere(());
        let place = |at: Option<&Located<bool>>, key: &str| match at {
            Some(at) => inspection.rule(at, id(key)),
            None => inspection.rule(&nowhere, id(key)),
        };
        let private = match &file.allow_private_addresses {
            Some(flag) if flag.value => Private::Allowed,
            flag => Private::Denied(place(flag.as_ref(), "allow_private_addresses")),
        };
        let asks = file.require_approval_for_new_domains.as_ref().filter(|flag| flag.value);
        let asks = asks.map(|flag| inspection.rule(flag, id("require_approval_for_new_domains")));
        let rule = match file.allowed_domains.first() {
            Some(first) => inspection.rule(first, id("allowed_domains")),
            None => inspection.rule(&nowhere, id("allowed_domains")),
        };
        let hosts = HostRule::compile(&file.allowed_domains, &id("allowed_domains"), inspection);
        let blocked = HostRule::compile(&file.blocked_domains, &id("blocked_domains"), inspection);
        let max_response_bytes = file.max_response_kb.map(|kibibytes| kibibytes.saturating_mul(1024));
        Gateway { allowed: HostList { hosts, rule }, blocked, private, asks, max_response_bytes }
    }
}

/// Outbound rules of one tool: its own list, if it has one, and the rules of the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    pub(crate) own: Option<Arc<HostList>>,
    pub(crate) gateway: Arc<Gateway>,
}

impl Outbound {
    /// Checks that the call may reach a target.
    pub(crate) fn admit(&self, target: &Target, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        notes.asks(|| target.to_string());
        let host = self.admit_unblocked(target, notes)?;
        self.admit_public(host, target)?;
        self.admit_listed(host, target, notes)
    }

    /// Checks that the call may reach a service from the settings, and returns its location by its name.
    ///
    /// The lists of hosts apply. A private address is accepted, because the operator configured it.
    pub(crate) fn admit_service(&self, target: &Target) -> Result<Nearness, Grounds> {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        let host = self.admit_unblocked(target, &mut notes)?;
        self.admit_listed(host, target, &mut notes)?;
        Ok(if is_near(host) { Nearness::Near } else { Nearness::Public })
    }

    /// Checks that the call may reach a server from its manifest, and returns its location.
    ///
    /// A manifest is not policy: a host on this machine or a private network is accepted only if the tool's
    /// own list names exactly that host.
    pub(crate) fn admit_server(&self, target: &Target) -> Result<Nearness, Grounds> {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        let host = self.admit_unblocked(target, &mut notes)?;
        let is_granted = is_near(host) && self.names(host);
        if !is_granted {
            self.admit_public(host, target)?;
        }
        self.admit_listed(host, target, &mut notes)?;
        Ok(if is_granted { Nearness::Near } else { Nearness::Public })
    }

    fn names(&self, host: &Host<String>) -> bool {
        let name = HostPattern::Exactly(host.to_string());
        self.own.as_deref().is_some_and(|list| list.hosts.iter().any(|rule| rule.pattern == name))
    }

    fn admit_unblocked<'a>(
        &self,
        target: &'a Target,
        notes: &mut Notes<'_>,
    ) -> Result<&'a Host<String>, Grounds> {
        let host = match target {
            Target::Host(host) => host,
            Target::Unusable { detail, hint, .. } => {
                return Err(self.denied(target, detail, (*hint).to_owned(), &self.gateway.allowed.rule));
            }
        };
        self.admit_open(host, target)?;
        let name = host.to_string();
        let blocked = &self.gateway.blocked;
        let found = blocked.iter().position(|rule| rule.pattern.blocks(&name));
        let before = blocked.iter().take(found.unwrap_or(blocked.len()));
        notes.skips(before.map(|rule| (&rule.rule, rule.pattern.to_string())));
        if let Some(rule) = found.and_then(|at| blocked.get(at)) {
            notes.offers(|| rule.pattern.to_string());
            let hint = format!("{} blocks it, even if another rule allows it", place(&rule.rule));
            return Err(self.denied(target, "blocked_domain", hint, &rule.rule));
        }
        Ok(host)
    }

    fn admit_listed(
        &self,
        host: &Host<String>,
        target: &Target,
        notes: &mut Notes<'_>,
    ) -> Result<(), Grounds> {
        let name = host.to_string();
        for list in self.own.as_deref().into_iter().chain([&self.gateway.allowed]) {
            let found = list.hosts.iter().position(|rule| rule.pattern.allows(&name));
            let before = list.hosts.iter().take(found.unwrap_or(list.hosts.len()));
            notes.skips(before.map(|rule| (&rule.rule, rule.pattern.to_string())));
            let Some(rule) = found.and_then(|at| list.hosts.get(at)) else {
                let hint = format!("{} lists the hosts it may reach", place(&list.rule));
                return Err(self.denied(target, "not_listed", hint, &list.rule));
            };
            notes.passes(rule.rule.clone(), || rule.pattern.to_string(), || name.clone());
        }
        Ok(())
    }

    /// Denies the addresses that are blocked regardless of policy and settings.
    fn admit_open(&self, host: &Host<String>, target: &Target) -> Result<(), Grounds> {
        let is_closed = match host {
            Host::Domain(_) => false,
            Host::Ipv4(address) => address::is_closed(IpAddr::V4(*address)),
            Host::Ipv6(address) => address::is_closed(IpAddr::V6(*address)),
        };
        if !is_closed {
            return Ok(());
        }
        let hint = "it is link-local or a cloud metadata address, which no policy file can allow";
        Err(self.denied(target, "private_address", hint.to_owned(), &floor::rule("link_local")))
    }

    fn admit_public(&self, host: &Host<String>, target: &Target) -> Result<(), Grounds> {
        match &self.gateway.private {
            Private::Denied(rule) if is_near(host) => {
                let hint =
                    format!("it is on this machine or a private network, which {} blocks", place(rule));
                Err(self.denied(target, "private_address", hint, rule))
            }
            Private::Denied(_) | Private::Allowed => Ok(()),
        }
    }

    /// Checks that the call may connect to a resolved address of a host with this location.
    pub(crate) fn admit_address(&self, address: IpAddr, nearness: Nearness) -> Result<(), Grounds> {
        let host = match address {
            IpAddr::V4(address) => Host::Ipv4(address),
            IpAddr::V6(address) => Host::Ipv6(address),
        };
        let target = Target::Host(host.clone());
        self.admit_open(&host, &target)?;
        match nearness {
            Nearness::Near => Ok(()),
            Nearness::Public => self.admit_public(&host, &target),
        }
    }

    fn denied(&self, target: &Target, detail: &str, hint: String, rule: &RuleRef) -> Grounds {
        let reason = format!("Host {} is not allowed", shown(&target.to_string()));
        Grounds::new(RefusalCode::DomainNotAllowed, detail, &reason, hint, rule)
    }
}

/// Returns true if a host, by its name or address, is this machine or on a private network.
fn is_near(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => address::is_local_name(name),
        Host::Ipv4(address) => address::is_private(IpAddr::V4(*address)),
        Host::Ipv6(address) => address::is_private(IpAddr::V6(*address)),
    }
}

#[cfg(test)]
mod tests;
