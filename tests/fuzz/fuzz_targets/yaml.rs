//! Strict YAML reader: a text that it accepts has one meaning, and reading it twice gives the same.

#![no_main]

use strict_yaml::Document;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Ok(document) = Document::from_text("f.yaml", text) else { return };
    let value = document.parse::<serde_json::Value>();
    if let (Ok(_), Err(error)) = (&value, document.tree_with_nulls()) {
        panic!("a value without a tree: {error}");
    }
    assert_eq!(value.is_ok(), document.parse::<serde_json::Value>().is_ok());
});
