//! Redaction of JSON: strings and keys as text, and every value under a name that identifies a secret.

use std::borrow::Cow;

use serde_json::{Map, Value};
use tool::escaped_json;

use super::sensitive::{Sensitivity, is_placeholder, may_name_secret, sensitivity};
use super::{DetectorId, Redactor, assignment, command_line};

const MARKER: &str = "[redacted:sensitive_key]";

/// Members that hold the name and the value in lists of pairs such as `[{"name": "Authorization", "value":
/// …}]`.
const NAME_MEMBERS: [&str; 5] = ["name", "key", "header", "field", "variable"];
const VALUE_MEMBERS: [&str; 3] = ["value", "values", "val"];

impl Redactor {
    /// Replaces every secret in a value: in strings, in keys, and under names such as `password`.
    pub fn redact_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.redact_text(text).into_owned()),
            Value::Array(items) => Value::Array(self.redact_items(items)),
            Value::Object(map) => Value::Object(self.redact_map(map)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    /// Like `redact_value`, but takes ownership, so that a value without a secret, as most are, is returned
    /// without copying.
    pub fn redact_owned(&self, value: Value) -> Value {
        if self.has_no_hint(&value) || self.is_clean(&value) { value } else { self.redact_value(&value) }
    }

    /// Replaces every secret in a JSON text, like `redact_owned`. Most texts have none, and no value is built of them.
    pub fn redact_json(&self, text: String) -> String {
        // Without an escape, every key and string is a line of its own.
        let lines = text.replace('"', "\n");
        let is_plain = !text.contains('\\') && !lines.lines().any(holds_commands);
        if is_plain && !may_name_secret(&lines) && !self.may_contain_secret(&lines) {
            return text;
        }
        let value = serde_json::from_str(&text).map_or(Value::Null, |value| self.redact_owned(value));
        let mut redacted = Vec::with_capacity(text.len());
        // A JSON value can always be serialised, and JSON is UTF-8.
        let _ = escaped_json::append(&mut redacted, &value);
        String::from_utf8(redacted).unwrap_or_default()
    }

    /// Returns true if none of the literals occurs of which every secret and every sensitive name contains
    /// one. All texts are searched at once: the facts of a call have dozens, and the call waits for their
    /// record.
    fn has_no_hint(&self, value: &Value) -> bool {
        let mut texts = String::with_capacity(1024);
        collect_texts(value, &mut texts);
        !has_commands(value) && !may_name_secret(&texts) && !self.may_contain_secret(&texts)
    }

    /// Returns true if [`Redactor::redact_value`] would leave the value unchanged. In doubt returns false.
    fn is_clean(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => matches!(self.redact_text(text), Cow::Borrowed(_)),
            Value::Array(items) => {
                let clean = |item: &Value| {
                    let is_name = item.as_str().is_some_and(|text| sensitivity(text).is_some());
                    !is_name && self.is_clean(item)
                };
                !is_credential_command(items) && items.iter().all(clean)
            }
            Value::Object(map) => {
                let named = NAME_MEMBERS.iter().any(|member| names_a_secret(map.get(*member)));
                let clean = |(key, value): (&String, &Value)| {
                    let is_plain = sensitivity(key).is_none() && !holds_commands(key);
                    is_plain && matches!(self.redact_text(key), Cow::Borrowed(_)) && self.is_clean(value)
                };
                !named && map.iter().all(clean)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => true,
        }
    }

    /// Redacts a field of a log line or span, by its name and by its text. Returns `None` if it is unchanged.
    pub(crate) fn redact_field(&self, name: &str, text: &str) -> Option<String> {
        match sensitivity(name) {
            Some(_) if text.is_empty() || is_placeholder(text) => None,
            Some(_) => Some(MARKER.to_owned()),
            None => match self.redact_text(text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(redacted) => Some(redacted),
            },
        }
    }

    fn redact_map(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let named = NAME_MEMBERS.iter().find_map(|member| sensitivity(map.get(*member)?.as_str()?));
        let mut out = Map::with_capacity(map.len());
        for (key, value) in map {
            let of_pair =
                named.filter(|_| VALUE_MEMBERS.iter().any(|member| key.eq_ignore_ascii_case(member)));
            let value = match sensitivity(key).or(of_pair) {
                Some(sensitivity) => self.mask(value, sensitivity),
                None if holds_commands(key) => command_line::redact_commands(self.redact_value(value)),
                None => self.redact_value(value),
            };
            out.insert(unused_key(&out, self.redact_text(key).into_owned()), value);
        }
        out
    }

    /// Redacts the items of a list. An item that names a secret (`--password`, `Authorization`) makes the
    /// next one secret.
    fn redact_items(&self, items: &[Value]) -> Vec<Value> {
        let mut announced = None;
        let mut out = Vec::with_capacity(items.len());
        let placed = if is_credential_command(items) { self.positional_secrets(items) } else { Vec::new() };
        for (index, item) in items.iter().enumerate() {
            out.push(match announced.take() {
                Some(sensitivity) if item.is_string() => self.mask(item, sensitivity),
                _ if placed.contains(&index) => Value::String(MARKER.to_owned()),
                _ => self.redact_value(item),
            });
            announced = item.as_str().and_then(|text| announced_sensitivity(text, items.len()));
        }
        out
    }

    /// Returns the indexes of the words that are secrets only in the context of the whole command.
    fn positional_secrets(&self, items: &[Value]) -> Vec<usize> {
        let argv: Vec<&str> = items.iter().map(|item| item.as_str().unwrap_or_default()).collect();
        let line = argv.join(" ");
        let (mut ends, mut end) = (Vec::with_capacity(argv.len()), 0);
        for word in &argv {
            end += word.len() + 1;
            ends.push(end);
        }
        let mut spans = Vec::new();
        assignment::find(&line, DetectorId::Assignment, &mut spans);
        spans.iter().map(|span| ends.partition_point(|end| *end <= span.start)).collect()
    }

    /// Masks every value below a sensitive name, whatever it looks like.
    fn mask(&self, value: &Value, sensitivity: Sensitivity) -> Value {
        match value {
            Value::String(text) if text.is_empty() || is_placeholder(text) => value.clone(),
            Value::String(_) => Value::String(MARKER.to_owned()),
            Value::Number(number) => match sensitivity {
                Sensitivity::UnlessNumber => value.clone(),
                Sensitivity::Likely if number.as_u64().is_some_and(|n| n < 100_000) => value.clone(),
                Sensitivity::Certain | Sensitivity::Likely => Value::String(MARKER.to_owned()),
            },
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.mask(item, sensitivity)).collect())
            }
            Value::Object(map) => {
                let mut out = Map::with_capacity(map.len());
                for (key, item) in map {
                    let key = unused_key(&out, self.redact_text(key).into_owned());
                    out.insert(key, self.mask(item, sensitivity));
                }
                Value::Object(out)
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }
}

