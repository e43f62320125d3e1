//! Sections of the tool types: programs, servers and health checks in the forms of public manifests.

use strict_yaml::{YamlNode, YamlNodeKind};

use super::{entry_mut, health_check, ignore, mapping_at, put, remove, text_at};
use crate::diagnostic::DiagnosticCode;
use crate::diagnostic_collector::{DiagnosticCollector, FieldPosition};

/// Sections of the tool types.
const SECTIONS: [&str; 4] = ["mcp_specific", "cli_specific", "local_specific", "meta_specific"];

pub(super) fn convert(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    for name in SECTIONS {
        let Some(section) = tool.get(name) else { continue };
        if !matches!(section.kind, YamlNodeKind::Mapping(_)) {
            let message = format!(
                "`{name}` is {}, so the commands are listed but cannot be called",
                section.kind_name()
            );
            let at = FieldPosition::node(section, name);
            findings.add(
                DiagnosticCode::IgnoredField,
                at,
                &message,
                "write a mapping, as in docs/manifests.md",
            );
            remove(tool, name);
        }
    }
    for name in ["cli_specific", "local_specific"] {
        if let Some(section) = entry_mut(tool, name) {
            convert_programs(section, name, findings);
            convert_notes(section, name, findings);
        }
    }
    if let Some(section) = entry_mut(tool, "mcp_specific") {
        convert_connection(section);
        convert_server_command(section);
        convert_transport(section);
        convert_arguments(section);
        convert_variables(section, findings);
        health_check::convert(section, findings);
        check_address(section, findings);
    }
}

/// Removes the section of a program or script that names none. Called when the commands are known.
pub(super) fn remove_unusable_program(tool: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let sections = [
        ("local_specific", "entry_point", "add `entry_point:`, or write `type: cli` with `cli_specific:`"),
        ("cli_specific", "executable", "add `executable:` with the name of the program"),
    ];
    for (name, key, fix) in sections {
        let Some(section) = tool.get(name).filter(|section| section.get(key).is_none()) else { continue };
        let message = format!("there is no `{key}`, so the commands are listed but cannot be called");
        let field = format!("tool.{name}");
        findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(section, &field), &message, fix);
        remove(tool, name);
    }
}

/// Converts the parts of a program's section that only inform: the installation guide and the dependencies.
fn convert_notes(section: &mut YamlNode, name: &str, findings: &mut DiagnosticCollector<'_>) {
    if let Some(guide) = entry_mut(section, "install_guide").filter(|guide| guide.text().is_none()) {
        let lines: Vec<String> = guide.items().iter().filter_map(YamlNode::text).map(str::to_owned).collect();
        let text = if lines.is_empty() { guide.to_json().to_string() } else { lines.join("\n") };
        guide.kind = YamlNodeKind::Text(text);
    }
    if let Some(runtime) = entry_mut(section, "runtime") {
        let word = match runtime.text().map(str::to_ascii_lowercase).as_deref() {
            Some("nodejs" | "node.js" | "javascript") => "node",
            Some("python3") => "python",
            _ => return,
        };
        runtime.kind = YamlNodeKind::Text(word.to_owned());
    }
    let Some(needed) = entry_mut(section, "dependencies") else { return };
    let is_list = matches!(needed.kind, YamlNodeKind::List(_));
    if !is_list || needed.items().iter().any(|item| item.text().is_none()) {
        let field = format!("tool.{name}.dependencies");
        ignore(findings, FieldPosition::node(needed, &field), "`dependencies` is not a list of names");
        remove(section, "dependencies");
    }
}

/// Reads `server_command` as a list of words: the program, and the first arguments.
fn convert_server_command(section: &mut YamlNode) {
    let Some(command) = section.get("server_command").filter(|command| !command.items().is_empty()) else {
        return;
    };
    let tokens: Vec<YamlNode> = command.items().iter().filter_map(word).collect();
    let Some((program, arguments)) = tokens.split_first().filter(|_| tokens.len() == command.items().len())
    else {
        return;
    };
    let mut all = arguments.to_vec();
    let (at, program) = (command.clone(), program.clone());
    remove(section, "server_command");
    put(section, "server_command", program);
    all.extend(remove(section, "server_args").map(|list| list.items().to_vec()).unwrap_or_default());
    put(section, "server_args", YamlNode { kind: YamlNodeKind::List(all), ..at });
}

/// Returns a word of a command line. A number is written as in the file.
fn word(node: &YamlNode) -> Option<YamlNode> {
    match &node.kind {
        YamlNodeKind::Text(text) | YamlNodeKind::Number(_, text) => Some(text_at(node, text)),
        _ => None,
    }
}

/// Reads `executables` as `executable` and `verification` as `install_check`.
fn convert_programs(section: &mut YamlNode, name: &str, findings: &mut DiagnosticCollector<'_>) {
    if let Some(list) = remove(section, "executables") {
        let names: Vec<String> = match &list.kind {
            YamlNodeKind::List(items) => items.iter().filter_map(program_name).collect(),
            YamlNodeKind::Mapping(entries) => entries.iter().map(|(key, _)| key.value.clone()).collect(),
            _ => list.text().map(str::to_owned).into_iter().collect(),
        };
        if let Some(first) = names.first().filter(|_| section.get("executable").is_none()) {
            put(section, "executable", text_at(&list, first));
        }
        if names.len() > 1 {
            let message = "only the first program of `executables` is run";
            let field = format!("tool.{name}.executables");
            let fix = "write one manifest for each program";
            findings.add(DiagnosticCode::IgnoredField, FieldPosition::node(&list, &field), message, fix);
        }
    }
    let verification = section.get("verification").and_then(|node| match node.text() {
        Some(_) => Some(node.clone()),
        None => node.get("command").filter(|node| node.text().is_some()).cloned(),
    });
    if let Some(verification) = verification {
        remove(section, "verification");
        if section.get("install_check").is_none()
            && name == "cli_specific"
            && only_prints_version(&verification)
        {
            put(section, "install_check", verification);
        }
    }
}

