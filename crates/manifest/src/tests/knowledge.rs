//! Tests of the sections of 2.0: functions, mappings, anti-patterns, examples and references.

use serde_json::json;

use super::{check, good, read, shown};
use crate::diagnostic::DiagnosticCode::*;

fn functions(text: &str) -> String {
    good(&format!("  executable_knowledge:\n{text}"))
}

#[test]
fn each_function_kind_requires_its_keys() {
    check(
        &functions("    helpers:\n      - {id: h, language: javascript, function: f}\n"),
        &[(MissingRequiredField, 10, "tool.executable_knowledge.helpers[0].runtime")],
    );
    check(&functions("    processors:\n      - {id: p, language: javascript, function: f}\n"), &[]);
    check(
        &functions("    validators:\n      - {id: v, language: javascript, function: f}\n"),
        &[(MissingRequiredField, 10, "tool.executable_knowledge.validators[0].validates")],
    );
    check(
        &functions("    helpers:\n      - {id: h, language: python, runtime: vm2, function: f}\n"),
        &[
            (InvalidEnumValue, 10, "tool.executable_knowledge.helpers[0].language"),
            (InvalidEnumValue, 10, "tool.executable_knowledge.helpers[0].runtime"),
        ],
    );
    check(
        &functions("    processors:\n      - {id: p, language: javascript, function: [a]}\n"),
        &[(InvalidType, 10, "tool.executable_knowledge.processors[0].function")],
    );
    check(&functions("    helpers: text\n"), &[(InvalidType, 9, "tool.executable_knowledge.helpers")]);
}

#[test]
fn syntax_error_has_its_position_in_the_file() {
    let text = functions(
        "    validators:\n      - id: v-one\n        validates: create\n        language: javascript\n        \
         function: |\n          function v(args) {\n            return %% 1;\n          }\n",
    );
    let field = "tool.executable_knowledge.validators[0].function";
    check(&text, &[(InvalidFunctionSyntax, 15, field)]);
    let reported = shown(&read(&text).1);
    assert!(
        reported.contains("validator `v-one` cannot be parsed") && reported.contains("t.yaml:15:20"),
        "{reported}"
    );
}

#[test]
fn function_that_uses_modules_or_files_is_refused() {
    for reaching in ["const fs = require('fs')", "import('os')", "fs.readFileSync('/x')"] {
        let text = functions(&format!(
            "    processors:\n      - id: p\n        language: javascript\n        function: |\n          {reaching}\n"
        ));
        check(&text, &[(InvalidFunctionSyntax, 13, "tool.executable_knowledge.processors[0].function")]);
    }
    let harmless = "    processors:\n      - {id: p, language: javascript, function: \"// require('x')\"}\n";
    check(&functions(harmless), &[]);
}

#[test]
fn missing_export_is_found_at_load() {
    for function in ["function f(a) { return a; }\\nmodule.exports = { g };", "const f = (a) => a;"] {
        let text = functions(&format!(
            "    processors:\n      - {{id: p, language: javascript, function: \"{function}\"}}\n"
        ));
        check(&text, &[(UnresolvedReference, 10, "tool.executable_knowledge.processors[0].function")]);
    }
}

#[test]
fn duplicate_names_are_refused() {
    let twice = "    helpers:\n      - {id: h, language: javascript, runtime: isolated_vm, function: f}\n      \
                 - {id: h, language: javascript, runtime: isolated_vm, function: g}\n";
    check(&functions(twice), &[(DuplicateId, 11, "tool.executable_knowledge.helpers[1].id")]);
    check(&good("  commands: [a, b, a]\n"), &[(DuplicateId, 8, "tool.commands[2].name")]);
}

#[test]
fn api_description_requires_its_fields() {
    let api = |text: &str| good(&format!("  api_complexity:\n{text}"));
    check(
        &api("    payload_schemas:\n      - {type: a}\n"),
        &[
            (MissingRequiredField, 10, "tool.api_complexity.payload_schemas[0].detection"),
            (MissingRequiredField, 10, "tool.api_complexity.payload_schemas[0].payload_path"),
        ],
    );
    let detection = |rule: &str| {
        api(&format!(
            "    payload_schemas:\n      - {{type: a, detection: \"{rule}\", payload_path: body.payload}}\n"
        ))
    };
    for rule in ["event field exists", "webhook_id field", "event", "body.event == 'created'"] {
        check(&detection(rule), &[]);
    }
    let prose = "whenever the server feels like it";
    check(&detection(prose), &[(IgnoredField, 10, "tool.api_complexity.payload_schemas[0].detection")]);
    check(
        &api("    api_quirks:\n      - {quirk: q, description: d}\n"),
        &[(MissingRequiredField, 10, "tool.api_complexity.api_quirks[0].mitigation")],
    );
    let group = "    field_mappings:\n      custom_fields:\n        location:\n          structure: {lat: number}\n        \
                 assignees:\n          note: different\n      due: {structure: date}\n";
    check(
        &api(group),
        &[(MissingRequiredField, 14, "tool.api_complexity.field_mappings.custom_fields.assignees")],
    );
    check(
        &api("    field_mappings: {due: {extraction: helpers.none}}\n"),
        &[(UnresolvedReference, 9, "tool.api_complexity.field_mappings.due.extraction")],
    );
    check(
        &good("  anti_patterns:\n    - {pattern: p, description: d, wrong: w, category: bad}\n"),
        &[
            (MissingRequiredField, 9, "tool.anti_patterns[0].correct"),
            (IgnoredField, 9, "tool.anti_patterns[0].category"),
        ],
    );
}

