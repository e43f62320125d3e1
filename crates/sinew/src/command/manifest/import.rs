//! `sinew manifest import`: starts an MCP server in the sandbox, lists its tools, and writes a manifest with their
//! schemas. The definitions are pinned: a server that redefines a tool is noticed at the first call.
//!
//! The server is started by a call through the execution layer, so the policy of this home applies to it.

use approvals::ApprovalMode;
use connectors::{Connectors, PinStore, PinVersion, PipelineEntry};
use execution::CallRequest;
use manifest::Manifest;
use registry::ToolRegistry;
use sandbox::Sandbox;
use serde_json::{Map, Value, json};
use strict_yaml::Document;

use super::new_file;
use crate::command::call;
use crate::command_context::CommandContext;
use crate::compose::{self, TestAccess};
use crate::exit::{CommandError, ExitKind};
use crate::terminal::print_result_line;
use crate::{accepted_config, function_workers};

/// Command of the manifest that only starts the server. No server has a tool of this name, so nothing is called.
const PROBE_COMMAND: &str = "sinew-import";
/// Time limit of the start, in seconds. A first start of an interpreter can be slow.
const START_SECONDS: u64 = 60;
/// Maximum length of a description.
const MAX_DESCRIPTION_CHARS: usize = 2_000;

/// Options of an import.
pub(super) struct ImportOptions<'a> {
    pub(super) name: &'a str,
    pub(super) network: bool,
    pub(super) read_only: bool,
    pub(super) command: &'a [String],
}

pub(super) fn run(context: &CommandContext, options: &ImportOptions<'_>) -> Result<ExitKind, CommandError> {
    new_file::check_name(options.name)?;
    let definitions = list_tools(context, options)?;
    let tools: Map<String, Value> =
        serde_json::from_slice(&definitions).map_err(|error| CommandError::failed(error.to_string()))?;
    let commands = tools.iter().map(|(name, tool)| command_text(options, name, tool));
    let text = format!("{}{}", header(options), commands.collect::<String>());
    // A schema that Sinew cannot use must not be written.
    load(options.name, &text)?;
    let file = new_file::write(context, options.name, &text)?;
    let pins = accepted_config::pin_store(context.home(), PinVersion::Accepted);
    pins.accept(options.name, &definitions).map_err(|error| CommandError::failed(error.to_string()))?;
    print_result_line(format!("{} was written with {} tools:", file.display(), tools.len()))?;
    for name in tools.keys() {
        print_result_line(format!("  {}.{name}", options.name))?;
    }
    print_result_line("Review the file, then run `sinew reload --accept`.")?;
    Ok(ExitKind::Done)
}

/// Starts the server and returns the definitions of its tools.
fn list_tools(context: &CommandContext, options: &ImportOptions<'_>) -> Result<Vec<u8>, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(error);
    let probe = format!(
        "{}    - {{name: {PROBE_COMMAND}, category: read_only, risk_level: low, parameters: [], timeout_seconds: {START_SECONDS}}}\n",
        header(options)
    );
    let manifest = load(options.name, &probe)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|error| failed(&error))?;
    let _guard = runtime.enter();
    let folder =
        tempfile::Builder::new().prefix("sinew-import-").tempdir().map_err(|error| failed(&error))?;
    let settings = context.settings()?;
    let web = compose::shared_web(&settings)?;
    let mut registry = ToolRegistry::new();
    let undo = compose::undo_store(context, &settings);
    let sandbox = Sandbox::of_this_process();
    toolbox::register(&mut registry, sandbox, toolbox::Internals::of_this_process(), web, &undo)
        .map_err(|error| failed(&error))?;
    let pins = PinStore::new(folder.path().join("pins"), PinVersion::Accepted);
    let workers = function_workers::shared_workers();
    let connectors = Connectors::new(sandbox, workers, web.gateway(), &PipelineEntry::default());
    let connectors = connectors.with_pin_store(pins.clone());
    if let Some(skipped) = connectors.register(std::slice::from_ref(&manifest), &mut registry).pop() {
        return Err(CommandError::failed(skipped.reason));
    }
    let tool = format!("{}.{PROBE_COMMAND}", options.name);
    let access = TestAccess::Configured { network_for: options.network.then_some(tool.as_str()) };
    let layer = compose::test_layer(context, registry, folder.path(), access)?;
    let request = call::embedded_request(context, tool, json!({}));
    let request = CallRequest { approval_mode: ApprovalMode::Never, cwd: None, ..request };
    let result = runtime.block_on(layer.execute(request));
    let found = pins.read_all().map_err(|error| failed(&error))?.remove(options.name);
    found.ok_or_else(|| {
        let hint = result.metadata.failure.as_ref().and_then(|failure| failure.hint.clone());
        let error = CommandError::failed(
            result.error.clone().unwrap_or_else(|| "the server has no tools".to_owned()),
        );
        // Shown last, because the output of the server may be long.
        let offline = (!options.network).then(|| {
            "the server had no network; if it needs one to start, add `--network` before `--`".to_owned()
        });
        let hints: Vec<String> = hint.into_iter().chain(offline).collect();
        if hints.is_empty() { error } else { error.with_hint(hints.join("\n")) }
    })
}

