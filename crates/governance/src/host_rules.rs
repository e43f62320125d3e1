//! Where on the network a tool may go: the host of an address against the lists of its entry and of the gateway.
//!
//! An address is read once, by the parser that whoever fetches it uses, and its host is compared label by label. A
//! name that is allowed is read narrowly, `*.example.org` being everything below `example.org`; one that is blocked
//! widely, with the name itself and everything below it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use document::Located;
use tool::{RefusalCode, RuleRef};
use url::{Host, Url};

use crate::address;
use crate::floor;
use crate::grounds::{Grounds, place, shown};
use crate::problems::Inspection;
use crate::safety_file::OutboundGateway;
use crate::trail::{Notes, Trail};

const GATEWAY: &str = "outbound_gateway";

/// A host in a list: `example.org`, `*.example.org` or `*`.
#[derive(Clone, Debug)]
pub(crate) struct HostRule {
    pub(crate) pattern: HostPattern,
    pub(crate) rule: RuleRef,
}

/// Which hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostPattern {
    Any,
    Exactly(String),
    Below(String),
}

/// A list of hosts and the line it stands on.
#[derive(Clone, Debug)]
pub(crate) struct HostList {
    pub(crate) hosts: Vec<HostRule>,
    pub(crate) rule: RuleRef,
}

/// The way out of the machine, for every tool.
#[derive(Clone, Debug)]
pub(crate) struct Gateway {
    pub(crate) allowed: HostList,
    pub(crate) blocked: Vec<HostRule>,
    pub(crate) private: Private,
    pub(crate) asks: Option<RuleRef>,
    pub(crate) max_response_bytes: Option<u64>,
}

/// Whether addresses of the machine's own network may be reached.
#[derive(Clone, Debug)]
pub(crate) enum Private {
    Allowed,
    Denied(RuleRef),
}

/// Where a service is, by the name that the settings or a manifest give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nearness {
    /// This machine or its own network.
    Near,
    /// Somewhere on the Internet.
    Public,
}

/// Where a call wants to go: a host, or a text that is no address one could fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Host(Host<String>),
    Unusable { text: String, detail: &'static str, hint: &'static str },
}

impl Target {
    /// What an address leads to.
    pub(crate) fn of_url(text: &str) -> Self {
        let unusable = |detail, hint| Target::Unusable { text: without_secrets(text), detail, hint };
        // The parser drops them in silence, and whoever fetches might not.
        if text.chars().any(|c| c.is_control() || c == '\\' || c.is_whitespace()) {
            return unusable("bad_url", "an address has no spaces, backslashes or control characters");
        }
        let Ok(url) = Url::parse(text) else {
            return unusable("bad_url", "write a whole address, such as https://example.org/page");
        };
        if !matches!(url.scheme(), "http" | "https") {
            return unusable("scheme", "only http and https lead anywhere");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return unusable("userinfo", "leave the user and password out of the address");
        }
        match url.host() {
            Some(host) => Target::Host(plain(host.to_owned())),
            None => unusable("bad_url", "the address names no host"),
        }
    }

    /// A host by itself, as a record keeps it.
    pub(crate) fn of_host(text: &str) -> Self {
        match Host::parse(text) {
            Ok(host) => Target::Host(plain(host)),
            Err(_) => Target::Unusable { text: text.to_owned(), detail: "bad_url", hint: "this is no host" },
        }
    }

    /// An address of which nothing is known but that it leads to no host.
    pub(crate) fn unusable() -> Self {
        let hint = "write a whole address, such as https://example.org/page";
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

/// An address as it may be quoted: without user, password and query, which often are credentials.
fn without_secrets(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.rsplit_once('@'), text.split_once("://")) {
        (Some((_, rest)), Some((scheme, _))) => format!("{scheme}://…@{rest}"),
        (Some((_, rest)), None) => format!("…@{rest}"),
        (None, _) => text.to_owned(),
    }
}

/// The same host in one spelling: without the dot that may end a name, and an address of the old kind as one, however it is
/// wrapped in the new kind.
fn plain(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        Host::Ipv6(address) => unwrapped(address).map_or(Host::Ipv6(address), Host::Ipv4),
        Host::Ipv4(address) => Host::Ipv4(address),
    }
}