/// Collects all keys and strings, one per line.
fn collect_texts(value: &Value, texts: &mut String) {
    match value {
        Value::String(text) => {
            texts.push_str(text);
            texts.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, texts)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            texts.push_str(key);
            texts.push('\n');
            collect_texts(value, texts);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns true if a value has a member with command lines, whose secrets need no literal. Decision facts have it on top.
fn has_commands(value: &Value) -> bool {
    value.as_object().is_some_and(|map| map.keys().any(|key| holds_commands(key)))
}

fn holds_commands(key: &str) -> bool {
    command_line::COMMAND_MEMBERS.contains(&key)
}

fn is_credential_command(items: &[Value]) -> bool {
    items.len() > 1 && items.first().and_then(Value::as_str).is_some_and(assignment::is_credential_program)
}

fn names_a_secret(name: Option<&Value>) -> bool {
    name.and_then(Value::as_str).is_some_and(|name| sensitivity(name).is_some())
}

/// Returns the sensitivity that an item gives to the next one: a flag, or the first of a pair. A flag with
/// `=` contains its own value.
fn announced_sensitivity(text: &str, items: usize) -> Option<Sensitivity> {
    let flag = text.starts_with('-') && !text.contains(['=', ' ']);
    let first_of_pair = items == 2 && !text.contains(char::is_whitespace);
    if flag || first_of_pair { sensitivity(text) } else { None }
}

/// Returns an unused key, so that two keys that redact to the same text do not overwrite each other.
fn unused_key(map: &Map<String, Value>, key: String) -> String {
    if !map.contains_key(&key) {
        return key;
    }
    // Starts above every number used before, so that many such keys stay cheap.
    let mut count = map.len();
    loop {
        let numbered = format!("{key}#{count}");
        if !map.contains_key(&numbered) {
            return numbered;
        }
        count += 1;
    }
}
