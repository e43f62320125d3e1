//! Checks of MCP server connections: the address must match the transport, and a key may only be sent over
//! TLS or to this machine.

use std::collections::BTreeSet;

use strict_yaml::Node;
use url::{Host, Url};

use super::names::is_joined;
use crate::diagnostic::Code;
use crate::findings::{At, Findings};

/// Keys of the section whose values cannot contain a credential.
const KEYLESS: [&str; 3] = ["transport", "server_command", "health_check"];
/// Maximum length of a header name.
const LONGEST_HEADER: usize = 64;

pub(super) fn check(tool: &Node, findings: &mut Findings<'_>) {
    let Some(section) = tool.get("mcp_specific") else { return };
    let transport = section.get("transport").and_then(Node::text).unwrap_or_default();
    let schemes = schemes(transport);
    if let (Some(schemes), Some(url)) = (schemes, section.get("url")) {
        address(url, transport, schemes, findings);
    }
    if let Some(key) = section.get("key") {
        wish(key, findings);
        way(section, key, schemes.is_some(), findings);
    }
}

fn address(url: &Node, transport: &str, [plain, secure]: [&str; 2], findings: &mut Findings<'_>) {
    let Some(text) = url.text() else { return };
    let at = || At::node(url, "tool.mcp_specific.url");
    if ![plain, secure].iter().any(|scheme| text.starts_with(scheme)) {
        let message = format!("`{transport}` needs an address that starts with `{plain}` or `{secure}`");
        let fix = format!("write `{secure}HOST/PATH`, or `{plain}` for a server on this machine");
        return findings.add(Code::InvalidValue, at(), &message, &fix);
    }
    if has_user(text) {
        let message = "the address contains credentials, which every reader of the manifest can see";
        findings.add(Code::InvalidValue, at(), message, "name a key: `key: {name: NAME}`");
    }
}

/// Checks the text rather than a parsed URL, because an invalid URL may contain a password too.
fn has_user(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.split(['/', '?', '#', '\\']).next().unwrap_or_default().contains('@')
}

/// Returns the lines of a manifest that may contain a secret: the key section, unknown entries beside it, and
/// an address with credentials or a query.
pub(crate) fn lines_with_keys(root: &Node) -> BTreeSet<u64> {
    let mut lines = BTreeSet::new();
    let Some(section) = root.get("tool").and_then(|tool| tool.get("mcp_specific")) else { return lines };
    for (word, value) in section.entries() {
        let may_have_one = match word.as_str() {
            "url" => value.text().is_some_and(|url| url.contains(['@', '?'])),
            word => !KEYLESS.contains(&word),
        };
        if may_have_one {
            lines.insert(word.line);
            all_lines(value, &mut lines);
        }
    }
    lines
}

fn all_lines(node: &Node, lines: &mut BTreeSet<u64>) {
    lines.insert(node.line);
    for (word, below) in node.entries() {
        lines.insert(word.line);
        all_lines(below, lines);
    }
    node.items().iter().for_each(|item| all_lines(item, lines));
}

/// Checks the name and header of a key.
fn wish(key: &Node, findings: &mut Findings<'_>) {
    if let Some((node, name)) = key.get("name").and_then(|node| Some((node, node.text()?)))
        && (name.len() > tool::LONGEST_WORD || !(is_joined(name, '-') || is_joined(name, '_')))
    {
        // The value is not quoted, because a user who misunderstood the field may have written the key itself
        // here.
        let message = "the name of a key must be kebab-case or snake_case, at most 64 characters";
        let fix = "use its name below `keys` in sinew.yaml; the key itself belongs in a file of mode 0600";
        findings.add(Code::InvalidValue, At::node(node, "tool.mcp_specific.key.name"), message, fix);
    }
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if let Some((node, name)) = key.get("header").and_then(|node| Some((node, node.text()?)))
        && (name.len() > LONGEST_HEADER || !plain(name))
    {
        // The value is not quoted, because a complete header contains the key.
        let at = At::node(node, "tool.mcp_specific.key.header");
        findings.add(Code::InvalidValue, at, "that is not a header name", "such as X-API-Key");
    }
}

/// Checks that the key cannot be read in transit.
fn way(section: &Node, key: &Node, is_far: bool, findings: &mut Findings<'_>) {
    let at = || At::node(key, "tool.mcp_specific.key");
    if !is_far {
        let message = "a server started by Sinew cannot have a key: every program it runs could read it";
        return findings.add(Code::InvalidValue, at(), message, "remove it, or name the `url` of a server");
    }
    let url = section.get("url").and_then(Node::text).and_then(|text| Url::parse(text).ok());
    if url.is_some_and(|url| !matches!(url.scheme(), "https" | "wss") && !is_this_machine(&url)) {
        let message = "the key would be sent unencrypted";
        findings.add(Code::InvalidValue, at(), message, "use an address with `https://` or `wss://`");
    }
}

fn is_this_machine(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Returns the URL prefixes of a transport, plain and secure.
fn schemes(transport: &str) -> Option<[&'static str; 2]> {
    match transport {
        "sse" | "streamable_http" => Some(["http://", "https://"]),
        "websocket" => Some(["ws://", "wss://"]),
        _ => None,
    }
}