/// The address behind `::ffff:a.b.c.d`, and behind the usual prefix of a translator, `64:ff9b::a.b.c.d`.
fn unwrapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => address.to_ipv4_mapped(),
    }
}

impl HostRule {
    /// Checks and reads a list.
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

    /// Whether it blocks every host that another pattern allows.
    pub(crate) fn blocks_all_of(&self, other: &HostPattern) -> bool {
        match other {
            HostPattern::Any => *self == HostPattern::Any,
            HostPattern::Exactly(name) | HostPattern::Below(name) => self.blocks(name),
        }
    }

    /// Whether there may be a host that both allow.
    pub(crate) fn meets(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (HostPattern::Any, _) | (_, HostPattern::Any) => true,
            (HostPattern::Exactly(name), other) => other.allows(name),
            (HostPattern::Below(_), HostPattern::Exactly(name)) => self.allows(name),
            (HostPattern::Below(a), HostPattern::Below(b)) => a == b || is_below(a, b) || is_below(b, a),
        }
    }

    /// The narrower of two patterns, where one lies within the other.
    pub(crate) fn narrower<'p>(&'p self, other: &'p HostPattern) -> Option<&'p HostPattern> {
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

/// Where one tool may go: its own list, if it has one, and the gateway.
#[derive(Clone, Debug)]
pub(crate) struct Outbound {
    pub(crate) own: Option<Arc<HostList>>,
    pub(crate) gateway: Arc<Gateway>,
}

impl Outbound {
    /// Whether the call may go there.
    pub(crate) fn admit(&self, target: &Target, notes: &mut Notes<'_>) -> Result<(), Grounds> {
        notes.asks(|| target.to_string());
        let host = self.admit_unblocked(target, notes)?;
        self.admit_public(host, target)?;
        self.admit_listed(host, target, notes)
    }

    /// Whether the call may go to a service that the settings name, and where that is by the name they give it. The
    /// lists hold; that it is on this machine is no mistake of whoever wrote it down.
    pub(crate) fn admit_service(&self, target: &Target) -> Result<Nearness, Grounds> {
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        let host = self.admit_unblocked(target, &mut notes)?;
        self.admit_listed(host, target, &mut notes)?;
        Ok(if is_near(host) { Nearness::Near } else { Nearness::Public })
    }

    /// Whether the call may go to a server that its manifest names, and where that is. A manifest is not policy: to what is
    /// near it leads only where the tool's own list names that very host.
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
            let hint = format!("{} blocks it, whatever else allows it", place(&rule.rule));
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
                let hint = format!("{} lists where it may go", place(&list.rule));
                return Err(self.denied(target, "not_listed", hint, &list.rule));
            };
            notes.passes(rule.rule.clone(), || rule.pattern.to_string(), || name.clone());
        }
        Ok(())
    }

    /// Whether an address is none of those that nothing opens, whoever names them.
    fn admit_open(&self, host: &Host<String>, target: &Target) -> Result<(), Grounds> {
        let is_closed = match host {
            Host::Domain(_) => false,
            Host::Ipv4(address) => address::is_closed(IpAddr::V4(*address)),
            Host::Ipv6(address) => address::is_closed(IpAddr::V6(*address)),
        };
        if !is_closed {
            return Ok(());
        }
        let hint = "it is link-local, or where clouds keep a machine's credentials: no file opens that";
        Err(self.denied(target, "private_address", hint.to_owned(), &floor::rule("link_local")))
    }

    fn admit_public(&self, host: &Host<String>, target: &Target) -> Result<(), Grounds> {
        match &self.gateway.private {
            Private::Denied(rule) if is_near(host) => {
                let hint =
                    format!("it is this machine or its own network, which {} keeps closed", place(rule));
                Err(self.denied(target, "private_address", hint, rule))
            }
            Private::Denied(_) | Private::Allowed => Ok(()),
        }
    }

    /// Whether an address may be connected to that a host turned out to have, which is so near by its name.
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

/// Whether a host is this machine or on its own network, by what it is called.
fn is_near(host: &Host<String>) -> bool {
    match host {
        Host::Domain(name) => address::is_local_name(name),
        Host::Ipv4(address) => address::is_private(IpAddr::V4(*address)),
        Host::Ipv6(address) => address::is_private(IpAddr::V6(*address)),
    }
}

#[cfg(test)]
mod tests;
