//! What is proposed, and what is not.

use std::sync::Arc;

use serde_json::json;
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

use super::*;
use crate::{Curated, InputSchema};

fn definition() -> Arc<ToolDefinition> {
    let mut spec = ToolSpec::new("write_file", "Write", Category::SYSTEM_WRITE, RiskLevel::High);
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": false,
        "required": ["path", "content"],
        "$defs": {"mode": {"type": "string", "enum": ["create", "overwrite"]}},
        "properties": {
            "path": {"type": "string", "minLength": 1},
            "content": {"type": "string"},
            "mode": {"$ref": "#/$defs/mode", "default": "overwrite"},
            "size": {"type": "number"},
            "lines": {"type": ["integer", "null"]},
            "sync": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "integer"}},
            "count": {"type": "integer", "anyOf": [{"minimum": 1}]},
            "letters": {"enum": ["ab", "AB"]},
            "meta": {"anyOf": [{"type": "object", "properties": {"deep": {"type": "boolean"}}}, {"type": "null"}]}}}));
    Arc::new(spec.check().unwrap())
}

/// What is proposed instead of a call that the tool refuses.
fn proposal(definition: &Arc<ToolDefinition>, arguments: Value) -> Option<Proposal> {
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let (curated, nobody) = (Curated::none(), |_: &str| None);
    let rejected = Guard::new(&curated, &nobody).check(Known { definition, schema: &schema }, arguments);
    rejected.unwrap_err().proposal.map(|proposal| *proposal)
}

fn proposed(arguments: Value) -> Option<(Value, String)> {
    let (call, offer) = proposal(&definition(), arguments)?.into_parts();
    assert_eq!(call.arguments()["mode"].as_str().map(str::is_empty), Some(false), "judged with its defaults");
    Some((Value::Object(offer.arguments.unwrap_or_default()), offer.note))
}

/// The arguments that are proposed instead of those for a tool that takes nothing but these properties.
fn proposed_by(properties: &Value, required: &[&str], arguments: Value) -> Option<Value> {
    let mut spec = ToolSpec::new("t", "A tool", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": false,
        "required": required, "properties": properties}));
    let offer = proposal(&Arc::new(spec.check().unwrap()), arguments)?.into_parts().1;
    offer.arguments.map(Value::Object)
}

#[track_caller]
fn check(arguments: &Value, expect: &Value, note: &str) {
    let (repaired, said) = proposed(arguments.clone()).unwrap_or_else(|| panic!("nothing for {arguments}"));
    assert_eq!(&repaired, expect, "{arguments}");
    assert_eq!(said, note, "{arguments}");
}

#[test]
fn an_obvious_mistake_has_one_repair() {
    let good = || json!({"path": "a", "content": "b"});
    check(&json!({"file_path": "a", "content": "b"}), &good(), "`file_path` is called `path`");
    check(
        &json!({"Path": "a", "contnet": "b"}),
        &good(),
        "`Path` is called `path`; `contnet` is called `content`",
    );
    check(
        &json!({"filename": "a", "text": "b"}),
        &good(),
        "`filename` is called `path`; `text` is called `content`",
    );
    let wrapped = "what is under `arguments` are the arguments themselves";
    check(&json!({"arguments": good()}), &good(), wrapped);
    check(&json!({"name": "write_file", "arguments": good()}), &good(), wrapped);
    check(&json!({"input": good()}), &good(), "what is under `input` are the arguments themselves");
    check(&json!({"params": good()}), &good(), "what is under `params` are the arguments themselves");
    let text = "the arguments are the object itself, not JSON text";
    check(&json!(good().to_string()), &good(), text);
    check(&json!({"arguments": good().to_string()}), &good(), &format!("{wrapped}; {text}"));
}

#[test]
fn text_is_read_as_what_it_says() {
    let with = |key: &str, value: Value| {
        let mut call = json!({"path": "a", "content": "b"});
        call[key] = value;
        call
    };
    check(&with("size", json!("1.5")), &with("size", json!(1.5)), "/size is number, not text");
    check(&with("size", json!("3")), &with("size", json!(3)), "/size is number, not text");
    check(&with("lines", json!(" 3 ")), &with("lines", json!(3)), "/lines is number, not text");
    check(&with("sync", json!("True")), &with("sync", json!(true)), "/sync is boolean, not text");
    check(&with("sync", json!("FALSE")), &with("sync", json!(false)), "/sync is boolean, not text");
    check(&with("count", json!("3")), &with("count", json!(3)), "/count is number, not text");
    let most = vec![json!(1); MOST_CHANGES];
    assert_eq!(
        proposed(with("tags", json!(vec!["1"; MOST_CHANGES]))).unwrap().0,
        with("tags", Value::from(most))
    );
    check(&with("tags", json!("[1, 2]")), &with("tags", json!([1, 2])), "/tags is array, not text");
    check(&with("tags", json!(["1", 2])), &with("tags", json!([1, 2])), "/tags/0 is number, not text");
    check(
        &with("meta", json!("{\"deep\": true}")),
        &with("meta", json!({"deep": true})),
        "/meta is object, not text",
    );
    check(
        &with("meta", json!({"deep": "true"})),
        &with("meta", json!({"deep": true})),
        "/meta/deep is boolean, not text",
    );
    check(
        &with("mode", json!("Create")),
        &with("mode", json!("create")),
        "/mode is written as the schema has it",
    );
    check(
        &with("size", Value::Null),
        &json!({"path": "a", "content": "b"}),
        "/size may be left out, not null",
    );
}