#[test]
fn unresolved_references_are_reported() {
    let text = "  commands: [create]\n  executable_knowledge:\n    validators:\n      - {id: v, validates: craete, \
                language: javascript, function: f}\n";
    check(&good(text), &[(IgnoredField, 11, "tool.executable_knowledge.validators[0].validates")]);
    assert!(shown(&read(&good(text)).1).contains("did you mean `create`?"));
    let meta = "tool: {id: m, type: meta, name: n, version: 1.0.0, description: d, \
                meta_specific: {aggregates: [], orchestration: helpers.plan}}\n";
    check(meta, &[(UnresolvedReference, 1, "tool.meta_specific.orchestration")]);
    check(
        &good("  commands: [{name: a, process_output: p}]\n"),
        &[(UnresolvedReference, 8, "tool.commands[0].process_output")],
    );
}

#[test]
fn meta_tool_cannot_have_an_input_processor() {
    let knowledge =
        "  executable_knowledge:\n    processors:\n      - {id: p, language: javascript, function: f}\n";
    let meta = |key: &str| {
        let text =
            format!("  meta_specific: {{aggregates: []}}\n  commands: [{{name: a, {key}: p}}]\n{knowledge}");
        good(&text).replace("type: mcp", "type: meta")
    };
    check(&meta("process_input"), &[(InvalidValue, 9, "tool.commands[0].process_input")]);
    check(&meta("process_output"), &[]);
}

#[test]
fn missing_scenarios_are_warnings() {
    let examples = |text: &str| good(&format!("  examples:\n    create:\n{text}"));
    check(
        &examples("      - {scenario: success, input: {}, output: {}}\n"),
        &[
            (MissingScenario, 9, "tool.examples.create"),
            (MissingScenario, 9, "tool.examples.create"),
            (MissingScenario, 9, "tool.examples.create"),
        ],
    );
    let rest = "      - {scenario: failure_invalid_param, input: {}, error: {code: A}}\n      \
                - {scenario: failure_api_error, input: {}, error: {code: A}}\n      \
                - {scenario: edge_case_odd, input: {}, output: 1, mitigation: m}\n";
    check(&examples(rest), &[(MissingScenario, 9, "tool.examples.create")]);
    let whole = format!("      - {{scenario: success, input: {{}}, output: {{}}}}\n{rest}");
    check(&examples(&whole), &[]);
    let bare = format!("{whole}      - {{scenario: failure_bare, input: {{}}}}\n");
    check(&examples(&bare), &[(MissingRequiredField, 14, "tool.examples.create[4]")]);
    let none = format!("{whole}      - {{scenario: edge_case_bare}}\n");
    check(
        &examples(&none),
        &[
            (MissingRequiredField, 14, "tool.examples.create[4].input"),
            (MissingRequiredField, 14, "tool.examples.create[4]"),
        ],
    );
    let odd = format!("{whole}      - {{scenario: perhaps, input: {{}}, output: 1}}\n");
    check(&examples(&odd), &[(NamingConvention, 14, "tool.examples.create[4]")]);
    check(&good("  examples: {create: text}\n"), &[(IgnoredField, 8, "tool.examples.create")]);
}

#[test]
fn parameters_inferred_from_examples_are_marked() {
    let text = good(
        "  commands: [create]\n  examples:\n    create:\n      \
         - {scenario: success, input: {name: x, size: 1}, output: 1}\n      \
         - {scenario: success, input: {name: y, tags: [a]}, output: 1}\n",
    );
    let manifest = read(&text).0.unwrap();
    let (_, tool) = manifest.tools().next().unwrap();
    let expect = json!({"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"},
        "tags": {"type": "array"}}, "required": [], "additionalProperties": true, "x-sinew-inferred": true});
    assert_eq!(tool.input_schema(), &expect);
    assert_eq!(tool.example(), Some(&json!({"name": "x", "size": 1})));
}