fn load(name: &str, text: &str) -> Result<Manifest, CommandError> {
    let document = Document::from_text(&format!("{name}.yaml"), text).map_err(CommandError::failed)?;
    let (manifest, found) = manifest::load(&document, &|_| Ok(()));
    manifest.ok_or_else(|| {
        let text: Vec<String> = found.iter().map(ToString::to_string).collect();
        CommandError::failed(format!("no manifest can be written for this server: {}", text.join("; ")))
    })
}

/// Writes everything before the commands. JSON values are valid YAML.
fn header(options: &ImportOptions<'_>) -> String {
    let name = options.name;
    let program = options.command.first().map(String::as_str).unwrap_or_default();
    let arguments = json!(options.command.get(1..).unwrap_or_default());
    format!(
        "tool:\n  schema_version: 1.0\n  id: {name}\n  type: mcp\n  name: {name}\n  version: 1.0.0\n  description: Tools of the MCP server \
         {name}\n  mcp_specific:\n    transport: stdio\n    server_command: {}\n    server_args: {arguments}\n  commands:\n",
        json!(program)
    )
}

/// Writes the command of a tool, with the schema that the server states.
fn command_text(options: &ImportOptions<'_>, name: &str, tool: &Value) -> String {
    let description = tool.get("description").and_then(Value::as_str).unwrap_or(name);
    let description = tool::text::escape_invisible(&tool::text::shorten(description, MAX_DESCRIPTION_CHARS));
    let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let says_read_only = tool.pointer("/annotations/readOnlyHint") == Some(&Value::Bool(true));
    let category = match (options.read_only, says_read_only) {
        (true, _) => "      category: read_only\n      risk_level: low\n",
        (false, true) => {
            "      # category: read_only    # the server says so; if you add it, the sandbox enforces it\n"
        }
        (false, false) => "",
    };
    format!(
        "    - name: {}\n      description: {}\n{category}      input_schema: {}\n",
        json!(name),
        json!(description),
        plain_schema(schema, ImportPosition::Root)
    )
}

/// Position in the schema of a tool's arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ImportPosition {
    Root,
    /// Among the names of the arguments.
    Names,
    Argument,
    /// Items of an argument that is a list.
    Items,
    Below,
}

impl ImportPosition {
    fn child(self, key: &str) -> ImportPosition {
        match (self, key) {
            (ImportPosition::Root, "properties") => ImportPosition::Names,
            (ImportPosition::Names, _) => ImportPosition::Argument,
            (ImportPosition::Argument, "items") => ImportPosition::Items,
            _ => ImportPosition::Below,
        }
    }

    /// Returns true if a member stays. Governance judges a `format` of an argument and of its items;
    /// elsewhere it has no effect. Only the operator sets keywords of Sinew, not the server.
    fn keeps(self, key: &str) -> bool {
        match self {
            ImportPosition::Names => true,
            ImportPosition::Argument | ImportPosition::Items => !key.starts_with("x-sinew-"),
            ImportPosition::Root | ImportPosition::Below => {
                key != "$schema" && key != "format" && !key.starts_with("x-sinew-")
            }
        }
    }
}

/// Removes what Sinew gives a meaning of its own, and null, which manifests do not have.
fn plain_schema(schema: Value, at: ImportPosition) -> Value {
    match schema {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(key, value)| at.keeps(key) && !value.is_null());
            let members = members.map(|(key, value)| {
                let below = at.child(&key);
                (key, plain_schema(value, below))
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => {
            let items = items.into_iter().filter(|item| !item.is_null());
            items.map(|item| plain_schema(item, ImportPosition::Below)).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_keeps_judged_formats_and_no_own_keyword() {
        let stated = json!({"$schema": "x", "format": "y", "properties": {
            "urls": {"type": "array", "items": {"type": "string", "format": "uri"}},
            "format": {"type": "string"},
            "deep": {"type": "object", "properties": {"at": {"format": "uri"}}},
            "argv": {"format": "command", "x-sinew-command-prefix": ["git", "status"], "default": null},
        }});
        let expected = json!({"properties": {
            "urls": {"type": "array", "items": {"type": "string", "format": "uri"}},
            "format": {"type": "string"},
            "deep": {"type": "object", "properties": {"at": {}}},
            "argv": {"format": "command"},
        }});
        assert_eq!(plain_schema(stated, ImportPosition::Root), expected);
    }
}
