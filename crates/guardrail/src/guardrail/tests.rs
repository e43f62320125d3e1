//! Behaviour of the guardrail as the source documents specify it.
//!
//! Behaviour that needs a running daemon (every call is checked, a refused call has no effect, events) is
//! tested in `tests/suite/guardrail.rs`.

mod nested;

use std::collections::HashMap;

use serde_json::json;
use tool::{Category, RefusalCode, RiskLevel, ToolSpec};

use super::*;
use crate::missing_fields;

/// Curated map and a few tools to check calls against.
struct GuardrailFixture {
    curated: CuratedGuardrails,
    tools: HashMap<String, (Arc<ToolDefinition>, InputSchema)>,
}

impl GuardrailFixture {
    fn with_shipped_map() -> Self {
        GuardrailFixture { curated: CuratedGuardrails::embedded().unwrap(), tools: HashMap::new() }
    }

    fn with_map(text: &str) -> Self {
        let document = strict_yaml::Document::from_text("guardrails.yaml", text).unwrap();
        GuardrailFixture {
            curated: CuratedGuardrails::from_document(document).unwrap(),
            tools: HashMap::new(),
        }
    }

    fn with_tool(mut self, name: &str, input_schema: Value) -> Self {
        let mut spec = ToolSpec::new(name, "A tool", Category::READ_ONLY, RiskLevel::Low);
        spec.input_schema = Some(input_schema);
        let definition = Arc::new(spec.check().unwrap());
        let schema = InputSchema::compile(definition.input_schema()).unwrap();
        self.tools.insert(name.to_owned(), (definition, schema));
        self
    }

    fn call(&self, name: &str, arguments: Value) -> Option<Refusal> {
        let tools = |name: &str| {
            let (definition, schema) = self.tools.get(&name.to_ascii_lowercase())?;
            Some(KnownTool { definition, schema })
        };
        let guard = Guardrail::new(&self.curated, &tools);
        match tools(name) {
            Some(known) => guard.check(known, arguments).err().map(|rejected| *rejected.refusal),
            None => guard.check_unknown(name, &arguments).map(|refusal| *refusal),
        }
    }

    #[track_caller]
    fn assert_passes(&self, name: &str, arguments: Value) {
        let refusal = self.call(name, arguments);
        assert!(refusal.is_none(), "{name}: {refusal:?}");
    }

    /// Expects a refusal in which exactly these fields are missing.
    #[track_caller]
    fn assert_missing(&self, name: &str, arguments: Value, fields: &[&str]) -> Refusal {
        let shown = arguments.to_string();
        let refusal = self.call(name, arguments).unwrap_or_else(|| panic!("{name} passed with {shown}"));
        assert_eq!(refusal.code, RefusalCode::InvalidArguments);
        assert_eq!(missing_fields(&refusal.problems), fields, "{name} {shown}: {refusal:?}");
        refusal
    }
}

#[test]
fn tool_without_an_entry_is_not_blocked() {
    let bench = GuardrailFixture::with_shipped_map().with_tool("mine", json!({"type": "object"}));
    bench.assert_passes("mine", json!({}));
    bench.assert_passes("unknown_tool", json!("anything"));
}

#[test]
fn write_without_file_path_names_it() {
    GuardrailFixture::with_shipped_map().assert_missing(
        "write",
        json!({"content": "long enough"}),
        &["file_path"],
    );
}

#[test]
fn write_without_content_names_it() {
    GuardrailFixture::with_shipped_map().assert_missing(
        "write",
        json!({"file_path": "/tmp/a"}),
        &["content"],
    );
}

#[test]
fn empty_text_is_missing() {
    let refusal = GuardrailFixture::with_shipped_map().assert_missing(
        "write",
        json!({"file_path": "/tmp/a", "content": ""}),
        &["content"],
    );
    assert_eq!(refusal.problems.len(), 1, "missing, and not too short as well: {refusal:?}");
    assert!(refusal.schema_error.unwrap().contains("an empty text count"), "gives the reason");
}

