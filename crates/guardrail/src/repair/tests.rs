//! Repair proposals: obvious repairs, and mistakes without one.

use std::sync::Arc;

use serde_json::json;
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

use super::*;
use crate::{CuratedGuardrails, InputSchema};

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

/// Returns the proposal for a call that the tool refuses.
fn proposal(definition: &Arc<ToolDefinition>, arguments: Value) -> Option<RepairProposal> {
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let (curated, no_tools) = (CuratedGuardrails::empty(), |_: &str| None);
    let rejected =
        Guardrail::new(&curated, &no_tools).check(KnownTool { definition, schema: &schema }, arguments);
    rejected.unwrap_err().proposal.map(|proposal| *proposal)
}

fn proposed(arguments: Value) -> Option<(Value, String)> {
    let (call, offer) = proposal(&definition(), arguments)?.into_parts();
    assert_eq!(call.arguments()["mode"].as_str().map(str::is_empty), Some(false), "judged with its defaults");
    Some((Value::Object(offer.arguments.unwrap_or_default()), offer.note))
}

/// Returns the arguments proposed by a tool that accepts only these properties.
fn proposed_by(properties: &Value, required: &[&str], arguments: Value) -> Option<Value> {
    let mut spec = ToolSpec::new("t", "A tool", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": false,
        "required": required, "properties": properties}));
    let offer = proposal(&Arc::new(spec.check().unwrap()), arguments)?.into_parts().1;
    offer.arguments.map(Value::Object)
}

#[track_caller]
fn check(arguments: &Value, expect: &Value, note: &str) {
    let (repaired, actual_note) =
        proposed(arguments.clone()).unwrap_or_else(|| panic!("nothing for {arguments}"));
    assert_eq!(&repaired, expect, "{arguments}");
    assert_eq!(actual_note, note, "{arguments}");
}

#[test]
fn obvious_mistake_has_one_repair() {
    let good = || json!({"path": "a", "content": "b"});
    check(&json!({"file_path": "a", "content": "b"}), &good(), "rename `file_path` to `path`");
    check(
        &json!({"Path": "a", "contnet": "b"}),
        &good(),
        "rename `Path` to `path`; rename `contnet` to `content`",
    );
    check(
        &json!({"filename": "a", "text": "b"}),
        &good(),
        "rename `filename` to `path`; rename `text` to `content`",
    );
    let wrapped = "send the arguments directly, not under `arguments`";
    check(&json!({"arguments": good()}), &good(), wrapped);
    check(&json!({"name": "write_file", "arguments": good()}), &good(), wrapped);
    check(&json!({"input": good()}), &good(), "send the arguments directly, not under `input`");
    check(&json!({"params": good()}), &good(), "send the arguments directly, not under `params`");
    let text = "send the arguments as an object, not as JSON text";
    check(&json!(good().to_string()), &good(), text);
    check(&json!({"arguments": good().to_string()}), &good(), &format!("{wrapped}; {text}"));
}

#[test]
fn text_is_converted_to_the_expected_type() {
    let with = |key: &str, value: Value| {
        let mut call = json!({"path": "a", "content": "b"});
        call[key] = value;
        call
    };
    check(&with("size", json!("1.5")), &with("size", json!(1.5)), "send /size as number, not as text");
    check(&with("size", json!("3")), &with("size", json!(3)), "send /size as number, not as text");
    check(&with("lines", json!(" 3 ")), &with("lines", json!(3)), "send /lines as number, not as text");
    check(&with("sync", json!("True")), &with("sync", json!(true)), "send /sync as boolean, not as text");
    check(&with("sync", json!("FALSE")), &with("sync", json!(false)), "send /sync as boolean, not as text");
    check(&with("count", json!("3")), &with("count", json!(3)), "send /count as number, not as text");
    let max = vec![json!(1); MAX_CHANGES];
    assert_eq!(
        proposed(with("tags", json!(vec!["1"; MAX_CHANGES]))).unwrap().0,
        with("tags", Value::from(max))
    );
    check(&with("tags", json!("[1, 2]")), &with("tags", json!([1, 2])), "send /tags as array, not as text");
    check(
        &with("tags", json!(["1", 2])),
        &with("tags", json!([1, 2])),
        "send /tags/0 as number, not as text",
    );
    check(
        &with("meta", json!("{\"deep\": true}")),
        &with("meta", json!({"deep": true})),
        "send /meta as object, not as text",
    );
    check(
        &with("meta", json!({"deep": "true"})),
        &with("meta", json!({"deep": true})),
        "send /meta/deep as boolean, not as text",
    );
    check(
        &with("mode", json!("Create")),
        &with("mode", json!("create")),
        "use the schema's spelling for /mode",
    );
    check(
        &with("meta", json!({"deep": null})),
        &with("meta", json!({})),
        "leave out /meta/deep instead of sending null",
    );
}

#[test]
fn valid_values_are_unchanged() {
    for (key, value) in [("mode", json!("create")), ("lines", Value::Null), ("letters", json!("ab"))] {
        let (mut call, mut expect) =
            (json!({"file_path": "a", "content": "b"}), json!({"path": "a", "content": "b"}));
        (call[key], expect[key]) = (value.clone(), value);
        check(&call, &expect, "rename `file_path` to `path`");
    }
    let text = json!({"type": "string"});
    let own = json!({"query": text, "search": text});
    assert_eq!(
        proposed_by(&own, &["query"], json!({"search": "x"})),
        None,
        "a known argument is not renamed"
    );
    let own = json!({"input": {"type": "object"}, "n": {"type": "integer"}});
    let found = proposed_by(&own, &["input"], json!({"input": "{\"n\": 1}"}));
    assert_eq!(found, Some(json!({"input": {"n": 1}})), "a known argument is not a wrapper");
}

