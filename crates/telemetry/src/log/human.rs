//! Formatting of a record as one short line for a person, for `sinew serve` in the foreground and `sinew
//! logs`.

use std::borrow::Cow;
use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use tool::text::is_invisible;

/// Use of colour in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColourMode {
    /// Plain text.
    Never,
    /// Text with ANSI escape sequences.
    Ansi,
}

impl ColourMode {
    /// Returns `Ansi` only for a terminal that supports colour, unless `NO_COLOR` is set.
    pub(crate) fn for_stderr() -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        if terminal && !dumb && !set("NO_COLOR") { ColourMode::Ansi } else { ColourMode::Never }
    }

    /// Appends a text with this SGR code, if colour is enabled.
    fn paint(self, line: &mut String, code: &str, text: &str) {
        if self == ColourMode::Never {
            return line.push_str(text);
        }
        let parts = ["\x1b[", code, "m", text, "\x1b[0m"];
        parts.into_iter().for_each(|part| line.push_str(part));
    }
}

/// Members that the line already shows or that only machines need.
const OMITTED_MEMBERS: [&str; 7] = ["time", "level", "event", "message", "target", "span_id", "call_id"];

/// Formats a record, with local time, as `12:03:04.123 WARN  tool_call_blocked tool=write_file code=mode_denied …` and a
/// newline.
pub(crate) fn format_line(record: &Map<String, Value>, colour: ColourMode) -> String {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    let time = local_time(text("time")).unwrap_or_default();
    let level = text("level");
    let mut line = String::with_capacity(256);
    colour.paint(&mut line, "2", &time);
    line.push(' ');
    colour.paint(&mut line, level_colour(level), &format!("{:<5}", escape_invisible(level)));
    line.push(' ');
    let event = text("event");
    let subject = if event.is_empty() { text("target") } else { event };
    colour.paint(&mut line, "1", &escape_invisible(subject));
    let message = text("message");
    if !message.is_empty() {
        let _ = write!(line, " {}", escape_invisible(message));
    }
    for (key, value) in record.iter().filter(|(key, _)| !OMITTED_MEMBERS.contains(&key.as_str())) {
        line.push(' ');
        colour.paint(&mut line, "2", &format!("{}=", escape_invisible(key)));
        push_value(&mut line, value);
    }
    line.push('\n');
    line
}

/// Returns the time of day in the time zone of this machine.
fn local_time(time: &str) -> Option<String> {
    let time: Timestamp = time.parse().ok()?;
    Some(time.to_zoned(TimeZone::system()).strftime("%H:%M:%S%.3f").to_string())
}

fn level_colour(level: &str) -> &'static str {
    match level {
        "ERROR" => "31",
        "WARN" => "33",
        "INFO" => "32",
        _ => "2",
    }
}

fn push_value(line: &mut String, value: &Value) {
    match value {
        Value::String(text) if text.is_empty() || text.contains([' ', '"', '=', '\t', '\n']) => {
            line.push_str(&escape_invisible(&format!("{text:?}")));
        }
        Value::String(text) => line.push_str(&escape_invisible(text)),
        other => line.push_str(&escape_invisible(&other.to_string())),
    }
}

/// Escapes invisible characters as `\u{1b}`, because text of a tool or caller must not control the terminal.
fn escape_invisible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    Cow::Owned(out)
}
