//! `sinew hook install` and `uninstall`: add and remove the handlers of Sinew in a host's settings. All other
//! settings stay byte for byte as they are.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use server::SinewHome;

use super::DEADLINE;
use super::json_edit::{self, JsonNode};
use super::settings_file::HostSettingsFile;
use crate::cli::{HostName, HostSettingsScope, InstallArgs, UninstallArgs};
use crate::command_context::serve_error;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{WARNING_STYLE, paint, print_message, print_result_line};

/// Timeout that the host applies to the hook. It is longer than `DEADLINE`, so that the hook's own reply
/// comes first.
const HOST_TIMEOUT_SECONDS: u64 = 15;
const _: () = assert!(DEADLINE.as_secs() < HOST_TIMEOUT_SECONDS);

/// Events of the host, each with the hook command that handles it.
const EVENTS: [(&str, &str); 3] = [
    ("PreToolUse", "pre-tool-use"),
    ("PostToolUse", "post-tool-use"),
    ("PostToolUseFailure", "post-tool-use"),
];

pub(super) fn install(args: &InstallArgs) -> Result<ExitKind, CommandError> {
    let binary = stable_program_path()?;
    let sinew_home = std::env::var_os("SINEW_HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    if sinew_home.is_some() {
        // A home that the hook cannot use would make it block every call of the host.
        SinewHome::locate(&std::env::vars_os().collect()).map_err(|error| serve_error(&error))?;
    }
    if args.print {
        let groups = EVENTS.map(|(event, command)| {
            (event.to_owned(), json!([matcher_group(&handler(&binary, command, sinew_home.as_deref()))]))
        });
        let hooks: serde_json::Map<String, Value> = groups.into_iter().collect();
        print_result_line(format!("{:#}", json!({"hooks": hooks})))?;
        return Ok(ExitKind::Done);
    }
    let file = HostSettingsFile::read(&settings_path(args.host, args.scope)?)?;
    let mut text = file.text().to_owned();
    for (event, command) in EVENTS {
        text = with_handler(&text, event, command, &handler(&binary, command, sinew_home.as_deref()))
            .ok_or_else(|| unexpected_structure(file.path(), event))?;
    }
    if disables_all_hooks(&text) {
        let file = file.path().display();
        print_message(paint(
            WARNING_STYLE,
            format!("warning: {file} has `disableAllHooks`: the host runs no hook, this one included"),
        ));
    }
    write_and_report(&file, &text, "installed in")
}

pub(super) fn uninstall(args: &UninstallArgs) -> Result<ExitKind, CommandError> {
    let file = HostSettingsFile::read(&settings_path(args.host, args.scope)?)?;
    let mut text = file.text().to_owned();
    for (event, command) in EVENTS {
        text = without_handlers(&text, event, command)
            .ok_or_else(|| unexpected_structure(file.path(), event))?;
    }
    write_and_report(&file, &text, "removed from")
}

fn write_and_report(file: &HostSettingsFile, text: &str, what: &str) -> Result<ExitKind, CommandError> {
    if text == file.text() {
        print_result_line(format!("unchanged: {}", file.path().display()))?;
    } else {
        file.write(text)?;
        print_result_line(format!("{what} {}", file.path().display()))?;
    }
    Ok(ExitKind::Done)
}

/// Returns true if the settings disable all hooks.
fn disables_all_hooks(text: &str) -> bool {
    let settings: Option<Value> = serde_json::from_str(text).ok();
    settings.is_some_and(|settings| settings.get("disableAllHooks") == Some(&Value::Bool(true)))
}

/// Returns the path of the host's settings file for a scope.
fn settings_path(host: HostName, scope: HostSettingsScope) -> Result<PathBuf, CommandError> {
    let HostName::ClaudeCode = host;
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let here = || {
        let folder = std::env::current_dir();
        folder.map_err(|error| CommandError::usage(format!("the current folder cannot be used: {error}")))
    };
    match scope {
        HostSettingsScope::User => variable("CLAUDE_CONFIG_DIR")
            .or_else(|| variable("HOME").map(|home| home.join(".claude")))
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join("settings.json"))
            .ok_or_else(|| CommandError::usage("HOME is not set to an absolute path")),
        HostSettingsScope::Project => Ok(here()?.join(".claude/settings.json")),
        HostSettingsScope::Local => Ok(here()?.join(".claude/settings.local.json")),
    }
}

/// Returns the path of this program: the name in PATH if it resolves to this binary, because it survives an
/// upgrade, else the canonical path.
fn stable_program_path() -> Result<PathBuf, CommandError> {
    let here = std::env::current_exe().and_then(std::fs::canonicalize);
    let here = here
        .map_err(|error| CommandError::usage(format!("the path of this program cannot be found: {error}")))?;
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let named = std::env::split_paths(&folders).map(|folder| folder.join("sinew"));
    let stable = named.filter(|path| path.is_absolute()).find(|path| resolves_to(path, &here));
    Ok(stable.unwrap_or(here))
}

fn resolves_to(path: &Path, here: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|real| real == here)
}

