//! What a host sends: one JSON object, read as strictly as anything that decides.

use std::io::Read;
use std::path::{Component, PathBuf};

use execution::Origin;
use serde_json::{Map, Value};
use tool::strict_json;

/// The most that is read: what the daemon reads of one call by default, so that the answer is the same with and without
/// one. A host's tool call is text that a model wrote; this is far beyond it.
const LARGEST: u64 = 4 * 1024 * 1024;

/// One event of a host.
pub(super) struct Event {
    fields: Map<String, Value>,
}

impl Event {
    /// Reads standard input to its end.
    pub(super) fn from_stdin() -> Result<Event, String> {
        let mut bytes = Vec::new();
        let read = std::io::stdin().lock().take(LARGEST + 1).read_to_end(&mut bytes);
        read.map_err(|error| format!("standard input cannot be read: {error}"))?;
        Event::parse(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Result<Event, String> {
        if bytes.len() as u64 > LARGEST {
            return Err(format!(
                "it has more than {LARGEST} bytes, and none larger is read: work in smaller parts"
            ));
        }
        let text = String::from_utf8(bytes).map_err(|_| "standard input is not UTF-8".to_owned())?;
        match strict_json::parse(&text) {
            Ok(Value::Object(fields)) => Ok(Event { fields }),
            Ok(_) => Err("standard input is not a JSON object".to_owned()),
            Err(error) => Err(format!("standard input is not acceptable JSON: {error}")),
        }
    }

    /// The name of the event, which must be one of these.
    pub(super) fn one_of(&self, expected: &[&'static str]) -> Result<&'static str, String> {
        let name = self.text("hook_event_name")?;
        expected.iter().copied().find(|known| *known == name).ok_or_else(|| {
            let shown = tool::shorten(&name, tool::LONGEST_WORD).escape_debug().to_string();
            format!("this hook is for {}, not for `{shown}`", expected.join(" and "))
        })
    }

    /// A text that must be there.
    pub(super) fn text(&self, key: &str) -> Result<String, String> {
        self.optional_text(key)?.ok_or_else(|| format!("`{key}` is missing"))
    }

    /// A text that may be absent. Of another type it is a mistake, and not one to guess at.
    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, String> {
        match self.fields.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(_) => Err(format!("`{key}` must be a string")),
        }
    }

    /// A value of any type.
    pub(super) fn take(&mut self, key: &str) -> Option<Value> {
        self.fields.remove(key)
    }

    /// Where the host stands.
    pub(super) fn cwd(&self) -> Result<Option<PathBuf>, String> {
        match self.optional_text("cwd")?.map(PathBuf::from) {
            Some(cwd) if cwd.is_relative() => Err("`cwd` must be an absolute path".to_owned()),
            // Behind a link that could be two folders.
            Some(cwd) if cwd.components().any(|part| part == Component::ParentDir) => {
                Err("`cwd` must not go up by `..`".to_owned())
            }
            cwd => Ok(cwd),
        }
    }

    /// By what the host finds the call again.
    pub(super) fn origin(&self) -> Result<Origin, String> {
        Ok(Origin {
            session_id: self.optional_text("session_id")?,
            tool_use_id: self.optional_text("tool_use_id")?,
            agent_id: self.optional_text("agent_id")?,
            prompt_id: self.optional_text("prompt_id")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        Event::parse(bytes.to_vec()).err().unwrap_or_else(|| panic!("{} was taken", bytes.len()))
    }

    #[test]
    fn what_could_mean_two_things_is_not_an_event() {
        let check = |bytes: &[u8], says: &str| {
            let error = refused(bytes);
            assert!(error.contains(says) && error.len() < 300, "{error}");
        };
        check(b"", "not acceptable JSON");
        check(b"[]", "not a JSON object");
        check(b"{} {}", "not acceptable JSON");
        check(br#"{"tool_name":"Read","tool_name":"Write"}"#, "duplicate key");
        check(br#"{"a":"x\u0000"}"#, "NUL");
        check(br#"{"a":"\ud800"}"#, "not acceptable JSON");
        check(b"{\"a\":\"\xff\"}", "not UTF-8");
        check("[".repeat(200).as_bytes(), "nested deeper");
        check(&vec![b' '; LARGEST as usize + 1], "more than");
    }

    #[test]
    fn fields_have_their_type_or_are_named() {
        let event = |text: &str| Event::parse(text.as_bytes().to_vec()).unwrap();
        let good =
            event(r#"{"hook_event_name":"PreToolUse","cwd":"/a","session_id":"s","prompt_id":null,"new":1}"#);
        assert_eq!(good.one_of(&["PreToolUse"]).unwrap(), "PreToolUse");
        assert_eq!(good.cwd().unwrap(), Some(PathBuf::from("/a")));
        let origin = good.origin().unwrap();
        assert_eq!((origin.session_id.as_deref(), origin.prompt_id), (Some("s"), None));
        assert!(good.one_of(&["PostToolUse"]).unwrap_err().contains("not for `PreToolUse`"));
        assert!(event(r#"{"cwd":"a"}"#).cwd().is_err());
        assert!(event(r#"{"cwd":5}"#).cwd().is_err());
        assert!(event(r#"{"cwd":"/w/link/.."}"#).cwd().is_err());
        assert!(event(r#"{"session_id":{}}"#).origin().is_err());
        assert!(event("{}").text("tool_name").unwrap_err().contains("missing"));
    }
}