/// Returns true for a command that only prints a version or help. The check runs before the first call, where
/// no command rule judges it, so a manifest cannot make it run anything else.
fn only_prints_version(verification: &YamlNode) -> bool {
    let tokens: Vec<&str> = verification.text().unwrap_or_default().split_whitespace().collect();
    matches!(tokens.as_slice(), [_, "--version" | "-version" | "version" | "-V" | "-v" | "--help" | "help"])
}

fn program_name(node: &YamlNode) -> Option<String> {
    node.text().or_else(|| node.get("name").and_then(YamlNode::text)).map(str::to_owned)
}

/// Reads `connection` as the endpoint: an address, or a mapping with an address, a transport or a command.
fn convert_connection(section: &mut YamlNode) {
    let Some(connection) = section.get("connection").cloned() else { return };
    let stated =
        |keys: &[&str]| keys.iter().find_map(|key| connection.get(key)).filter(|n| n.text().is_some());
    let is_address = |node: &&YamlNode| node.text().is_some_and(|text| text.contains("://"));
    let address = Some(&connection).filter(is_address);
    let address = address.or_else(|| stated(&["url", "endpoint", "server_url"]).filter(is_address));
    let transport = stated(&["transport", "type"]);
    let command = stated(&["server_command", "command"]);
    let arguments = ["server_args", "args"].iter().find_map(|key| connection.get(key));
    let found =
        [("url", address), ("transport", transport), ("server_command", command), ("server_args", arguments)];
    if found.iter().all(|(_, node)| node.is_none()) {
        return;
    }
    for (key, node) in found {
        if let Some(node) = node.filter(|_| section.get(key).is_none()) {
            put(section, key, node.clone());
        }
    }
    remove(section, "connection");
}

fn convert_transport(section: &mut YamlNode) {
    let Some(transport) = entry_mut(section, "transport") else { return };
    let known = match transport.text().map(str::to_ascii_lowercase).as_deref() {
        Some("http" | "streamable-http" | "streamablehttp" | "streamable") => "streamable_http",
        Some("stdio") => "stdio",
        Some("sse") => "sse",
        Some("websocket" | "ws") => "websocket",
        _ => return,
    };
    transport.kind = YamlNodeKind::Text(known.to_owned());
}

fn convert_arguments(section: &mut YamlNode) {
    let Some(arguments) = entry_mut(section, "server_args") else { return };
    if let Some(text) = arguments.text() {
        let tokens = text.split_whitespace().map(|word| text_at(arguments, word)).collect();
        arguments.kind = YamlNodeKind::List(tokens);
    }
    for argument in super::items_mut(Some(arguments)) {
        if let Some(word) = word(argument) {
            *argument = word;
        }
    }
}

/// Reads the names of the variables. A value in the file is never used.
fn convert_variables(section: &mut YamlNode, findings: &mut DiagnosticCollector<'_>) {
    const FIELD: &str = "tool.mcp_specific.environment_variables";
    let Some(variables) = remove(section, "environment_variables") else { return };
    let mut names = Vec::new();
    match &variables.kind {
        YamlNodeKind::List(items) => {
            for item in items {
                let name = item.text().or_else(|| item.get("name").and_then(YamlNode::text));
                names.extend(name.map(|name| text_at(item, name)));
                if let Some(value) = ["value", "default"].iter().find_map(|key| item.get(key)) {
                    report_value(value, findings);
                }
            }
        }
        YamlNodeKind::Mapping(entries) => {
            for (key, value) in entries {
                names.push(YamlNode {
                    line: key.line,
                    column: key.column,
                    kind: YamlNodeKind::Text(key.value.clone()),
                });
                if let Some(value) = ["value", "default"].iter().find_map(|key| value.get(key)) {
                    report_value(value, findings);
                }
            }
        }
        _ => {
            ignore(findings, FieldPosition::node(&variables, FIELD), "`environment_variables` is not a list")
        }
    }
    let names = names.into_iter().map(|name| mapping_at(&name.clone(), vec![("name", name)])).collect();
    put(section, "environment_variables", YamlNode { kind: YamlNodeKind::List(names), ..variables });
}

fn report_value(value: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let message = "a manifest cannot set the value of a variable; the value is ignored";
    let at = FieldPosition::node(value, "tool.mcp_specific.environment_variables");
    let fix = "remove it; the operator supplies the value through `keys` in sinew.yaml";
    findings.add(DiagnosticCode::IgnoredField, at, message, fix);
}

/// Reports a server that cannot be reached as described.
fn check_address(section: &YamlNode, findings: &mut DiagnosticCollector<'_>) {
    let transport = section.get("transport").and_then(YamlNode::text).unwrap_or("stdio");
    let (key, fix) = match transport {
        "stdio" => ("server_command", "add `server_command: PROGRAM ARGUMENTS`"),
        "sse" | "streamable_http" => ("url", "add `url: https://HOST/PATH`"),
        "websocket" => ("url", "add `url: wss://HOST/PATH`"),
        _ => return,
    };
    if section.get(key).is_none() {
        let message =
            format!("`{transport}` needs `{key}`; without it the tools are listed but cannot be called");
        let at = FieldPosition::node(section, "tool.mcp_specific");
        findings.add(DiagnosticCode::IgnoredField, at, &message, fix);
    }
}
