//! Network target of a call: the host of a URL, or a text that is not a usable URL. No name is resolved here.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Detail word of a text that is not a URL. It is an invalid argument, not a violation of the policy.
pub(super) const MALFORMED: &str = "bad_url";
/// Detail words and hints of URLs that cannot be used.
const NOT_A_URL: (&str, &str) = (MALFORMED, "write a full URL, such as https://example.org/page");
const SCHEME: (&str, &str) = ("scheme", "only http and https are supported");
const USERINFO: (&str, &str) = ("userinfo", "remove the user name and password from the URL");

/// Network target that a call names: a host, or a text that is not a usable URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NetworkTarget {
    Host(Host<String>),
    Unusable { text: String, detail: &'static str, hint: &'static str },
}

impl NetworkTarget {
    /// Parses a URL.
    pub(crate) fn from_url(text: &str) -> Self {
        let unusable =
            |(detail, hint)| NetworkTarget::Unusable { text: strip_credentials(text), detail, hint };
        // The parser drops these characters silently, and the HTTP client might not.
        if text.chars().any(|c| c.is_control() || c == '\\' || c.is_whitespace()) {
            return unusable((MALFORMED, "a URL must not contain spaces, backslashes or control characters"));
        }
        let Ok(url) = Url::parse(text) else {
            return unusable(NOT_A_URL);
        };
        if !matches!(url.scheme(), "http" | "https") {
            return unusable(SCHEME);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return unusable(USERINFO);
        }
        match url.host().map(|host| normalize_host(host.to_owned())) {
            Some(host) => match name_flaw(&host) {
                Some(flaw) => unusable((MALFORMED, flaw)),
                None => NetworkTarget::Host(host),
            },
            None => unusable((MALFORMED, "the URL has no host")),
        }
    }

    /// Parses a host without a URL, as the ledger records it.
    pub(crate) fn from_host(text: &str) -> Self {
        match Host::parse(text).map(normalize_host) {
            Ok(host) if name_flaw(&host).is_none() => NetworkTarget::Host(host),
            _ => {
                NetworkTarget::Unusable { text: text.to_owned(), detail: MALFORMED, hint: "it is not a host" }
            }
        }
    }

    /// Returns the target for a URL of which only the detail word is recorded. `None` for an unknown word.
    pub(crate) fn unusable(detail: &str) -> Option<Self> {
        let (detail, hint) = [NOT_A_URL, SCHEME, USERINFO].into_iter().find(|(known, _)| *known == detail)?;
        Some(NetworkTarget::Unusable { text: String::new(), detail, hint })
    }
}

impl std::fmt::Display for NetworkTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NetworkTarget::Host(host) => host.fmt(f),
            NetworkTarget::Unusable { text, .. } => f.write_str(text),
        }
    }
}

/// Removes user, password and query from a URL, because they often are credentials, so that it can be quoted.
pub(super) fn strip_credentials(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    match (text.rsplit_once('@'), text.split_once("://")) {
        (Some((_, rest)), Some((scheme, _))) => format!("{scheme}://…@{rest}"),
        (Some((_, rest)), None) => format!("…@{rest}"),
        (None, _) => text.to_owned(),
    }
}

/// Normalises a host: a name without its final dot, and an IPv4 address embedded in IPv6 as IPv4.
fn normalize_host(host: Host<String>) -> Host<String> {
    match host {
        Host::Domain(name) => Host::Domain(name.strip_suffix('.').unwrap_or(&name).to_owned()),
        Host::Ipv6(address) => mapped_ipv4(address).map_or(Host::Ipv6(address), Host::Ipv4),
        Host::Ipv4(address) => Host::Ipv4(address),
    }
}

/// Returns the flaw of a name that no host has. Resolvers differ in how they read one with an empty part, such as
/// `127.0.0.1..`: some drop the part, and what is left may be an address. In a policy file `*.com` would be a pattern.
fn name_flaw(host: &Host<String>) -> Option<&'static str> {
    let Host::Domain(name) = host else { return None };
    let is_usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.split('.').any(str::is_empty) {
        return Some("a part of the host name is empty, as in `a..b`");
    }
    (!name.chars().all(is_usual)).then_some("a host name has letters, digits, `-`, `_` and dots only")
}

/// Returns the IPv4 address in `::ffff:a.b.c.d` or in the well-known NAT64 prefix, `64:ff9b::a.b.c.d`.
fn mapped_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    match address.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)))
        }
        _ => address.to_ipv4_mapped(),
    }
}
