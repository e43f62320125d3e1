//! Strict JSON parser: accepts only texts that serde_json reads as the same value, and never counts too few.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(value) = tool::strict_json::parse(text) else { return };
    let usual: serde_json::Value = serde_json::from_str(text).expect("serde_json accepts more");
    assert_eq!(value, usual);
    assert!(tool::strict_json::count_values(text.as_bytes()) >= values(&value));
});

/// Number of values in a tree.
fn values(value: &serde_json::Value) -> usize {
    match value {
        serde_json::Value::Array(items) => 1 + items.iter().map(values).sum::<usize>(),
        serde_json::Value::Object(members) => 1 + members.values().map(values).sum::<usize>(),
        _ => 1,
    }
}
