//! Refusals of malformed calls, case by case.

use serde_json::json;
use tool::{Category, RefusalCode, RiskLevel, ToolSpec};

use super::*;
use crate::argument_problems::MAX_LISTED_PROBLEMS;

fn definition() -> Arc<ToolDefinition> {
    let mut spec = ToolSpec::new("write_file", "Write", Category::SYSTEM_WRITE, RiskLevel::High);
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": false,
        "required": ["path", "content"], "properties": {
            "path": {"type": "string", "format": "path", "minLength": 1},
            "content": {"type": "string"},
            "mode": {"enum": ["create", "overwrite"], "default": "overwrite"},
            "tags": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}));
    Arc::new(spec.check().unwrap())
}

fn run(arguments: Value) -> Result<ValidCall, Box<Refusal>> {
    let definition = definition();
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    check(&definition, &schema, arguments)
}

#[test]
fn valid_call_gets_its_defaults() {
    let call = run(json!({"path": "a", "content": ""})).unwrap();
    assert_eq!(call.arguments()["mode"], "overwrite");
    let call = run(json!({"path": "a", "content": "", "mode": "create"})).unwrap();
    assert_eq!(call.arguments()["mode"], "create");
}

#[test]
fn null_default_is_not_filled_in() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema =
        Some(json!({"type": "object", "properties": {"sha": {"type": "string", "default": null}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let call = check(&definition, &schema, json!({})).unwrap();
    assert!(call.arguments().is_empty(), "{:?}", call.arguments());
}

#[test]
fn problem_names_pointer_type_and_alternatives() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": false, "minProperties": 1,
        "required": ["text", "number"], "properties": {
            "text": {"type": "string"}, "number": {"type": "integer"},
            "inner": {"type": "object", "required": ["number"], "additionalProperties": false}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let check = |arguments: Value, expect: &[(&str, &str, &str)]| {
        let refusal = check(&definition, &schema, arguments).unwrap_err();
        let found: Vec<_> = refusal
            .problems
            .iter()
            .map(|p| (p.pointer.as_str(), p.expected.as_str(), p.message.as_str()))
            .collect();
        assert_eq!(found, expect);
    };
    check(
        json!({}),
        &[
            ("/text", "string", "`text` is required"),
            ("/number", "integer", "`number` is required"),
            (
                "",
                "valid under `minProperties`",
                "the arguments must be valid under `minProperties`, not object",
            ),
        ],
    );
    check(
        json!({"text": "", "number": 1, "inner": {"colour": 1}, "colour": 1}),
        &[
            ("/inner/number", "a value", "`number` is required"),
            ("/inner/colour", "no such argument", "`colour` is not an argument of t"),
            ("/colour", "no such argument", "`colour` is not an argument of t; it takes text, number, inner"),
        ],
    );
}

#[test]
fn every_problem_is_reported_with_its_pointer() {
    let refusal = run(json!({"path": 7, "contnet": "secret words", "tags": [1, -2, "x"]})).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.detail.as_deref()),
        (RefusalCode::InvalidArguments, Some("missing_field"))
    );
    let mut found: Vec<_> =
        refusal.problems.iter().map(|p| (p.pointer.as_str(), p.expected.as_str(), p.got.as_str())).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("/content", "string", "nothing"),
            ("/contnet", "no such argument", "an unknown argument"),
            ("/path", "string", "number"),
            ("/tags/1", "at least 0", "number"),
            ("/tags/2", "integer", "string"),
        ]
    );
    let text = serde_json::to_string(&refusal).unwrap();
    assert!(text.contains("did you mean `content`"), "{text}");
    assert!(!text.contains("secret words"), "a value must not be repeated: {text}");
    assert!(refusal.schema_error.is_some());
}

#[test]
fn refusal_reason_has_the_documented_form() {
    let refusal = run(json!({"path": "a"})).unwrap_err();
    assert_eq!(
        refusal.reason,
        "⚠️ Invalid write_file call. Missing required fields: content. Example: {\"path\":\"notes.txt\",\"content\":\"…\"}"
    );
}