#[test]
fn null_is_missing() {
    GuardrailFixture::with_shipped_map().assert_missing(
        "write",
        json!({"file_path": null, "content": "long enough"}),
        &["file_path"],
    );
}

#[test]
fn zero_false_and_empty_lists_are_present() {
    let bench = GuardrailFixture::with_map("tools: {t: {required: [a, b, c, d]}}\n");
    bench.assert_passes("t", json!({"a": 0, "b": false, "c": [], "d": {}}));
}

#[test]
fn ten_characters_are_too_few_and_eleven_enough() {
    let bench = GuardrailFixture::with_shipped_map();
    let write = |length: usize| json!({"file_path": "/tmp/a", "content": "x".repeat(length)});
    for length in [1, 9, 10] {
        let refusal = bench.assert_missing("write", write(length), &[]);
        let problem = &refusal.problems[0];
        assert_eq!(problem.pointer, "/content");
        assert_eq!(
            (problem.expected.as_str(), problem.got.as_str()),
            ("at least 11 characters long", format!("{length} characters").as_str())
        );
    }
    bench.assert_passes("write", write(11));
}

#[test]
fn length_counts_characters() {
    let bench = GuardrailFixture::with_shipped_map();
    let write = |content: &str| json!({"file_path": "/tmp/a", "content": content});
    bench.assert_missing("write", write("äöüäöüäöüä"), &[]);
    bench.assert_passes("write", write("äöüäöüäöüäö"));
    bench.assert_passes("write", write("           "));
}

#[test]
fn deprecated_name_gets_error_example_and_replacement() {
    let bench = GuardrailFixture::with_shipped_map();
    for (name, instead) in [("write_local_file", "write_file"), ("read_local_file", "read_file")] {
        let refusal = bench.call(name, json!({})).unwrap();
        assert!(refusal.schema_error.as_ref().unwrap().contains("`path` is required"), "{refusal:?}");
        assert!(refusal.example.as_ref().unwrap()["path"].is_string(), "{refusal:?}");
        assert!(refusal.hint.as_ref().unwrap().contains(&format!("use {instead}")), "{refusal:?}");
        assert!(refusal.rule.as_ref().unwrap().file.ends_with("guardrails.yaml"), "{refusal:?}");
        assert!(refusal.rule.as_ref().unwrap().line > 0, "{refusal:?}");
    }
}

#[test]
fn only_the_missing_one_of_three_fields_is_named() {
    let two = json!({"path": "/tmp/a", "toolkit_slug": "gmail"});
    GuardrailFixture::with_shipped_map().assert_missing("upload_to_composio", two, &["tool_slug"]);
}

#[test]
fn mail_needs_one_of_two_recipients_and_no_attachment() {
    let bench = GuardrailFixture::with_shipped_map();
    let mail = |extra: Value| {
        let mut mail = json!({"subject": "s", "body": "b"});
        mail.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        mail
    };
    bench.assert_passes("gmail_send_email", mail(json!({"to": "ada@example.org"})));
    bench.assert_passes("gmail_send_email", mail(json!({"recipient_email": "ada@example.org"})));
    bench.assert_passes("gmail_send_email", mail(json!({"to": "a", "recipient_email": "b"})));
    let neither = bench.assert_missing("gmail_send_email", mail(json!({})), &["one of: recipient_email|to"]);
    assert_eq!(neither.problems.len(), 1);
    bench.assert_missing(
        "gmail_send_email",
        mail(json!({"to": "", "recipient_email": null})),
        &["one of: recipient_email|to"],
    );
}

#[test]
fn unmet_group_is_one_readable_item() {
    let refusal =
        GuardrailFixture::with_shipped_map().call("gmail_send_email", json!({"body": "b"})).unwrap();
    assert!(
        refusal.reason.contains("Missing required fields: subject, one of: recipient_email|to."),
        "{refusal:?}"
    );
    assert!(refusal.schema_error.unwrap().contains("one of `recipient_email`, `to` is required"));
}

