//! Event sent by a host: one JSON object, parsed strictly because a decision depends on it.

use std::io::Read;
use std::path::{Component, PathBuf};

use execution::host::HostCallOrigin;
use serde_json::{Map, Value};
use tool::strict_json;

use crate::cli::HostName;

/// Maximum size of an event. It equals the daemon's default limit for one call, so that the verdict is the
/// same with and without a daemon. Tool calls written by a model are far smaller.
const MAX_EVENT_BYTES: u64 = 4 * 1024 * 1024;

/// Parsed event of a host.
pub(super) struct HostEvent {
    host: HostName,
    fields: Map<String, Value>,
}

impl HostName {
    /// Returns the event before a tool is used.
    pub(super) fn event_before(self) -> &'static str {
        match self {
            HostName::ClaudeCode | HostName::Codex => "PreToolUse",
            HostName::GeminiCli => "BeforeTool",
            HostName::Cursor => "preToolUse",
        }
    }

    /// Returns the event after a tool was used.
    pub(super) fn event_after(self) -> &'static str {
        match self {
            HostName::ClaudeCode | HostName::Codex => "PostToolUse",
            HostName::GeminiCli => "AfterTool",
            HostName::Cursor => "postToolUse",
        }
    }

    /// Returns the event after a tool has failed, if the host has one, and its field with the error.
    pub(super) fn event_after_failure(self) -> Option<(&'static str, &'static str)> {
        match self {
            HostName::ClaudeCode => Some(("PostToolUseFailure", "error")),
            HostName::Cursor => Some(("postToolUseFailure", "error_message")),
            HostName::Codex | HostName::GeminiCli => None,
        }
    }

    /// Returns the field with the result of a tool.
    pub(super) fn result_field(self) -> &'static str {
        match self {
            HostName::ClaudeCode | HostName::Codex | HostName::GeminiCli => "tool_response",
            HostName::Cursor => "tool_output",
        }
    }
}

impl HostEvent {
    /// Reads an event from standard input, up to its end.
    pub(super) fn from_stdin(host: HostName) -> Result<HostEvent, String> {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(MAX_EVENT_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("standard input cannot be read: {error}"))?;
        HostEvent::parse(host, bytes)
    }

    fn parse(host: HostName, bytes: Vec<u8>) -> Result<HostEvent, String> {
        if bytes.len() as u64 > MAX_EVENT_BYTES {
            return Err(format!(
                "the input has more than {MAX_EVENT_BYTES} bytes, the maximum: split the work into smaller parts"
            ));
        }
        let text = String::from_utf8(bytes).map_err(|_| "standard input is not UTF-8".to_owned())?;
        match strict_json::parse(&text) {
            Ok(Value::Object(fields)) => Ok(HostEvent { host, fields }),
            Ok(_) => Err("standard input is not a JSON object".to_owned()),
            Err(error) => Err(format!("standard input is not acceptable JSON: {error}")),
        }
    }

