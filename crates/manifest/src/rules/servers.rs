//! How a server is reached: its address begins as its transport wants it to, and a key for it travels behind walls of TLS
//! or not at all.

use std::collections::BTreeSet;

use document::Node;
use url::{Host, Url};

use super::names::is_joined;
use crate::diagnostic::Code;
use crate::findings::{At, Findings};

/// What of a server's section nobody takes for the place of a key.
const KEYLESS: [&str; 3] = ["transport", "server_command", "health_check"];
/// No header has a longer name.
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
        let message = format!("`{transport}` speaks to an address of `{plain}` or `{secure}`");
        let fix = format!("write `{secure}HOST/PATH`, or `{plain}` for a server on this machine");
        return findings.add(Code::InvalidValue, at(), &message, &fix);
    }
    if has_user(text) {
        let message = "the address has a user and password, which everybody who reads the manifest has then";
        findings.add(Code::InvalidValue, at(), message, "name a key: `key: {name: NAME}`");
    }
}

/// By its text: one that is no address may have a password all the same.
fn has_user(url: &str) -> bool {
    let place = url.split_once("://").map_or(url, |(_, place)| place);
    place.split(['/', '?', '#', '\\']).next().unwrap_or_default().contains('@')
}

/// The lines of a manifest that may have a key in them: where its name belongs, what nobody knows beside it, and an address
/// with more than a place.
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

/// The words by which a key is asked for.
fn wish(key: &Node, findings: &mut Findings<'_>) {
    if let Some((node, name)) = key.get("name").and_then(|node| Some((node, node.text()?)))
        && (name.len() > tool::LONGEST_WORD || !(is_joined(name, '-') || is_joined(name, '_')))
    {
        // Not repeated: whoever takes this for the place of the key itself has written it here.
        let message = "a key has a name in kebab-case or snake_case, of at most 64 characters";
        let fix = "the name it has below `keys` in sinew.yaml; the key itself belongs in a file of mode 0600";
        findings.add(Code::InvalidValue, At::node(node, "tool.mcp_specific.key.name"), message, fix);
    }
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if let Some((node, name)) = key.get("header").and_then(|node| Some((node, node.text()?)))
        && (name.len() > LONGEST_HEADER || !plain(name))
    {
        // Not repeated either: a whole header has the key in it.
        let at = At::node(node, "tool.mcp_specific.key.header");
        findings.add(Code::InvalidValue, at, "that is no name of a header", "such as X-API-Key");
    }
}

/// Whether nobody on the way to the server can read the key.
fn way(section: &Node, key: &Node, is_far: bool, findings: &mut Findings<'_>) {
    let at = || At::node(key, "tool.mcp_specific.key");
    if !is_far {
        let message = "a server that is started is given no key: whatever it runs could read it";
        return findings.add(Code::InvalidValue, at(), message, "remove it, or name the `url` of a server");
    }
    let url = section.get("url").and_then(Node::text).and_then(|text| Url::parse(text).ok());
    if url.is_some_and(|url| !matches!(url.scheme(), "https" | "wss") && !is_this_machine(&url)) {
        let message = "the key would travel in the open";
        findings.add(Code::InvalidValue, at(), message, "name an address of `https://` or `wss://`");
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

/// What the addresses of a transport begin with.
fn schemes(transport: &str) -> Option<[&'static str; 2]> {
    match transport {
        "sse" | "streamable_http" => Some(["http://", "https://"]),
        "websocket" => Some(["ws://", "wss://"]),
        _ => None,
    }
}