#[test]
fn all_problems_are_in_one_message() {
    let bench = GuardrailFixture::with_shipped_map().with_tool(
        "write",
        json!({"type": "object", "additionalProperties": false, "required": ["content"], "properties": {
            "file_path": {"type": "string"}, "content": {"type": "string"}, "mode": {"enum": ["a", "b"]}}}),
    );
    let refusal =
        bench.assert_missing("write", json!({"content": "short", "mode": "c", "colour": 1}), &["file_path"]);
    let found: Vec<&str> = refusal.problems.iter().map(|problem| problem.pointer.as_str()).collect();
    assert_eq!(found, ["/file_path", "/content", "/mode", "/colour"], "map and schema together: {refusal:?}");
    for word in [
        "file_path",
        "at least 11 characters long",
        "`mode`: `c` is not one of a, b",
        "`colour` is not an argument",
    ] {
        assert!(refusal.reason.contains(word), "{word}: {}", refusal.reason);
    }
}

#[test]
fn problem_found_by_map_and_schema_is_listed_once() {
    let bench = GuardrailFixture::with_map("tools: {t: {required: [a, b, c], min_length: {d: 3, e: 3}}}\n")
        .with_tool(
            "t",
            json!({"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "minLength": 1}, "c": {"type": "string"},
            "d": {"type": "string", "minLength": 3}, "e": {"type": "string", "minLength": 5}}}),
        );
    let refusal =
        bench.assert_missing("t", json!({"b": "", "c": null, "d": "xx", "e": "xx"}), &["a", "b", "c"]);
    let rest: Vec<_> =
        refusal.problems[3..].iter().map(|p| (p.pointer.as_str(), p.expected.as_str())).collect();
    let length = |place, least: &'static str| (place, least);
    assert_eq!(
        rest,
        [
            length("/d", "at least 3 characters long"),
            length("/e", "at least 3 characters long"),
            length("/e", "at least 5 characters long"),
        ]
    );
    assert!(refusal.hint.unwrap().contains("the 6 problems"));
}

#[test]
fn refusal_reason_has_the_documented_form() {
    let refusal = GuardrailFixture::with_shipped_map().call("write", json!({"file_path": "/tmp/a"})).unwrap();
    assert_eq!(
        refusal.reason,
        "⚠️ Invalid write call. Missing required fields: content. \
         Example: {\"file_path\":\"/tmp/report.html\",\"content\":\"<html>…</html>\"}"
    );
}

#[test]
fn refusal_without_example_does_not_mention_one() {
    let refusal = GuardrailFixture::with_map("tools: {t: {required: [a]}}\n").call("t", json!({})).unwrap();
    assert_eq!(refusal.reason, "⚠️ Invalid t call. Missing required fields: a.");
    assert_eq!(refusal.example, None);
}

#[test]
fn refusal_has_an_example_preferably_from_the_map() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
    let of = |text: &str| {
        GuardrailFixture::with_map(text).with_tool("t", schema.clone()).call("t", json!({})).unwrap().example
    };
    assert_eq!(of("tools: {t: {required: [a], example: {a: 7}}}\n"), Some(json!({"a": 7})), "the map's");
    assert_eq!(
        of("tools: {t: {required: [a]}}\n"),
        Some(json!({"a": 1})),
        "else one generated from the schema"
    );
    assert_eq!(of("tools: {t: {example: {a: seven}}}\n"), Some(json!({"a": 1})), "never one that is refused");
}

#[test]
fn host_prefix_and_case_change_nothing() {
    let bench = GuardrailFixture::with_shipped_map();
    for (name, others) in [
        ("write_local_file", ["mcp__local_toolkit__write_local_file", "MCP__X__Write_Local_File"]),
        ("gmail_send_email", ["GMAIL_SEND_EMAIL", "mcp__composio__GMAIL_SEND_EMAIL"]),
    ] {
        let verdict = |name: &str| {
            let refusal = bench.call(name, json!({"path": "/tmp/a"})).unwrap();
            (refusal.code, refusal.problems, refusal.example, refusal.rule)
        };
        for other in others {
            assert_eq!(verdict(other), verdict(name), "{other}");
        }
    }
}