#[test]
fn no_missing_fields_are_reported_if_none_is_missing() {
    let refusal = run(json!({"path": "", "content": "b"})).unwrap_err();
    assert_eq!(
        refusal.reason,
        "⚠️ Invalid write_file call. /path must be at least 1 characters long, not 0 characters. \
         Example: {\"path\":\"notes.txt\",\"content\":\"…\"}"
    );
    assert_eq!(refusal.detail.as_deref(), Some("invalid_value"));
}

#[test]
fn non_object_lacks_every_required_field() {
    for wrong in [json!([]), json!("x"), json!(3), json!(true)] {
        let refusal = run(wrong.clone()).unwrap_err();
        assert!(
            refusal.reason.contains("Missing required fields: path, content."),
            "{wrong}: {}",
            refusal.reason
        );
    }
    let refusal = run(Value::Null).unwrap_err();
    assert_eq!(refusal.problems.len(), 2, "null is an empty object");
}

#[test]
fn problem_list_is_bounded() {
    let many: Arguments = (0..1000).map(|n| (format!("k{n}"), json!(1))).collect();
    let refusal = run(Value::Object(many)).unwrap_err();
    assert_eq!(refusal.problems.len(), MAX_LISTED_PROBLEMS);
    assert_eq!(refusal.detail.as_deref(), Some("missing_field"));
    assert!(refusal.hint.as_ref().unwrap().contains("1002 problems"), "all are counted: {:?}", refusal.hint);
    assert!(refusal.reason.len() < 4096, "{}", refusal.reason.len());
    let one_more: Arguments = (0..=MAX_LISTED_PROBLEMS - 2).map(|n| (format!("k{n}"), json!(1))).collect();
    let refusal = run(Value::Object(one_more)).unwrap_err();
    assert!(refusal.reason.contains(" And 1 problem more."), "{}", refusal.reason);
}

#[test]
fn missing_fields_come_first() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    let item = json!({"type": "object", "required": ["a"]});
    spec.input_schema =
        Some(json!({"type": "object", "properties": {"list": {"type": "array", "items": item}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let list: Vec<Value> = std::iter::repeat_n(json!("x"), 50).chain([json!({})]).collect();
    let refusal = check(&definition, &schema, json!({"list": list})).unwrap_err();
    assert_eq!(refusal.problems[0].pointer, "/list/50/a");
    assert_eq!(refusal.detail.as_deref(), Some("missing_field"));
    assert!(refusal.reason.contains("Missing required fields: list/50/a."), "{}", refusal.reason);
}

#[test]
fn huge_text_is_not_repeated() {
    let huge = |c: char| c.to_string().repeat((3 << 20) / c.len_utf8());
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {
        "lists": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "integer"}}},
        "need": {"type": "object", "required": ["r".repeat(1 << 16)]},
        "choice": {"enum": ["e".repeat(1 << 16)]},
        "text": {"type": "string", "pattern": format!("^{}$", "p".repeat(1 << 14))}}});
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(schema);
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let many: Arguments = (0..64).map(|n| (format!("{n}{}", "\u{1}".repeat(40_000)), json!(1))).collect();
    let cases = [
        ("an unknown key", object(huge('k'), json!(1))),
        ("one of control characters", object(huge('\u{1}'), json!(1))),
        ("one of wide unprintable characters", object(huge('\u{e000}'), json!(1))),
        ("one full of escapes", object(huge('~'), json!(1))),
        ("many", Value::Object(many)),
        ("a key inside", json!({"lists": object(huge('k'), json!(["x"]))})),
        ("a key that is missing", json!({"need": {}})),
        ("a choice", json!({"choice": 1})),
        ("a pattern", json!({"text": "x"})),
    ];
    for (name, arguments) in cases {
        let started = std::time::Instant::now();
        let refusal = check(&definition, &schema, arguments).unwrap_err();
        let text = serde_json::to_string(&refusal).unwrap();
        assert!(text.len() < 8 * 1024, "{name}: {} bytes", text.len());
        assert!(text.contains('…'), "{name}: {text}");
        assert!(started.elapsed().as_secs() < 5, "{name}: {:?}", started.elapsed());
    }
}

