//! Adds and removes the handlers of Sinew in the text of a host's settings.

use std::path::Path;

use serde_json::{Value, json};

use crate::command::hook::json_edit::{self, JsonContent, JsonNode};

/// Handler of Sinew for an event of a host.
pub(super) struct HostHandler {
    pub(super) event: &'static str,
    /// Hook command that it runs.
    pub(super) command: &'static str,
    pub(super) list: HandlerList,
    pub(super) value: Value,
}

/// Structure of the handlers of an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlerList {
    /// Groups with a matcher, each with a list of handlers.
    Grouped,
    /// List of handlers.
    Flat,
}

impl HostHandler {
    /// Returns the entry of the event's list.
    pub(super) fn entry(&self) -> Value {
        match self.list {
            HandlerList::Grouped => json!({"matcher": "*", "hooks": [self.value]}),
            HandlerList::Flat => self.value.clone(),
        }
    }

    /// Returns true if a handler runs the same command of `sinew`, whatever the path of the program.
    fn is_same(&self, handler: &Value) -> bool {
        let Some(program) = handler.get("command").and_then(Value::as_str) else { return false };
        let is_sinew = |path: &str| Path::new(path).file_name().is_some_and(|name| name == "sinew");
        match handler.get("args").and_then(Value::as_array) {
            Some(words) => is_sinew(program) && words.starts_with(&[json!("hook"), json!(self.command)]),
            // A line for a shell: the program in single quotes, and its words.
            None => program
                .strip_prefix('\'')
                .and_then(|line| line.split_once("' hook "))
                .is_some_and(|(path, words)| is_sinew(path) && words.split(' ').next() == Some(self.command)),
        }
    }
}

/// Returns the text with the handler for this event. An existing handler is updated in place and keeps its
/// matcher, which the user may have changed. Returns `None` if the settings do not have the structure of the
/// host.
pub(super) fn with_handler(text: &str, handler: &HostHandler) -> Option<String> {
    let event = handler.event;
    let root = JsonNode::parse(text)?;
    let Some(hooks) = root.member("hooks") else {
        let part = format!("\"hooks\": {:#}", json!({event: [handler.entry()]}));
        return Some(json_edit::append(text, &root, &part));
    };
    require_object(text, &hooks.value)?;
    let Some(groups) = hooks.value.member(event) else {
        let part = format!("\"{event}\": {:#}", json!([handler.entry()]));
        return Some(json_edit::append(text, &hooks.value, &part));
    };
    match sinew_handlers(text, &groups.value, handler)?.first() {
        Some((_, _, node)) if parse_node(text, node)? == handler.value => Some(text.to_owned()),
        Some((_, _, node)) => Some(json_edit::replace(text, node, &format!("{:#}", handler.value))),
        None => Some(json_edit::append(text, &groups.value, &format!("{:#}", handler.entry()))),
    }
}

/// Returns the text without the handlers of Sinew for this event, and without containers that this leaves
/// empty.
pub(super) fn without_handlers(text: &str, handler: &HostHandler) -> Option<String> {
    let root = JsonNode::parse(text)?;
    let Some(hooks) = root.member("hooks") else { return Some(text.to_owned()) };
    require_object(text, &hooks.value)?;
    let Some(groups) = hooks.value.member(handler.event) else { return Some(text.to_owned()) };
    let found = sinew_handlers(text, &groups.value, handler)?;
    let Some((group_index, handler_index, _)) = found.first() else { return Some(text.to_owned()) };
    let index_of = |node: &JsonNode, key: &str| match &node.kind {
        JsonContent::Object(members) => members.iter().position(|member| member.key == key),
        JsonContent::Array(_) | JsonContent::Scalar => None,
    };
    let group = groups.value.items().get(*group_index)?;
    let siblings =
        group.member("hooks").filter(|_| handler.list == HandlerList::Grouped).map(|hooks| &hooks.value);
    let shorter = match siblings {
        Some(siblings) if siblings.items().len() > 1 => json_edit::remove(text, siblings, *handler_index),
        _ if groups.value.items().len() > 1 => json_edit::remove(text, &groups.value, *group_index),
        _ if part_count(&hooks.value) > 1 => {
            json_edit::remove(text, &hooks.value, index_of(&hooks.value, handler.event)?)
        }
        _ => json_edit::remove(text, &root, index_of(&root, "hooks")?),
    };
    // Repeat until no handler is left.
    without_handlers(&shorter, handler)
}

fn part_count(node: &JsonNode) -> usize {
    match &node.kind {
        JsonContent::Object(members) => members.len(),
        JsonContent::Array(items) => items.len(),
        JsonContent::Scalar => 0,
    }
}

/// Returns the handlers of Sinew among the entries of an event: index of the entry, index in its group, and the
/// handler.
fn sinew_handlers<'n>(
    text: &str,
    groups: &'n JsonNode,
    ours: &HostHandler,
) -> Option<Vec<(usize, usize, &'n JsonNode)>> {
    parse_node(text, groups)?.as_array()?;
    let mut found = Vec::new();
    for (group_index, group) in groups.items().iter().enumerate() {
        let handlers = match ours.list {
            HandlerList::Grouped => {
                group.member("hooks").map(|member| member.value.items()).unwrap_or_default()
            }
            HandlerList::Flat => std::slice::from_ref(group),
        };
        for (index, handler) in handlers.iter().enumerate() {
            if ours.is_same(&parse_node(text, handler)?) {
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