#[test]
fn names_are_judged_in_the_spelling_of_every_document() {
    let bench = GuardrailFixture::with_shipped_map();
    for (name, missing) in [
        ("mcp__local_toolkit__write_local_file", &["path", "content"][..]),
        ("mcp__local_toolkit__upload_to_composio", &["path", "tool_slug", "toolkit_slug"]),
        ("mcp__local_toolkit__read_local_file", &["path"]),
        ("mcp__local_toolkit__list_directory", &["path"]),
        ("COMPOSIO_SEARCH_NEWS", &["query"]),
        ("COMPOSIO_SEARCH_WEB", &["query"]),
        ("COMPOSIO_MULTI_EXECUTE_TOOL", &["tools"]),
        ("GMAIL_SEND_EMAIL", &["subject", "body", "one of: recipient_email|to"]),
    ] {
        let refusal = bench.assert_missing(name, json!({}), missing);
        assert!(refusal.example.is_some(), "{name}");
    }
}

#[test]
fn existing_prefixed_tool_is_checked_under_its_full_name() {
    let bench = GuardrailFixture::with_shipped_map().with_tool("mcp__x__write", json!({"type": "object"}));
    bench.assert_passes("mcp__x__write", json!({}));
}

#[test]
fn entry_for_our_tool_does_not_bind_other_servers() {
    let bench = GuardrailFixture::with_shipped_map().with_tool("read_file", json!({"type": "object"}));
    bench.assert_missing("read_file", json!({}), &["path"]);
    bench.assert_passes("mcp__other__read_file", json!({}));
}

#[test]
fn optional_fields_do_not_block() {
    let all = json!({"recipient_email": "a", "subject": "s", "body": "b", "cc": ["c"], "attachment": {"name": "x"}});
    GuardrailFixture::with_shipped_map().assert_passes("gmail_send_email", all);
}

#[test]
fn name_that_ends_in_a_curated_one_is_another_name() {
    let bench = GuardrailFixture::with_shipped_map().with_tool("overwrite", json!({"type": "object"}));
    for name in ["overwrite", "todowrite", "over__write", "xwrite", "write2", "write_"] {
        bench.assert_passes(name, json!({}));
    }
}

#[test]
fn non_object_lacks_every_required_field() {
    let bench = GuardrailFixture::with_shipped_map().with_tool(
        "read_file",
        json!({"type": "object", "required": ["path", "x"],
        "properties": {"path": {"type": "string"}, "x": {}}}),
    );
    for wrong in [json!([]), json!("x"), json!(3), json!(true)] {
        bench.assert_missing("write", wrong.clone(), &["file_path", "content"]);
        bench.assert_missing("read_file", wrong, &["path", "x"]);
    }
    let nothing = bench.assert_missing("write", Value::Null, &["file_path", "content"]);
    assert_eq!(nothing.problems.len(), 2, "null is an empty object");
}

#[test]
fn rule_is_named_if_the_map_decided() {
    let bench = GuardrailFixture::with_shipped_map().with_tool(
        "read_file",
        json!({"type": "object", "required": ["x"], "properties": {
        "path": {"type": "string"}, "x": {}}}),
    );
    let by_map = bench.assert_missing("read_file", json!({"x": 1}), &["path"]);
    assert_eq!(by_map.rule.unwrap().id.as_ref(), "guardrails.read_file");
    let by_schema = bench.assert_missing("read_file", json!({"path": "a"}), &["x"]);
    assert_eq!(by_schema.rule, None);
}

#[test]
fn default_does_not_satisfy_the_map() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string", "default": "."}}});
    let bench = GuardrailFixture::with_shipped_map().with_tool("list_directory", schema);
    bench.assert_passes("list_directory", json!({"path": "."}));
    bench.assert_missing("list_directory", json!({}), &["path"]);
    bench.assert_missing("list_directory", json!({"path": ""}), &["path"]);
}

