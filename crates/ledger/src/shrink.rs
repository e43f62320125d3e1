//! Shortening of entries that are too long for one line. Nothing is dropped silently. Pure.
//!
//! Long texts and lists keep their start, with tighter limits per round until the entry fits. The `cut` field
//! then contains the length and the keyed digest of the original entry.

use serde_json::{Map, Value, json};

use crate::{LedgerError, key::LedgerKey};

/// Maximum length of an entry that is stored unshortened, in bytes.
pub(crate) const MAX_ENTRY_BYTES: usize = 128 * 1024;

/// Limits per round: characters of a text, members of a list or object, and nesting levels.
const SHRINK_ROUNDS: [(usize, usize, usize); 4] = [(4096, 128, 12), (1024, 32, 8), (256, 12, 5), (64, 12, 3)];

/// Shortens an entry to at most [`MAX_ENTRY_BYTES`] bytes.
pub(crate) fn shrink(entry: &[u8], key: &LedgerKey) -> Result<Value, LedgerError> {
    let encode = |error: serde_json::Error| LedgerError::Encode(error.to_string());
    let whole: Value = serde_json::from_slice(entry).map_err(encode)?;
    let note = json!({"bytes": entry.len(), "digest": key.digest(entry).to_string()});
    for (text, members, levels) in SHRINK_ROUNDS {
        let Value::Object(mut shorter) = shorten(&whole, text, members, levels, TopLevel::Yes) else { break };
        shorter.insert("cut".to_owned(), note.clone());
        let shorter = Value::Object(shorter);
        if shorter.to_string().len() <= MAX_ENTRY_BYTES {
            return Ok(shorter);
        }
    }
    Err(LedgerError::Encode(format!("an entry of {} bytes cannot be made shorter", entry.len())))
}

/// Marks the entry itself, whose few fields are defined by this crate and are all kept.
#[derive(Clone, Copy, PartialEq)]
enum TopLevel {
    Yes,
    No,
}

fn shorten(value: &Value, text: usize, members: usize, levels: usize, top: TopLevel) -> Value {
    let inner = |value: &Value| shorten(value, text, members, levels.saturating_sub(1), TopLevel::No);
    match value {
        Value::String(whole) => Value::String(truncate_text(whole, text)),
        Value::Array(items) if levels > 0 => items.iter().take(members).map(inner).collect(),
        Value::Object(map) if levels > 0 => {
            let members = if top == TopLevel::Yes { map.len() } else { members };
            let retained =
                map.iter().take(members).map(|(name, value)| (truncate_text(name, text), inner(value)));
            Value::Object(retained.collect::<Map<_, _>>())
        }
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn truncate_text(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::EntryBody;

    fn check(entry: &Value) -> Value {
        let key = LedgerKey::derive(&[1; 32]).unwrap();
        let whole = entry.to_string();
        let short = shrink(whole.as_bytes(), &key).unwrap();
        assert!(short.to_string().len() <= MAX_ENTRY_BYTES);
        assert_eq!(short["cut"]["bytes"], whole.len());
        assert_eq!(short["cut"]["digest"], key.digest(whole.as_bytes()).to_string());
        assert_eq!(short["kind"], "note");
        assert!(EntryBody::from_json(&short, &key).is_ok());
        short
    }

    #[test]
    fn long_entries_are_shortened_and_marked() {
        let long = "é".repeat(100_000);
        assert_eq!(check(&json!({"kind": "note", "text": long}))["text"], "é".repeat(4096) + "…");
        let many: Vec<Value> = (0..20_000).map(|n| json!({"path": format!("/tmp/{n}")})).collect();
        assert_eq!(check(&json!({"kind": "note", "list": many}))["list"].as_array().unwrap().len(), 128);
        let wide: Map<String, Value> = (0..20_000).map(|n| (format!("key {n}"), json!(long.len()))).collect();
        check(&json!({"kind": "note", "facts": wide, "after": 1}));
        let mut deep = json!(["x".repeat(4000)]);
        for _ in 0..100 {
            deep = json!([deep, "y".repeat(4000)]);
        }
        check(&json!({"kind": "note", "facts": deep}));
        let mut bushy = json!("z".repeat(60));
        for _ in 0..4 {
            bushy = json!(vec![bushy; 13]);
        }
        assert_eq!(check(&json!({"kind": "note", "facts": bushy, "after": 1}))["after"], 1);
    }
}
