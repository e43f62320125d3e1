//! Hostile schemas: each is refused or cheap to evaluate.

use serde_json::{Map, json};

use super::*;

fn compiles(schema: &Value) -> InputSchema {
    InputSchema::compile(schema).unwrap_or_else(|error| panic!("{error}: {schema:.200}"))
}

#[track_caller]
fn assert_refused(schema: &Value, expect: &str) {
    let error = InputSchema::compile(schema).map(|_| ()).expect_err("it compiled").to_string();
    assert!(error.contains(expect), "{error}");
}

#[test]
fn external_references_are_refused() {
    assert_refused(&json!({"properties": {"a": {"$ref": "http://127.0.0.1:1/x.json"}}}), "cannot be used");
    assert_refused(&json!({"$ref": "file:///etc/passwd"}), "cannot be used");
    assert_refused(&json!({"$ref": "other.json"}), "cannot be used");
    assert_refused(&json!({"$ref": "#/$defs/nowhere"}), "cannot be used");
    assert_refused(&json!({"properties": {"a": {"$id": "https://example.org/a"}}}), "`$id` of its own");
}

/// A remote reference is never followed: no connection is made.
#[test]
fn remote_reference_opens_no_connection() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = format!("http://{}/x.json", listener.local_addr().unwrap());
    assert_refused(&json!({"properties": {"a": {"$ref": address}}}), "cannot be used");
    assert_refused(&json!({"$schema": address}), "declares the dialect");
    let error = listener.accept().expect_err("a connection was made");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn depth_is_bounded_even_at_ten_thousand_levels() {
    let nested = |levels: usize| {
        let mut schema = json!({"type": "string"});
        for _ in 0..levels {
            schema = Value::Object(Map::from_iter([("items".to_owned(), schema)]));
        }
        schema
    };
    compiles(&nested(MAX_DEPTH - 1));
    assert_refused(&nested(MAX_DEPTH), "deeper than 64 levels");
    let listed = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    compiles(&json!({"enum": listed(MAX_DEPTH - 1)}));
    assert_refused(&json!({"enum": listed(MAX_DEPTH)}), "deeper than 64 levels");
    // Merely dropping such a value needs a large stack; the JSON parser of Sinew never builds one.
    let large = std::thread::Builder::new().stack_size(64 << 20);
    large.spawn(move || assert_refused(&nested(10_000), "deeper than 64 levels")).unwrap().join().unwrap();
    let text = format!("{}1{}", "{\"not\":".repeat(10_000), "}".repeat(10_000));
    assert!(tool::strict_json::parse(&text).is_err());
}

#[test]
fn loops_are_refused_but_recursion_into_values_is_not() {
    let never = "a loop that never reaches a value";
    assert_refused(&json!({"$ref": "#"}), never);
    assert_refused(&json!({"allOf": [{"$ref": "#"}]}), never);
    assert_refused(&json!({"not": {"$ref": "#"}}), never);
    assert_refused(&json!({"if": {"$ref": "#"}}), never);
    assert_refused(&json!({"dependentSchemas": {"a": {"$ref": "#"}}}), never);
    assert_refused(
        &json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        never,
    );
    assert_refused(
        &json!({"$defs": {"a b": {"anyOf": [{"$ref": "#/$defs/a%20b"}]}}, "$ref": "#/$defs/a%20b"}),
        never,
    );
    assert_refused(&json!({"$anchor": "x", "allOf": [{"$ref": "#x"}]}), never);
    assert_refused(&json!({"$dynamicAnchor": "x", "allOf": [{"$dynamicRef": "#x"}]}), never);
    assert_refused(&json!({"$id": "urn:x", "allOf": [{"$ref": "urn:x"}]}), never);
    let around = json!({"$anchor": "x", "allOf": [{"$ref": "#x"}]});
    assert_refused(&json!({"allOf": [around]}), never);
    assert_refused(&json!({"$defs": {"a": around}, "$ref": "#x"}), never);
    assert_refused(&json!({"$defs": {"list": [around]}, "$ref": "#x"}), never);
    let tree = compiles(&json!({"type": "object", "required": ["n"], "additionalProperties": false,
        "properties": {"n": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}}}));
    assert!(tree.validator().is_valid(&json!({"n": 1, "children": [{"n": 2, "children": []}]})));
    assert!(!tree.validator().is_valid(&json!({"n": 1, "children": [{"n": 2, "children": [{}]}]})));
}

/// Builds a schema in which each level is applied twice by the level above.
fn doubling(levels: usize) -> Value {
    let mut definitions = Map::new();
    definitions.insert("a0".into(), json!({"type": "object"}));
    for level in 1..=levels {
        let next_definition = format!("#/$defs/a{}", level - 1);
        definitions.insert(
            format!("a{level}"),
            json!({"allOf": [{"$ref": next_definition}, {"$ref": next_definition}]}),
        );
    }
    json!({"$defs": definitions, "$ref": format!("#/$defs/a{levels}")})
}