#[test]
fn caller_cannot_set_the_session_of_a_tool_that_wants_it() {
    let check = |wants: bool, closed: bool, arguments: Value, expect: &[&str]| {
        let mut spec = ToolSpec::new("note", "A tool", Category::READ_ONLY, RiskLevel::Low);
        spec.wants_session = wants;
        spec.input_schema = Some(json!({"type": "object", "additionalProperties": !closed}));
        let definition = Arc::new(spec.check().unwrap());
        let schema = InputSchema::compile(definition.input_schema()).unwrap();
        let (curated, no_tools) = (CuratedGuardrails::empty(), |_: &str| None);
        let known = KnownTool { definition: &definition, schema: &schema };
        let refused = Guardrail::new(&curated, &no_tools).check(known, arguments).err();
        let problems = refused.map(|rejected| rejected.refusal.problems).unwrap_or_default();
        let places: Vec<&str> = problems.iter().map(|problem| problem.pointer.as_str()).collect();
        assert_eq!(places, expect);
    };
    for closed in [true, false] {
        check(true, closed, json!({}), &[]);
        check(true, closed, json!({"session_id": "another's"}), &["/session_id"]);
    }
    check(false, false, json!({"session_id": "a word like any other"}), &[]);
}

#[test]
fn missing_mistyped_and_unknown_arguments_are_named() {
    let fetch = json!({"type": "object", "additionalProperties": false, "required": ["url"], "properties": {
        "url": {"type": "string"}}});
    let verify = json!({"type": "object", "additionalProperties": false, "required": ["checks"], "properties": {
        "checks": {"type": "array", "items": {"type": "string"}}}});
    let nothing = json!({"type": "object", "additionalProperties": false});
    let never = json!({"type": "object", "properties": {"additionalProperties": false}});
    let bench = GuardrailFixture::with_shipped_map().with_tool("fetch", fetch).with_tool("verify", verify);
    let bench = bench.with_tool("nothing", nothing).with_tool("never", never);
    let schema_error =
        |name: &str, arguments: Value| bench.call(name, arguments).unwrap().schema_error.unwrap();
    assert_eq!(schema_error("fetch", json!({})), "`url` is required");
    assert_eq!(schema_error("fetch", json!({"url": 7})), "/url must be string, not number");
    assert_eq!(schema_error("verify", json!({})), "`checks` is required");
    assert_eq!(schema_error("verify", json!({"checks": "all"})), "/checks must be array, not string");
    assert!(
        schema_error("fetch", json!({"url": "u", "depth": 1}))
            .contains("`depth` is not an argument of fetch")
    );
    assert_eq!(
        schema_error("nothing", json!({"depth": 1, "all": true})),
        "`depth` is not an argument of nothing; `all` is not an argument of nothing"
    );
    assert_eq!(
        schema_error("never", json!({"additionalProperties": {"a": 1}})),
        "/additionalProperties must be valid under `falseSchema`, not object"
    );
    bench.assert_passes("fetch", json!({"url": "u"}));
    bench.assert_passes("verify", json!({"checks": ["a"]}));
}

#[test]
fn allowed_values_are_named_for_every_kind_of_schema() {
    let level = json!({"anyOf": [
        {"oneOf": [{"const": "error", "type": "string"}, {"enum": ["warning", "info"], "type": "string"}]},
        {"type": "null"}]});
    let schema = json!({"type": "object", "properties": {
        "level": level, "count": {"anyOf": [{"type": "integer"}, {"type": "array"}, {"type": "null"}]}}});
    let bench = GuardrailFixture::with_shipped_map().with_tool("logs", schema);
    let check = |arguments: Value, expect: &str| {
        assert_eq!(bench.call("logs", arguments).unwrap().schema_error.unwrap(), expect);
    };
    check(json!({"level": "warn"}), "`level`: `warn` is not one of error, warning, info");
    check(json!({"level": 7}), "`level`: `7` is not one of error, warning, info");
    // A text that may be a passphrase or content is not repeated.
    check(json!({"level": "correct horse"}), "`level`: string is not one of error, warning, info");
    check(json!({"level": "w".repeat(33)}), "`level`: string is not one of error, warning, info");
    check(json!({"count": "many"}), "/count must be integer or array, not string");
}
