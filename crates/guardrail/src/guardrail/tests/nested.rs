//! Tests of calls inside the arguments of other calls.

use serde_json::{Value, json};

use super::GuardrailFixture;

const OUTER: &str = "composio_multi_execute_tool";

/// Returns pointer and expectation of every problem.
fn problems_of(bench: &GuardrailFixture, name: &str, arguments: Value) -> Vec<(String, String)> {
    let refusal = bench.call(name, arguments).expect("it passed");
    refusal.problems.into_iter().map(|problem| (problem.pointer, problem.expected)).collect()
}

fn problem(place: &str, expected: &str) -> (String, String) {
    (place.to_owned(), expected.to_owned())
}

#[test]
fn list_shape_is_checked_by_index() {
    let bench = GuardrailFixture::with_shipped_map();
    let outer = |tools: Value| problems_of(&bench, OUTER, json!({"tools": tools}));
    assert_eq!(
        problems_of(&bench, OUTER, json!({})),
        [problem("/tools", "a value")],
        "missing, reported once"
    );
    assert_eq!(outer(json!(null)), [problem("/tools", "a value")]);
    assert_eq!(outer(json!({})), [problem("/tools", "array")]);
    assert_eq!(outer(json!(3)), [problem("/tools", "array")]);
    let good = json!({"tool_slug": "UNKNOWN_TOOL", "arguments": "what it takes is its own business"});
    let mixed = json!([good, 7, {"arguments": {}}, {"tool_slug": "", "arguments": {}},
        {"tool_slug": 5, "arguments": {}}, {"tool_slug": "X"}, {}]);
    assert_eq!(
        outer(mixed),
        [
            problem("/tools/2/tool_slug", "string"),
            problem("/tools/3/tool_slug", "string"),
            problem("/tools/5/arguments", "object"),
            problem("/tools/6/tool_slug", "string"),
            problem("/tools/6/arguments", "object"),
            problem("/tools/1", "object"),
            problem("/tools/4/tool_slug", "string"),
        ],
        "missing first, then the rest, each by its index"
    );
    bench.assert_passes(OUTER, json!({"tools": [good]}));
    bench.assert_passes(OUTER, json!({"tools": []}));
}

#[test]
fn every_inner_call_is_checked_and_reported() {
    let bench = GuardrailFixture::with_shipped_map().with_tool("fetch", json!({"type": "object", "required": ["url"],
        "properties": {"url": {"type": "string", "examples": ["https://example.org"]}, "n": {"type": "integer", "default": 1}}}));
    let calls = json!([
        {"tool_slug": "GMAIL_SEND_EMAIL", "arguments": {"subject": "s", "to": "a"}},
        {"tool_slug": "fetch", "arguments": {"url": 5}},
        {"tool_slug": "gmail_send_email", "arguments": {"body": "b", "subject": "s"}},
        {"tool_slug": "mcp__x__write", "arguments": {"file_path": "a", "content": "short"}},
        {"tool_slug": "fetch", "arguments": "not an object"},
        {"tool_slug": "fetch", "arguments": {"url": "https://example.org"}},
        {"tool_slug": "upload_to_composio",
            "arguments": {"path": "/tmp/a", "tool_slug": "GMAIL_SEND_EMAIL", "toolkit_slug": "gmail"}},
    ]);
    let refusal = bench.call(OUTER, json!({"tools": calls})).unwrap();
    let error_text = refusal.schema_error.unwrap();
    for part in [
        "tools[0] (GMAIL_SEND_EMAIL): `body` is required",
        "tools[1] (fetch): /url must be string, not number",
        "tools[2] (gmail_send_email): one of `recipient_email`, `to` is required",
        "tools[3] (mcp__x__write): /content must be at least 11 characters long, not 5 characters",
        "tools[4] (fetch): the arguments must be an object, not string",
    ] {
        assert!(error_text.contains(part), "{part}: {error_text}");
    }
    assert!(!error_text.contains("tools[5]"), "{error_text}");
    assert!(
        refusal.reason.contains(
            "Missing required fields: tools/0/arguments/body, \
        tools/2/arguments/(one of: recipient_email|to), tools/4/arguments/url."
        ),
        "{}",
        refusal.reason
    );
    for example in [
        "Example for tools[0] (GMAIL_SEND_EMAIL): {\"recipient_email\"",
        "Example for tools[1] (fetch): {\"url\":\"https://example.org\"}",
    ] {
        assert!(refusal.reason.contains(example), "{example}: {}", refusal.reason);
    }
    assert_eq!(
        refusal.reason.matches("Example for").count(),
        3,
        "each tool that was called wrongly is shown once: {}",
        refusal.reason
    );
}