fn object(key: String, value: Value) -> Value {
    Value::Object(std::iter::once((key, value)).collect())
}

#[test]
fn long_list_under_huge_key_is_refused_without_pointers() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    let lists = json!({"type": "array", "items": {"type": "integer"}});
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": lists}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    // The pointers of the invalid items would take 640 MB; a message can hold enough items for 200 GB.
    let call =
        |item: Value| check(&definition, &schema, object("k".repeat(1 << 16), vec![item; 10_000].into()));
    let refusal = call(json!("x")).unwrap_err();
    assert!(refusal.reason.contains("too large to locate the errors"), "{}", refusal.reason);
    assert!(call(json!(1)).is_ok(), "large arguments alone are valid");
}

#[test]
fn example_that_would_be_refused_is_not_offered() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "required": ["sha"], "properties": {
        "sha": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let refusal = check(&definition, &schema, json!({})).unwrap_err();
    assert_eq!(refusal.example, None);
    assert_eq!(refusal.hint.as_deref(), Some("send the call again with the problem corrected"));
    assert_eq!(refusal.reason, "⚠️ Invalid t call. Missing required fields: sha.");
}

#[test]
fn offered_example_passes_the_check() {
    let refusal = run(json!({})).unwrap_err();
    run(refusal.example.clone().unwrap()).unwrap();
    assert!(refusal.hint.as_ref().unwrap().ends_with("; `example` is accepted"), "{:?}", refusal.hint);
}

#[test]
fn null_for_an_optional_argument_means_absent() {
    let check_null = |property: Value, required: &[&str], expect: Option<Value>| {
        let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
        spec.input_schema =
            Some(json!({"type": "object", "properties": {"a": property}, "required": required,
            "additionalProperties": false, "$defs": {"text": {"type": "string"}}}));
        let definition = Arc::new(spec.check().unwrap());
        let schema = InputSchema::compile(definition.input_schema()).unwrap();
        let call = check(&definition, &schema, json!({"a": null})).ok();
        assert_eq!(call.map(|call| Value::Object(call.arguments().clone())), expect, "{property}");
    };
    check_null(json!({"type": "string"}), &[], Some(json!({})));
    check_null(json!({"type": "string", "default": "."}), &["a"], Some(json!({"a": "."})));
    check_null(json!({"enum": ["x", "y"]}), &[], Some(json!({})));
    check_null(json!({"$ref": "#/$defs/text"}), &[], Some(json!({})));
    // Null may mean something where the schema accepts it.
    check_null(json!({"type": ["string", "null"]}), &[], Some(json!({"a": null})));
    check_null(json!({"anyOf": [{"type": "string"}, {"type": "null"}]}), &[], Some(json!({"a": null})));
    check_null(json!({"enum": ["x", null]}), &[], Some(json!({"a": null})));
    check_null(json!({}), &[], Some(json!({"a": null})));
    check_null(json!({"type": "string"}), &["a"], None);
}

/// A required argument stays null beside an optional one, so that the refusal says what was sent.
#[test]
fn null_for_a_required_argument_is_reported_as_null() {
    let mut spec = ToolSpec::new("t", "d", Category::READ_ONLY, RiskLevel::Low);
    let properties = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    spec.input_schema = Some(json!({"type": "object", "properties": properties, "required": ["a"]}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let refusal = check(&definition, &schema, json!({"a": null})).unwrap_err();
    let problems = format!("{:?}", refusal.problems);
    assert!(problems.contains("null") && !problems.contains("Missing"), "{problems}");
}