    /// Returns the name of the event, which must be one of `expected`.
    pub(super) fn expect_name(&self, expected: &[&'static str]) -> Result<&'static str, String> {
        let name = self.required_text("hook_event_name")?;
        expected.iter().copied().find(|known| *known == name).ok_or_else(|| {
            let shown = tool::text::shorten(&name, tool::text::MAX_QUOTED_CHARS).escape_debug().to_string();
            format!("this hook is for {}, not for `{shown}`", expected.join(" and "))
        })
    }

    /// Returns a required string.
    pub(super) fn required_text(&self, key: &str) -> Result<String, String> {
        self.optional_text(key)?.ok_or_else(|| format!("`{key}` is missing"))
    }

    /// Returns an optional string. A value of another type is an error.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, String> {
        match self.fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` must be a string")),
        }
    }

    /// Removes a value of any type and returns it.
    pub(super) fn take_field(&mut self, key: &str) -> Option<Value> {
        self.fields.remove(key)
    }

    /// Returns the working directory of the host.
    pub(super) fn cwd(&self) -> Result<Option<PathBuf>, String> {
        let stated = self.optional_text("cwd")?.map(PathBuf::from);
        let stated = match (self.host, stated) {
            (HostName::Cursor, cwd) => cwd.filter(|cwd| !cwd.as_os_str().is_empty()).or(self.only_root()?),
            (_, cwd) => cwd,
        };
        match stated {
            Some(cwd) if cwd.is_relative() => Err("`cwd` must be an absolute path".to_owned()),
            // With a symbolic link in the path, `..` is ambiguous.
            Some(cwd) if cwd.components().any(|part| part == Component::ParentDir) => {
                Err("`cwd` must not go up by `..`".to_owned())
            }
            cwd => Ok(cwd),
        }
    }

    /// Returns the folder that relative paths of Cursor start in if it names no working directory: its only
    /// workspace. With several, relative paths are ambiguous and start in `/`, where no workspace is.
    fn only_root(&self) -> Result<Option<PathBuf>, String> {
        match self.fields.get("workspace_roots").and_then(Value::as_array).map(Vec::as_slice) {
            None | Some([]) => Ok(None),
            Some([Value::String(root)]) => Ok(Some(PathBuf::from(root))),
            Some([_]) => Err("`workspace_roots` must contain strings".to_owned()),
            Some(_) => Ok(Some(PathBuf::from("/"))),
        }
    }

    /// Returns the ids by which the host identifies the call.
    pub(super) fn origin(&self) -> Result<HostCallOrigin, String> {
        let prompt = match self.host {
            HostName::ClaudeCode | HostName::GeminiCli => "prompt_id",
            HostName::Codex => "turn_id",
            HostName::Cursor => "generation_id",
        };
        let session = match self.host {
            HostName::ClaudeCode | HostName::GeminiCli | HostName::Codex => "session_id",
            HostName::Cursor => "conversation_id",
        };
        Ok(HostCallOrigin {
            session_id: self.optional_text(session)?,
            tool_use_id: self.optional_text("tool_use_id")?,
            agent_id: self.optional_text("agent_id")?,
            prompt_id: self.optional_text(prompt)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_error(bytes: &[u8]) -> String {
        HostEvent::parse(HostName::ClaudeCode, bytes.to_vec())
            .err()
            .unwrap_or_else(|| panic!("{} bytes were accepted", bytes.len()))
    }

    #[test]
    fn ambiguous_or_malformed_input_is_refused() {
        let check = |bytes: &[u8], message: &str| {
            let error = parse_error(bytes);
            assert!(error.contains(message) && error.len() < 300, "{error}");
        };
        check(b"", "not acceptable JSON");
        check(b"[]", "not a JSON object");
        check(b"{} {}", "not acceptable JSON");
        check(br#"{"tool_name":"Read","tool_name":"Write"}"#, "duplicate key");
        check(br#"{"a":"x\u0000"}"#, "NUL");
        check(br#"{"a":"\ud800"}"#, "not acceptable JSON");
        check(b"{\"a\":\"\xff\"}", "not UTF-8");
        check("[".repeat(200).as_bytes(), "nested deeper");
        check(&vec![b' '; MAX_EVENT_BYTES as usize + 1], "more than");
    }

    #[test]
    fn fields_of_wrong_type_are_refused_by_name() {
        let event = |text: &str| HostEvent::parse(HostName::ClaudeCode, text.as_bytes().to_vec()).unwrap();
        let good =
            event(r#"{"hook_event_name":"PreToolUse","cwd":"/a","session_id":"s","prompt_id":null,"new":1}"#);
        assert_eq!(good.expect_name(&["PreToolUse"]).unwrap(), "PreToolUse");
        assert_eq!(good.cwd().unwrap(), Some(PathBuf::from("/a")));
        let origin = good.origin().unwrap();
        assert_eq!((origin.session_id.as_deref(), origin.prompt_id), (Some("s"), None));
        assert!(good.expect_name(&["PostToolUse"]).unwrap_err().contains("not for `PreToolUse`"));
        assert!(event(r#"{"cwd":"a"}"#).cwd().is_err());
        assert!(event(r#"{"cwd":5}"#).cwd().is_err());
        assert!(event(r#"{"cwd":"/w/link/.."}"#).cwd().is_err());
        assert!(event(r#"{"session_id":{}}"#).origin().is_err());
        assert!(event("{}").required_text("tool_name").unwrap_err().contains("missing"));
    }

    #[test]
    fn working_directory_of_cursor_is_its_only_workspace() {
        let cwd = |text: &str| HostEvent::parse(HostName::Cursor, text.as_bytes().to_vec()).unwrap().cwd();
        assert_eq!(cwd(r#"{"cwd":"/a","workspace_roots":["/b"]}"#), Ok(Some(PathBuf::from("/a"))));
        assert_eq!(cwd(r#"{"cwd":"","workspace_roots":["/b"]}"#), Ok(Some(PathBuf::from("/b"))));
        assert_eq!(cwd(r#"{"cwd":"","workspace_roots":["/b","/c"]}"#), Ok(Some(PathBuf::from("/"))));
        assert_eq!(cwd(r#"{"workspace_roots":[]}"#), Ok(None));
        assert!(cwd(r#"{"cwd":"","workspace_roots":["b"]}"#).is_err());
        assert!(cwd(r#"{"workspace_roots":[5]}"#).is_err());
    }
}
