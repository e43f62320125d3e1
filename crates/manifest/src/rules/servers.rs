//! Checks of MCP server connections: the address must match the transport, and a key may only be sent over
//! TLS or to this machine.

use std::collections::BTreeSet;

use strict_yaml::YamlNode;
use url::{Host, Url};

use super::names::is_joined;
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Keys of the section whose values cannot contain a credential.
const NON_SECRET_FIELDS: [&str; 4] = ["transport", "server_command", "health_check", "description"];
/// Maximum length of a header name.
const MAX_HEADER_NAME: usize = 64;

pub(super) fn check(tool: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let Some(section) = tool.get("mcp_specific") else { return };
    let transport = section.get("transport").and_then(YamlNode::text).unwrap_or_default();
    let schemes = url_prefixes(transport);
    if let (Some(schemes), Some(url)) = (schemes, section.get("url")) {
        check_address(url, transport, schemes, findings);
    }
    if let Some(key) = section.get("key") {
        check_key_name(key, findings);
        check_key_transport(section, key, schemes.is_some(), findings);
    }
}

fn check_address(
    url: &YamlNode,
    transport: &str,
    [plain, secure]: [&str; 2],
    findings: &mut DiagnosticCollector<'_>,
) {
    let Some(text) = url.text() else { return };
    let at = || FieldPosition::node(url, "tool.mcp_specific.url");
    if ![plain, secure].iter().any(|scheme| text.starts_with(scheme)) {
        let message = format!("`{transport}` needs an address that starts with `{plain}` or `{secure}`");
        let fix = format!("write `{secure}HOST/PATH`, or `{plain}` for a server on this machine");
        return findings.add(DiagnosticCode::InvalidValue, at(), &message, &fix);
    }
    if has_credentials(text) {
        let message = "the address contains credentials, which every reader of the manifest can see";
        findings.add(DiagnosticCode::InvalidValue, at(), message, "name a key: `key: {name: NAME}`");
    }
}

/// Checks the text rather than a parsed URL, because an invalid URL may contain a password too.
fn has_credentials(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    authority.split(['/', '?', '#', '\\']).next().unwrap_or_default().contains('@')
}

/// Returns the lines of a manifest that may contain a secret: the key section, unknown entries beside it, and
/// an address with credentials or a query.
pub(crate) fn lines_with_secrets(root: &YamlNode) -> BTreeSet<u64> {
    let mut lines = BTreeSet::new();
    let Some(section) = root.get("tool").and_then(|tool| tool.get("mcp_specific")) else { return lines };
    for (word, value) in section.entries() {
        let may_have_one = match word.as_str() {
            "url" => value.text().is_some_and(|url| url.contains(['@', '?'])),
            word => !NON_SECRET_FIELDS.contains(&word),
        };
        if may_have_one {
            lines.insert(word.line);
            all_lines(value, &mut lines);
        }
    }
    lines
}

fn all_lines(node: &YamlNode, lines: &mut BTreeSet<u64>) {
    lines.insert(node.line);
    for (word, value) in node.entries() {
        lines.insert(word.line);
        all_lines(value, lines);
    }
    node.items().iter().for_each(|item| all_lines(item, lines));
}

/// Checks the name and header of a key.
fn check_key_name(key: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    if let Some((node, name)) = key.get("name").and_then(|node| Some((node, node.text()?)))
        && (name.len() > tool::text::MAX_QUOTED_CHARS || !(is_joined(name, '-') || is_joined(name, '_')))
    {
        // The value is not quoted, because a user who misunderstood the field may have written the key itself
        // here.
        let message = "the name of a key must be kebab-case or snake_case, at most 64 characters";
        let fix = "use its name below `keys` in sinew.yaml; the key itself belongs in a file of mode 0600";
        findings.add(
            DiagnosticCode::InvalidValue,
            FieldPosition::node(node, "tool.mcp_specific.key.name"),
            message,
            fix,
        );
    }
    let plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if let Some((node, name)) = key.get("header").and_then(|node| Some((node, node.text()?)))
        && (name.len() > MAX_HEADER_NAME || !plain(name))
    {
        // The value is not quoted, because a complete header contains the key.
        let at = FieldPosition::node(node, "tool.mcp_specific.key.header");
        findings.add(DiagnosticCode::InvalidValue, at, "that is not a header name", "such as X-API-Key");
    }
}

/// Checks that the key cannot be read in transit.
fn check_key_transport(
    section: &YamlNode,
    key: &YamlNode,
    is_far: bool,
    findings: &mut DiagnosticCollector<'_>,
) {
    let at = || FieldPosition::node(key, "tool.mcp_specific.key");
    if !is_far {
        let message = "a server started by Sinew cannot have a key: every program it runs could read it";
        return findings.add(
            DiagnosticCode::InvalidValue,
            at(),
            message,
            "remove it, or name the `url` of a server",
        );
    }
    let url = section.get("url").and_then(YamlNode::text).and_then(|text| Url::parse(text).ok());
    if url.is_some_and(|url| !matches!(url.scheme(), "https" | "wss") && !is_loopback(&url)) {
        let message = "the key would be sent unencrypted";
        findings.add(
            DiagnosticCode::InvalidValue,
            at(),
            message,
            "use an address with `https://` or `wss://`",
        );
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Returns the URL prefixes of a transport, plain and secure.
fn url_prefixes(transport: &str) -> Option<[&'static str; 2]> {
    match transport {
        "sse" | "streamable_http" => Some(["http://", "https://"]),
        "websocket" => Some(["ws://", "wss://"]),
        _ => None,
    }
}