/// Returns the handler, which the host runs without a shell. A home set by SINEW_HOME is passed as `--home`,
/// because the host may not pass on the variable.
fn handler(binary: &Path, command: &str, sinew_home: Option<&Path>) -> Value {
    let mut args = vec![json!("hook"), json!(command)];
    args.extend(sinew_home.into_iter().flat_map(|home| [json!("--home"), json!(home)]));
    let mut handler = json!({
        "type": "command",
        "command": binary,
        "args": args,
        "timeout": HOST_TIMEOUT_SECONDS,
    });
    // If the hook cannot start or is killed, the call must not run.
    if command == "pre-tool-use"
        && let Some(fields) = handler.as_object_mut()
    {
        fields.insert("onFailure".to_owned(), json!("block"));
    }
    handler
}

fn matcher_group(handler: &Value) -> Value {
    json!({"matcher": "*", "hooks": [handler]})
}

/// Returns true if a handler runs this command of `sinew`, whatever the path of the program.
fn is_sinew_handler(handler: &Value, command: &str) -> bool {
    let program = handler.get("command").and_then(Value::as_str).map(Path::new).and_then(Path::file_name);
    let words = handler.get("args").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    program.is_some_and(|name| name == "sinew") && words.starts_with(&[json!("hook"), json!(command)])
}

/// Returns the text with the handler for this event. An existing handler is updated in place and keeps its
/// matcher, which the user may have changed. Returns `None` if the settings do not have the structure of the
/// host.
fn with_handler(text: &str, event: &str, command: &str, handler: &Value) -> Option<String> {
    let root = JsonNode::parse(text)?;
    let Some(hooks) = root.member("hooks") else {
        let part = format!("\"hooks\": {:#}", json!({event: [matcher_group(handler)]}));
        return Some(json_edit::append(text, &root, &part));
    };
    require_object(text, &hooks.value)?;
    let Some(groups) = hooks.value.member(event) else {
        let part = format!("\"{event}\": {:#}", json!([matcher_group(handler)]));
        return Some(json_edit::append(text, &hooks.value, &part));
    };
    match sinew_handlers(text, &groups.value, command)?.first() {
        Some((_, _, node)) if parse_node(text, node)? == *handler => Some(text.to_owned()),
        Some((_, _, node)) => Some(json_edit::replace(text, node, &format!("{handler:#}"))),
        None => Some(json_edit::append(text, &groups.value, &format!("{:#}", matcher_group(handler)))),
    }
}

/// Returns the text without the handlers of Sinew for this event, and without containers that this leaves
/// empty.
fn without_handlers(text: &str, event: &str, command: &str) -> Option<String> {
    let root = JsonNode::parse(text)?;
    let Some(hooks) = root.member("hooks") else { return Some(text.to_owned()) };
    require_object(text, &hooks.value)?;
    let Some(groups) = hooks.value.member(event) else { return Some(text.to_owned()) };
    let found = sinew_handlers(text, &groups.value, command)?;
    let Some((group_index, handler_index, _)) = found.first() else { return Some(text.to_owned()) };
    let group = groups.value.items().get(*group_index)?;
    let handlers = &group.member("hooks")?.value;
    let index_of = |node: &JsonNode, key: &str| match &node.kind {
        json_edit::JsonContent::Object(members) => members.iter().position(|member| member.key == key),
        json_edit::JsonContent::Array(_) | json_edit::JsonContent::Scalar => None,
    };
    let alone = (handlers.items().len() == 1, groups.value.items().len() == 1, part_count(&hooks.value) == 1);
    let shorter = match alone {
        (false, _, _) => json_edit::remove(text, handlers, *handler_index),
        (true, false, _) => json_edit::remove(text, &groups.value, *group_index),
        (true, true, false) => json_edit::remove(text, &hooks.value, index_of(&hooks.value, event)?),
        (true, true, true) => json_edit::remove(text, &root, index_of(&root, "hooks")?),
    };
    // Repeat until no handler is left.
    without_handlers(&shorter, event, command)
}

fn part_count(node: &JsonNode) -> usize {
    match &node.kind {
        json_edit::JsonContent::Object(members) => members.len(),
        json_edit::JsonContent::Array(items) => items.len(),
        json_edit::JsonContent::Scalar => 0,
    }
}

/// Returns the handlers of Sinew among the groups of an event: index of the group, index in it, and the
/// handler.
fn sinew_handlers<'n>(
    text: &str,
    groups: &'n JsonNode,
    command: &str,
) -> Option<Vec<(usize, usize, &'n JsonNode)>> {
    parse_node(text, groups)?.as_array()?;
    let mut found = Vec::new();
    for (group_index, group) in groups.items().iter().enumerate() {
        let handlers = group.member("hooks").map(|member| member.value.items()).unwrap_or_default();
        for (index, handler) in handlers.iter().enumerate() {
            if is_sinew_handler(&parse_node(text, handler)?, command) {
                found.push((group_index, index, handler));
            }
        }
    }
    Some(found)
}

fn parse_node(text: &str, node: &JsonNode) -> Option<Value> {
    serde_json::from_str(text.get(node.span.clone())?).ok()
}

fn require_object(text: &str, node: &JsonNode) -> Option<()> {
    parse_node(text, node)?.is_object().then_some(())
}

fn unexpected_structure(path: &Path, event: &str) -> CommandError {
    let message =
        format!("{}: `hooks.{event}` does not have the structure that the host expects", path.display());
    CommandError::configuration(message)
        .with_hint("nothing was changed; fix the file and run the command again")
}

#[cfg(test)]
mod tests;