#[test]
fn what_is_right_stays_as_it_is() {
    for (key, value) in [("mode", json!("create")), ("lines", Value::Null), ("letters", json!("ab"))] {
        let (mut call, mut expect) =
            (json!({"file_path": "a", "content": "b"}), json!({"path": "a", "content": "b"}));
        (call[key], expect[key]) = (value.clone(), value);
        check(&call, &expect, "`file_path` is called `path`");
    }
    let text = json!({"type": "string"});
    let own = json!({"query": text, "search": text});
    assert_eq!(
        proposed_by(&own, &["query"], json!({"search": "x"})),
        None,
        "a key of the tool's own is meant"
    );
    let own = json!({"input": {"type": "object"}, "n": {"type": "integer"}});
    let found = proposed_by(&own, &["input"], json!({"input": "{\"n\": 1}"}));
    assert_eq!(found, Some(json!({"input": {"n": 1}})), "an argument of the tool's own is no wrapper");
}

#[test]
fn nothing_stands_for_what_may_be_left_out() {
    let path = json!({"path": {"type": "string", "default": "."}});
    assert_eq!(proposed_by(&path, &["path"], json!({"path": null})), Some(json!({})));
    assert_eq!(proposed_by(&path, &["path"], json!({"arguments": null})), Some(json!({})));
    assert_eq!(proposed_by(&json!({"path": {"type": "string"}}), &["path"], json!({"path": null})), None);
}

#[test]
fn an_offer_is_added_to_what_the_refusal_says() {
    let offer = |arguments| Offer { arguments, note: "`a` is called `b`".to_owned() };
    let check = |offer: Offer, hint: Option<&str>, expect: &str| {
        let mut refusal = Refusal::new("t", tool::RefusalCode::InvalidArguments, "wrong");
        refusal.hint = hint.map(str::to_owned);
        let (arguments, note) = (offer.arguments.clone(), offer.note.clone());
        offer.add_to(&mut refusal);
        assert_eq!(refusal.hint.as_deref(), Some(expect));
        assert_eq!(refusal.repair, arguments.map(|arguments| Repair { arguments, note }));
    };
    let arguments = || json!({"b": 1}).as_object().cloned();
    check(offer(arguments()), Some("send it again"), "send it again; `repair` is accepted");
    check(offer(arguments()), None, "`repair` is accepted");
    check(offer(None), None, "with this change it is accepted: `a` is called `b`");
}

#[test]
fn nothing_is_guessed_or_invented() {
    for hopeless in [
        json!({"path": "a"}),
        json!({}),
        json!(null),
        json!([1]),
        json!("not JSON"),
        json!({"file_path": "a", "filename": "b", "content": "c"}),
        json!({"path": "a", "file_path": "b", "content": "c"}),
        json!({"path": "a", "content": "b", "colour": "red"}),
        json!({"path": "a", "content": "b", "colour": null}),
        json!({"path": "a", "content": "b", "letters": "Ab"}),
        json!({"path": "a", "content": "b", "lines": "null"}),
        json!({"path": "a", "content": "b", "lines": "3.0"}),
        json!({"path": "a", "content": "b", "size": "large"}),
        json!({"path": "a", "content": "b", "size": "1e999"}),
        json!({"path": "a", "content": "b", "lines": "3.5"}),
        json!({"path": "a", "content": "b", "size": "{\"a\": 1, \"a\": 2}"}),
        json!({"path": null, "content": "b"}),
        json!({"arguments": {"path": "a", "content": "b"}, "more": 1}),
        json!({"name": "other_tool", "arguments": {"path": "a", "content": "b"}}),
        json!({"arguments": "{\"path\": \"a\", \"path\": \"b\", \"content\": \"c\"}"}),
        json!({"path": "a", "content": "b", "tags": vec!["1"; MOST_CHANGES + 1]}),
        json!({"arguments": {"input": {"params": {"args": {"arguments": {}}}}}}),
    ] {
        assert!(proposed(hopeless.clone()).is_none(), "{hopeless}");
    }
}

#[test]
fn a_large_call_is_told_what_to_change_and_not_repeated() {
    let text = |bytes: usize, rest: &str| "x".repeat(bytes - rest.len());
    let call = |content: String| json!({"file_path": "a", "content": content});
    let repeated = |bytes: usize| proposed(call(text(bytes, r#"{"path":"a","content":""}"#))).unwrap();
    assert_eq!(repeated(LARGEST_REPEATED).0["path"], "a");
    assert_eq!(repeated(LARGEST_REPEATED + 1), (json!({}), "`file_path` is called `path`".to_owned()));
    let looked_at = |bytes: usize| proposed(call(text(bytes, r#"{"file_path":"a","content":""}"#)));
    assert!(looked_at(LARGEST).is_some());
    assert!(looked_at(LARGEST + 1).is_none());
}

#[test]
fn an_open_schema_keeps_its_own_keys() {
    let mut spec = ToolSpec::new("note", "Notes", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"}, "content": {"type": "string"}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let (curated, nobody) = (Curated::none(), |_: &str| None);
    let guard = Guard::new(&curated, &nobody);
    let call = json!({"file_path": "a", "text": "any key may be meant as it is"});
    let rejected = guard.check(Known { definition: &definition, schema: &schema }, call).unwrap_err();
    let (_, offer) = rejected.proposal.unwrap().into_parts();
    let expect = json!({"path": "a", "text": "any key may be meant as it is"});
    assert_eq!(Value::Object(offer.arguments.unwrap()), expect, "only what is required was meant");
    let two = json!({"file_path": "a", "filename": "b"});
    let rejected = guard.check(Known { definition: &definition, schema: &schema }, two).unwrap_err();
    assert!(rejected.proposal.is_none(), "either may be the one");
}
