//! Settings of each host: where they are, and the handlers that Sinew adds to them.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::HOST_TIMEOUT_SECONDS;
use super::handlers::{HandlerList, HostHandler};
use crate::cli::{HostName, HostSettingsScope};
use crate::exit::CommandError;

/// Command that decides about a call. The others only comment on a result.
const DECIDING: &str = "pre-tool-use";
const REVIEWING: &str = "post-tool-use";

/// Returns the path of the host's settings file for a scope.
pub(super) fn path(host: HostName, scope: HostSettingsScope) -> Result<PathBuf, CommandError> {
    let here = std::env::current_dir()
        .map_err(|error| CommandError::usage(format!("the current folder cannot be used: {error}")))?;
    path_in(host, scope, &here)
}

/// Like `path`, for a project in this folder.
pub(super) fn path_in(
    host: HostName,
    scope: HostSettingsScope,
    project: &Path,
) -> Result<PathBuf, CommandError> {
    let (folder, file, variable) = match host {
        HostName::ClaudeCode => (".claude", "settings.json", Some("CLAUDE_CONFIG_DIR")),
        HostName::Codex => (".codex", "hooks.json", Some("CODEX_HOME")),
        HostName::GeminiCli => (".gemini", "settings.json", None),
        HostName::Cursor => (".cursor", "hooks.json", None),
    };
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    match (scope, host) {
        (HostSettingsScope::User, _) => variable
            .and_then(value)
            .or_else(|| value("HOME").map(|home| home.join(folder)))
            .filter(|folder| folder.is_absolute())
            .map(|folder| folder.join(file))
            .ok_or_else(|| CommandError::usage("HOME is not set to an absolute path")),
        (HostSettingsScope::Project, _) => Ok(project.join(folder).join(file)),
        (HostSettingsScope::Local, HostName::ClaudeCode) => Ok(project.join(".claude/settings.local.json")),
        (HostSettingsScope::Local, _) => {
            let problem =
                CommandError::usage(format!("{} has no local settings of a project", host.as_str()));
            Err(problem.with_hint("use --scope user or --scope project"))
        }
    }
}

/// Returns the settings of a host that has none.
pub(super) fn empty(host: HostName) -> &'static str {
    match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => "{}\n",
        HostName::Cursor => "{\n  \"version\": 1\n}\n",
    }
}

/// Returns the step that the user must take if the host does not run a new hook by itself.
pub(super) fn note(host: HostName) -> Option<&'static str> {
    match host {
        HostName::Codex => {
            Some("Codex runs a new or changed hook only after you have trusted it: run `codex`, then /hooks")
        }
        HostName::ClaudeCode | HostName::GeminiCli | HostName::Cursor => None,
    }
}

/// Returns the handlers of Sinew for a host.
pub(super) fn handlers(host: HostName, binary: &Path, sinew_home: Option<&Path>) -> Vec<HostHandler> {
    let events: &[(&str, &str)] = match host {
        HostName::ClaudeCode => {
            &[("PreToolUse", DECIDING), ("PostToolUse", REVIEWING), ("PostToolUseFailure", REVIEWING)]
        }
        HostName::Codex => &[("PreToolUse", DECIDING), ("PostToolUse", REVIEWING)],
        HostName::GeminiCli => &[("BeforeTool", DECIDING), ("AfterTool", REVIEWING)],
        HostName::Cursor => {
            &[("preToolUse", DECIDING), ("postToolUse", REVIEWING), ("postToolUseFailure", REVIEWING)]
        }
    };
    let list = match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => HandlerList::Grouped,
        HostName::Cursor => HandlerList::Flat,
    };
    let handler = |(event, command): &(&'static str, &'static str)| {
        let words = words(host, command, sinew_home);
        let value = value(host, command, binary, &words);
        HostHandler { event, command, list, value }
    };
    events.iter().map(handler).collect()
}

/// Returns settings with nothing but these handlers.
pub(super) fn new_settings(host: HostName, handlers: &[HostHandler]) -> Value {
    let events: Map<String, Value> =
        handlers.iter().map(|handler| (handler.event.to_owned(), json!([handler.entry()]))).collect();
    match host {
        HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => json!({"hooks": events}),
        HostName::Cursor => json!({"version": 1, "hooks": events}),
    }
}

/// Returns the arguments of the program. A home set by SINEW_HOME is passed as `--home`, because the host may not
/// pass on the variable.
fn words(host: HostName, command: &str, sinew_home: Option<&Path>) -> Vec<String> {
    let mut words = vec!["hook".to_owned(), command.to_owned()];
    if host != HostName::ClaudeCode {
        words.extend(["--host".to_owned(), host.as_str().to_owned()]);
    }
    let home = sinew_home.map(|home| home.to_string_lossy().into_owned());
    words.extend(home.into_iter().flat_map(|home| ["--home".to_owned(), home]));
    words
}

/// Returns the handler as the host reads it. If the hook cannot start or is killed, the call must not run, as far
/// as the host offers that.
fn value(host: HostName, command: &str, binary: &Path, words: &[String]) -> Value {
    let decides = command == DECIDING;
    let mut value = match host {
        // Runs without a shell.
        HostName::ClaudeCode => {
            json!({"type": "command", "command": binary, "args": words, "timeout": HOST_TIMEOUT_SECONDS})
        }
        HostName::Codex => {
            json!({"type": "command", "command": shell_line(binary, words, decides), "timeout": HOST_TIMEOUT_SECONDS})
        }
        HostName::GeminiCli => json!({"name": "sinew", "type": "command",
            "command": shell_line(binary, words, decides), "timeout": HOST_TIMEOUT_SECONDS * 1000}),
        HostName::Cursor => {
            json!({"command": shell_line(binary, words, decides), "timeout": HOST_TIMEOUT_SECONDS})
        }
    };
    let fail_closed = match host {
        HostName::ClaudeCode => Some(("onFailure", json!("block"))),
        HostName::Cursor => Some(("failClosed", json!(true))),
        HostName::Codex | HostName::GeminiCli => None,
    };
    if let (Some((key, word)), Some(fields)) = (fail_closed.filter(|_| decides), value.as_object_mut()) {
        fields.insert(key.to_owned(), word);
    }
    value
}

/// Returns a line for the host's shell. These hosts run a call if its hook cannot start or dies; exit code 2 with a
/// message blocks it.
fn shell_line(binary: &Path, words: &[String], decides: bool) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let mut line = quoted(&binary.to_string_lossy());
    for word in words {
        let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        line.push(' ');
        line.push_str(&if is_plain { word.clone() } else { quoted(word) });
    }
    if decides {
        line.push_str(" || sh -c 'echo Sinew could not judge this call >&2; exit 2'");
    }
    line
}