#[test]
fn multiplying_schema_is_refused_and_branching_is_not() {
    compiles(&doubling(9));
    assert_refused(&doubling(12), "too expensive to evaluate");
    assert_refused(&doubling(60), "too expensive to evaluate");
    let again = json!({"type": "object", "properties": {"a": {"$ref": "#"}}});
    assert_refused(&json!({"anyOf": [again, again]}), "too expensive to evaluate");
    assert_refused(
        &json!({"anyOf": [again, {"additionalProperties": {"$ref": "#"}}]}),
        "too expensive to evaluate",
    );
    assert_refused(
        &json!({"patternProperties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}}),
        "too expensive to evaluate",
    );
    let mut looking_again = json!({"type": "object"});
    for _ in 0..14 {
        looking_again = json!({"allOf": [looking_again], "unevaluatedProperties": false});
    }
    assert_refused(&looking_again, "too expensive to evaluate");
    let looking_into = |levels: usize| {
        (0..levels).fold(
            json!({"type": "object"}),
            |inner, _| json!({"properties": {"a": inner}, "unevaluatedProperties": false}),
        )
    };
    compiles(&looking_into(5));
    assert_refused(&looking_into(14), "too expensive to evaluate");
    // Doubles only at every fourth level, which is still exponential for a deep value.
    let slow =
        |inner: &Value| json!({"properties": {"a": {"properties": {"a": {"properties": {"a": inner}}}}}});
    let twice =
        json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}}]});
    assert_refused(&slow(&twice), "too expensive to evaluate");
    let operators = json!({"$defs": {"e": {"anyOf": [
        {"type": "object", "properties": {"and": {"type": "array", "items": {"$ref": "#/$defs/e"}}}, "required": ["and"]},
        {"type": "object", "properties": {"or": {"type": "array", "items": {"$ref": "#/$defs/e"}}}, "required": ["or"]},
        {"type": "object", "properties": {"not": {"$ref": "#/$defs/e"}}, "required": ["not"]},
        {"type": "string"}]}}, "type": "object", "properties": {"filter": {"$ref": "#/$defs/e"}}});
    let filter = compiles(&operators);
    assert!(filter.validator().is_valid(&json!({"filter": {"and": [{"not": "x"}, {"or": ["y"]}]}})));
    assert!(!filter.validator().is_valid(&json!({"filter": {"and": [{"not": 1}]}})));
    let variants: Vec<Value> = (0..200)
        .map(|n| json!({"type": "object", "properties": {"kind": {"const": n}, format!("f{n}"): {"type": "string"}}}))
        .collect();
    compiles(&json!({"type": "object", "properties": {"x": {"oneOf": variants}}}));
    compiles(&json!({"allOf": vec![json!({}); 4095]}));
    assert_refused(&json!({"allOf": vec![json!({}); 4096]}), "too expensive to evaluate");
    let many: Map<String, Value> = (0..5000).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect();
    assert_refused(&json!({"properties": many}), "too expensive to evaluate");
}

#[test]
fn patterns_are_bounded_and_linear() {
    assert_refused(
        &json!({"properties": {"a": {"pattern": "((((a{0,99}){0,99}){0,99}){0,99})"}}}),
        "cannot be used",
    );
    assert_refused(&json!({"properties": {"a": {"pattern": "(?=x)y"}}}), "cannot be used");
    let backtracks_elsewhere = compiles(&json!({"pattern": "^(a+)+$"}));
    assert!(!backtracks_elsewhere.validator().is_valid(&json!(format!("{}b", "a".repeat(50_000)))));
}

#[test]
fn huge_enum_is_bounded_and_not_repeated() {
    let words = |count: usize| Value::from_iter((0..count).map(|n| format!("word{n}")));
    assert_refused(&json!({"properties": {"a": {"enum": words(MAX_VALUES)}}}), "more than 100000 values");
    let mut spec = tool::ToolSpec::new("t", "d", tool::Category::READ_ONLY, tool::RiskLevel::Low);
    spec.input_schema =
        Some(json!({"type": "object", "additionalProperties": {"items": {"enum": words(50_000)}}}));
    let definition = std::sync::Arc::new(spec.check().unwrap());
    let schema = compiles(definition.input_schema());
    let refusal = crate::check(&definition, &schema, json!({"a": vec!["x"; 10_000]})).unwrap_err();
    let problem = &refusal.problems[0];
    assert!(problem.expected.starts_with("one of word0, word1, ") && problem.expected.ends_with(" more"));
    assert!(serde_json::to_string(&refusal).unwrap().len() < 16 * 1024);
}

#[test]
fn declared_drafts_apply_and_unknown_ones_are_refused() {
    let with = |dialect: &str| json!({"$schema": dialect, "type": "object", "properties": {"a": {"exclusiveMinimum": true, "minimum": 1}}});
    let four = compiles(&with("http://json-schema.org/draft-04/schema#"));
    assert!(!four.validator().is_valid(&json!({"a": 1})), "a boolean exclusiveMinimum is draft 4's");
    for later in [
        "http://json-schema.org/draft-06/schema#",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        assert_refused(&with(later), "cannot be used");
        let lists = json!({"$schema": later, "properties": {"a": {"items": {"type": "integer"}}}});
        assert!(!compiles(&lists).validator().is_valid(&json!({"a": ["x"]})), "{later}");
    }
    for unknown in [
        "http://json-schema.org/draft-03/schema#",
        "https://example.org/mine",
        "",
        "http://json-schema.org/schema#",
    ] {
        assert_refused(&json!({"$schema": unknown}), "supported are the drafts 4, 6, 7, 2019-09 and 2020-12");
    }
    assert_refused(&json!({"$schema": 7}), "declares the dialect 7");
    let named = json!({"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"$ref": "#whole"}},
        "definitions": {"a": {"$id": "#whole", "type": "integer"}}});
    assert!(!compiles(&named).validator().is_valid(&json!({"n": "x"})), "an `$id` was a name once");
}
