//! Compares the output with `serde_json` for all shapes and many characters, and checks the additional
//! escapes.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::*;

/// Enum with every kind of variant that `serde` has.
#[derive(Serialize)]
enum Shape {
    Unit,
    Newtype(f64),
    Tuple(u8, String),
    Struct { a: Option<i128>, b: () },
}

#[derive(Serialize)]
struct Pair(char, u128);

#[derive(Serialize)]
struct Flat {
    first: f32,
    #[serde(flatten)]
    rest: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<bool>,
}

#[track_caller]
fn check(value: &(impl Serialize + ?Sized)) {
    let mut out = b"before".to_vec();
    append(&mut out, value, Texts::Plain).unwrap();
    let expected = serde_json::to_string(value).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), format!("before{expected}"));
}

#[test]
fn every_shape_matches_serde_json() {
    check(&[Shape::Unit, Shape::Newtype(-0.5), Shape::Tuple(7, "t\"".into())]);
    check(&Shape::Struct { a: Some(i128::MIN), b: () });
    check(&(i8::MIN, i16::MIN, i32::MIN, i64::MIN, u8::MAX, u16::MAX, u32::MAX, u64::MAX, 0_u64, -1_i64));
    check(&(Pair('\n', u128::MAX), f64::NAN, f32::MAX, [0_u8; 0], Some(true)));
    check(&Flat { first: 1e-7, rest: BTreeMap::from([("é".into(), json!([{}, [], null]))]), absent: None });
    check(&BTreeMap::from([(-1, 'a'), (2, '\\')]));
    check(&BTreeMap::from([(true, ()), (false, ())]));
    check(
        &json!({"": "", "n": [0, -1, 18_446_744_073_709_551_615_u64, 1.5e300], "deep": {"a": {"b": [[["c"]]]}}}),
    );
    check(&serde_json::from_str::<Box<RawValue>>(r#" {"as" : "it stands", "n": 1.0 } "#).unwrap());
    check(&vec![serde_json::from_str::<Box<RawValue>>("\"raw\"").unwrap()]);
    let written = write(&json!({"a": "\n"})).unwrap();
    assert_eq!(written.as_str(), r#"{"a":"\n"}"#);
    check(&[&written]);
    assert_eq!(serde_json::to_value(&written).unwrap(), json!({"a": "\n"}));
    check(&Written::from(written.into_raw().unwrap()));
    let mut out = Vec::new();
    assert!(
        append(&mut out, &BTreeMap::from([(vec![1], 1)]), Texts::Plain).is_err(),
        "a list cannot be a key"
    );
}

#[test]
fn every_character_at_any_position_matches_serde_json() {
    for c in (0..=0x2100).chain([0xfeff, 0x1f980]).filter_map(char::from_u32) {
        for before in [0, 1, 31, 32, 33] {
            check(&format!("{}{c}{c}tail", "x".repeat(before)));
        }
    }
    check(&BTreeMap::from([("key\n\u{7f}", "é".repeat(100))]));
    for length in 0..140 {
        let plain = "y".repeat(length);
        check(&plain);
        for place in 0..length {
            check(&format!("{}\n{}", &plain[..place], &plain[place..]));
        }
        check(&format!("\"{plain}\\{plain}é{plain}\t"));
    }
}

#[test]
fn hidden_characters_are_escaped_in_strings_and_raw_json() {
    let texts = Texts::Visible(|c| c.is_control() || c == '\u{202e}' || c == '\u{e0041}');
    let hostile = "plain é漢🦀 \n\"\\\u{7f}\u{85}\u{202e}\u{e0041}";
    let raw = RawValue::from_string("{\"k\":\"\u{202e}é\"}".to_owned()).unwrap();
    let mut out = Vec::new();
    append(&mut out, &json!({hostile: hostile}), texts).unwrap();
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains(r#"plain é漢🦀 \n\"\\\u007f\u0085\u202e\udb40\udc41"#), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()[hostile], hostile);
    let spaced = RawValue::from_string("{\n\t\"é\": 1\r\n}".to_owned()).unwrap();
    let mut out = Vec::new();
    append(&mut out, &spaced, texts).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), spaced.get());
    let mut out = Vec::new();
    append(&mut out, &raw, texts).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), r#"{"k":"\u202eé"}"#);
}

// Field names are written without a check; the debug assertion catches one that needs an escape.
#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "is a field name that needs an escape")]
fn field_name_that_needs_an_escape_panics_in_debug() {
    #[derive(Serialize)]
    struct Odd {
        #[serde(rename = "a \"name\"")]
        name: bool,
    }
    let _ = write(&Odd { name: true });
}