#[test]
fn null_for_an_optional_argument_is_removed() {
    let path = json!({"path": {"type": "string", "default": "."}});
    assert_eq!(proposed_by(&path, &["path"], json!({"arguments": null})), Some(json!({})));
    let inner = json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}});
    assert_eq!(proposed_by(&inner, &[], json!({"a": {"b": null}})), Some(json!({"a": {}})));
    assert_eq!(proposed_by(&json!({"path": {"type": "string"}}), &["path"], json!({"path": null})), None);
}

#[test]
fn offer_is_appended_to_the_refusal_hint() {
    let offer = |arguments| RepairOffer { arguments, note: "rename `a` to `b`".to_owned() };
    let check = |offer: RepairOffer, hint: Option<&str>, expect: &str| {
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
    check(offer(None), None, "with this change it is accepted: rename `a` to `b`");
}

#[test]
fn ambiguous_mistake_has_no_repair() {
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
        json!({"path": "a", "content": "b", "tags": vec!["1"; MAX_CHANGES + 1]}),
        json!({"arguments": {"input": {"params": {"args": {"arguments": {}}}}}}),
    ] {
        assert!(proposed(hopeless.clone()).is_none(), "{hopeless}");
    }
}

#[test]
fn large_call_gets_the_changes_but_no_arguments() {
    let text = |bytes: usize, rest: &str| "x".repeat(bytes - rest.len());
    let call = |content: String| json!({"file_path": "a", "content": content});
    let repeated = |bytes: usize| proposed(call(text(bytes, r#"{"path":"a","content":""}"#))).unwrap();
    assert_eq!(repeated(MAX_RETURNED_BYTES).0["path"], "a");
    assert_eq!(repeated(MAX_RETURNED_BYTES + 1), (json!({}), "rename `file_path` to `path`".to_owned()));
    let looked_at = |bytes: usize| proposed(call(text(bytes, r#"{"file_path":"a","content":""}"#)));
    assert!(looked_at(MAX_REPAIRABLE_BYTES).is_some());
    assert!(looked_at(MAX_REPAIRABLE_BYTES + 1).is_none());
}

#[test]
fn open_schema_keeps_unknown_keys() {
    let mut spec = ToolSpec::new("note", "Notes", Category::READ_ONLY, RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"}, "content": {"type": "string"}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let (curated, no_tools) = (CuratedGuardrails::empty(), |_: &str| None);
    let guard = Guardrail::new(&curated, &no_tools);
    let call = json!({"file_path": "a", "text": "an open schema accepts any key"});
    let rejected = guard.check(KnownTool { definition: &definition, schema: &schema }, call).unwrap_err();
    let (_, offer) = rejected.proposal.unwrap().into_parts();
    let expect = json!({"path": "a", "text": "an open schema accepts any key"});
    assert_eq!(Value::Object(offer.arguments.unwrap()), expect, "only the required argument is renamed");
    let two = json!({"file_path": "a", "filename": "b"});
    let rejected = guard.check(KnownTool { definition: &definition, schema: &schema }, two).unwrap_err();
    assert!(rejected.proposal.is_none(), "two keys match");
}

#[test]
fn names_of_other_agents_are_known() {
    let edit = json!({"type": "object", "additionalProperties": false, "required": ["old_text", "new_text"],
        "properties": {"old_text": {"type": "string"}, "new_text": {"type": "string"},
            "replace_all": {"type": "boolean"}}});
    let edits = json!({"path": {"type": "string"}, "edits": {"type": "array", "items": edit}, "dry_run": {"type": "boolean"}});
    let expect = json!({"path": "a", "edits": [{"old_text": "x", "new_text": "y"}]});
    let propose = |arguments: Value| proposed_by(&edits, &["path", "edits"], arguments);
    let flat = json!({"file_path": "a", "old_string": "x", "new_string": "y"});
    assert_eq!(propose(flat), Some(expect.clone()));
    let listed = json!({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]});
    assert_eq!(propose(listed), Some(expect));
    let all = json!({"path": "a", "old_string": "x", "new_string": "y", "replace_all": true});
    assert_eq!(
        propose(all).unwrap()["edits"],
        json!([{"old_text": "x", "new_text": "y", "replace_all": true}])
    );
    // A key that fits nowhere leaves the meaning open.
    assert_eq!(propose(json!({"path": "a", "old_string": "x", "new_string": "y", "colour": 1})), None);
}

#[test]
fn command_line_without_shell_syntax_is_split() {
    let command = json!({"command": {"type": "array", "format": "command", "items": {"type": "string"}}});
    let split = |line: &str| proposed_by(&command, &["command"], json!({"cmd": line}));
    assert_eq!(split("git  log -n 5"), Some(json!({"command": ["git", "log", "-n", "5"]})));
    assert_eq!(
        split("cargo build --config=a%b"),
        Some(json!({"command": ["cargo", "build", "--config=a%b"]}))
    );
    for shell in [
        "ls | wc",
        "ls; rm x",
        "a && b",
        "a > b",
        "echo $HOME",
        "ls *.rs",
        "ls ~",
        "echo 'a b'",
        "echo \"a\"",
        "A=1 make",
        "a\nb",
        "a \\b",
        "(a)",
        "ls [a]",
        "ls {a,b}",
        "!x",
        "a #b",
        "`a`",
        "",
        "  ",
    ] {
        assert_eq!(split(shell), None, "{shell}");
    }
    // Only a command is split.
    let words = json!({"words": {"type": "array", "items": {"type": "string"}}});
    assert_eq!(proposed_by(&words, &["words"], json!({"words": "a b"})), None);
}