#[test]
fn list_as_text_is_refused() {
    let bench = GuardrailFixture::with_shipped_map();
    let text = json!([{"tool_slug": "X", "arguments": {}}]).to_string();
    let refusal = bench.call(OUTER, json!({"tools": text})).unwrap();
    assert!(refusal.reason.contains("send the list itself, not JSON text"), "{}", refusal.reason);
    let refusal = bench.call(OUTER, json!({"tools": "not JSON"})).unwrap();
    assert_eq!(refusal.problems[0].got, "string");
}

#[test]
fn schema_can_declare_an_argument_that_holds_calls() {
    let schema = json!({"type": "object", "required": ["steps"], "properties": {
        "steps": {"type": "array", "format": "calls", "items": {"type": "object", "required": ["tool_slug"]}}}});
    let bench = GuardrailFixture::with_shipped_map().with_tool("plan", schema);
    let steps = |steps: Value| problems_of(&bench, "plan", json!({"steps": steps}));
    assert_eq!(
        steps(json!("[]")),
        [problem("/steps", "array")],
        "the schema reports it too, and it is not repeated"
    );
    assert_eq!(steps(json!([{"arguments": {}}])), [problem("/steps/0/tool_slug", "string")]);
    assert_eq!(
        steps(json!([{"tool_slug": "write", "arguments": {"content": "long enough"}}])),
        [problem("/steps/0/arguments/file_path", "a value")]
    );
    bench.assert_passes(
        "plan",
        json!({"steps": [{"tool_slug": "write", "arguments": {"content": "long enough", "file_path": "a"}}]}),
    );
    let tools = |name: &str| {
        bench.tools.get(name).map(|(definition, schema)| super::KnownTool { definition, schema })
    };
    let guard = super::Guardrail::new(&bench.curated, &tools);
    let text = json!([{"tool_slug": "X", "arguments": {}}]).to_string();
    let rejected = guard.check(tools("plan").unwrap(), json!({"steps": text})).unwrap_err();
    assert!(rejected.proposal.is_some(), "the text has an obvious repair");
}

#[test]
fn list_named_by_map_and_schema_is_checked_once() {
    let schema = json!({"type": "object", "properties": {"steps": {"type": "array", "format": "calls"}}});
    let bench = GuardrailFixture::with_map("tools: {plan: {calls: steps}}\n").with_tool("plan", schema);
    assert_eq!(problems_of(&bench, "plan", json!({"steps": [7]})), [problem("/steps/0", "object")]);
}

#[test]
fn all_problems_of_one_inner_call_are_counted() {
    let bench = GuardrailFixture::with_shipped_map()
        .with_tool("closed", json!({"type": "object", "additionalProperties": false}));
    let unknown: serde_json::Map<String, Value> = (0..40).map(|n| (format!("k{n}"), json!(n))).collect();
    let calls = json!({"tools": [{"tool_slug": "closed", "arguments": unknown}]});
    let refusal = bench.call(OUTER, calls).unwrap();
    let rest = 40 - refusal.problems.len();
    assert!(refusal.reason.contains(&format!("And {rest} problems more.")), "{}", refusal.reason);
}

#[test]
fn depth_and_number_of_nested_calls_are_bounded() {
    let bench = GuardrailFixture::with_shipped_map();
    let call = |tools: Value| json!({"tool_slug": OUTER, "arguments": {"tools": tools}});
    let many = |count: usize| Value::from(vec![json!({"tool_slug": "write", "arguments": {}}); count]);
    let refusal = bench.call(OUTER, json!({"tools": many(65)})).unwrap();
    assert!(refusal.problems[0].expected.starts_with("at most 64 calls"), "{refusal:?}");
    assert_eq!(refusal.problems.len(), 1, "none of them is looked at");
    // Problems beyond the listed ones are counted.
    let counted = |tools: Value, expect: usize| {
        let refusal = bench.call(OUTER, json!({"tools": tools})).unwrap();
        let rest = expect - refusal.problems.len();
        assert!(
            refusal.reason.contains(&format!("And {rest} problems more.")),
            "{expect}: {}",
            refusal.reason
        );
    };
    counted(many(64), 128);
    let mut tools = json!([]);
    for _ in 0..2 {
        tools = json!([call(tools)]);
    }
    bench.assert_passes(OUTER, json!({"tools": tools}));
    let deeper = bench.call(OUTER, json!({"tools": [call(tools)]})).unwrap();
    assert!(deeper.problems[0].got.ends_with("4 deep"), "{deeper:?}");
    // At most 256 inner calls are checked: 4 outer ones and four lists of 63.
    counted(Value::from(vec![call(many(63)); 4]), 4 * 63 * 2);
    counted(json!([call(many(63)), call(many(63)), call(many(63)), call(many(64))]), 3 * 63 * 2 + 1);
    // 60 outer ones and three lists of 60 are checked; the other 57 lists exceed the limit.
    counted(Value::from(vec![call(many(60)); 60]), 3 * 60 * 2 + 57);
}
