//! Sections in shapes that the specification does not describe. What only informs never keeps a file from loading;
//! what decides what runs does.

use serde_json::json;

use super::{check, good, read, shown};
use crate::diagnostic::DiagnosticCode::*;
use crate::{DiagnosticSeverity, Manifest};

/// Loads a manifest that may have warnings, and no errors.
#[track_caller]
fn loads(text: &str) -> Manifest {
    let (manifest, found) = read(text);
    let errors = found.iter().filter(|one| one.severity() == DiagnosticSeverity::Error).count();
    assert_eq!(errors, 0, "{text}\n{}", shown(&found));
    manifest.unwrap_or_else(|| panic!("{text}\n{}", shown(&found)))
}

fn names(manifest: &Manifest) -> Vec<String> {
    manifest.tools().map(|(_, tool)| tool.name().as_str().split_once('.').unwrap().1.to_owned()).collect()
}

/// Each informing section in each shape, in both schema versions.
#[test]
fn informing_sections_of_any_shape_load() {
    let sections = [
        "capabilities",
        "use_cases",
        "best_practices",
        "limitations",
        "installation",
        "authentication",
        "error_handling",
        "integration_patterns",
        "metadata",
        "rate_limits",
        "notes",
        "anti_patterns",
        "api_complexity",
        "examples",
    ];
    let shapes = [
        "text",
        "5",
        "2.5",
        "true",
        "~",
        "",
        "[]",
        "{}",
        "[a, 1, ~, {b: c}, [d]]",
        "{a: 1, b: ~, c: [x], d: {e: f}}",
    ];
    for section in sections {
        for shape in shapes {
            let text = good(&format!("  commands: [c]\n  {section}: {shape}\n"));
            let versions = ["  schema_version: 2.0\n", "  schema_version: 1.0\n", ""];
            for version in versions {
                let text = text.replace("  schema_version: 2.0\n", version);
                // An incomplete entry is an error, and the file still loads.
                let (manifest, found) = read(&text);
                let manifest = manifest.unwrap_or_else(|| panic!("{text}\n{}", shown(&found)));
                assert_eq!(names(&manifest), ["c"], "{text}");
            }
        }
    }
}

#[test]
fn entries_of_informing_sections_keep_what_is_readable() {
    let text = good(
        "  anti_patterns:\n    no_retry: {description: 5, wrong: [a, b], correct: {c: d}, rationale: [x], category: 7}\n    loose: text\n  \
         api_complexity:\n    payload_schemas: {first: {detection: event, payload_path: 3}}\n    api_quirks:\n      - text\n      - {quirk: 1, \
         description: [d], mitigation: {m: n}, impact: ~}\n    field_mappings: {due: {structure: date, note: 5}}\n",
    );
    let (manifest, found) = read(&text);
    let manifest = manifest.unwrap_or_else(|| panic!("{}", shown(&found)));
    let pattern = &manifest.anti_patterns()[0];
    assert_eq!(
        (
            pattern.pattern.as_str(),
            pattern.description.as_str(),
            pattern.wrong.as_str(),
            pattern.correct.as_str()
        ),
        ("no_retry", "5", "[\"a\",\"b\"]", "{\"c\":\"d\"}")
    );
    assert_eq!(manifest.anti_patterns().len(), 1, "an entry without its required fields is left out");
    assert_eq!(manifest.api().payload_schemas[0].payload_path, "3");
    assert_eq!(manifest.api().api_quirks.len(), 1);
}

/// The specification demands these fields; the entry is lost, the tools are not.
#[test]
fn error_in_an_informing_section_costs_only_its_entry() {
    let text = good(
        "  commands: [c]\n  anti_patterns:\n    - {pattern: a}\n    - {pattern: b, description: d, wrong: w, correct: c}\n  examples:\n    c:\n      \
         - {input: {}, output: 1}\n      - {scenario: success, input: text, output: 1}\n      - {scenario: success, input: {n: 1}, output: ~}\n",
    );
    let (manifest, found) = read(&text);
    let errors = found.iter().filter(|one| one.severity() == DiagnosticSeverity::Error).count();
    assert_eq!(errors, 5, "{}", shown(&found));
    let manifest = manifest.unwrap_or_else(|| panic!("{}", shown(&found)));
    assert_eq!(manifest.anti_patterns().len(), 1);
    let examples = manifest.examples("c");
    assert_eq!(examples.len(), 1);
    assert_eq!(examples[0].input["n"], 1);
}

#[test]
fn examples_in_other_forms_are_read() {
    let listed = good(
        "  commands: [c]\n  examples:\n    - {command: c, scenario: success, input: {n: ~}, output: {a: ~}}\n    - {command: c, scenario: \
         failure_x, input: ~, error: no}\n    - {command: d, scenario: success, input: {}, output: 1}\n",
    );
    let manifest = loads(&listed);
    let examples = manifest.examples("c");
    assert_eq!(examples[0].input["n"], json!(null), "null is data in an example");
    assert_eq!(examples[0].output, Some(json!({"a": null})));
    assert_eq!(examples[1].error.as_ref().unwrap().message.as_deref(), Some("no"));
    let single = good("  examples: {c: {scenario: success, input: {}, output: 1}}\n");
    assert_eq!(names(&loads(&single)), ["c"], "a command that only an example names");
    let coded = good(
        "  examples: {c: [{scenario: failure_x, input: {}, error: {code: 404, message: [a], validator: v}, mitigation: {b: c}}]}\n",
    );
    let error = loads(&coded).examples("c")[0].error.clone().unwrap();
    assert_eq!((error.code.as_deref(), error.message.as_deref()), (Some("404"), Some("[\"a\"]")));
    let lines = good("  commands: [c]\n  examples: {usage: [gh pr list, gh pr view 5], c: [a line]}\n");
    assert!(loads(&lines).examples("c").is_empty());
    let prose = good("  examples: {basic: [{description: d}], flow: [{step: 1, input: {}}]}\n");
    assert!(read(&prose).0.is_some_and(|manifest| manifest.tools().next().is_none()));
    // Version 1.0 files may have examples of the same form.
    let first =
        good("  commands: [c]\n  examples: {c: [{scenario: success, input: {}, output: 1}, {input: {}}]}\n");
    let first = loads(&first.replace("schema_version: 2.0", "schema_version: 1.0"));
    assert_eq!(first.examples("c").len(), 1);
}

#[test]
fn commands_are_read_in_every_form() {
    for listed in [
        "commands: [a_b, c]",
        "commands: [{name: a_b, usage: u, flags: [x], returns: ~}, {id: c}]",
        "commands: [{a_b: text}, {c: {description: d, notes: [n]}}]",
        "commands: {a_b: text, c: {description: d}}",
        "commands: {group: [a_b, {command: c}]}",
        "tools: [{name: a_b, category: search}, {id: c, parameters: ~}]",
        "tools: [a_b, {c: text}]",
        "tools: {group: [a_b], c: text}",
        "commands: [a_b]\n  tools: [a_b, c]",
        "commands: []\n  tools: [a_b, c]",
        "examples: {a_b: [{scenario: success, input: {}, output: 1}], c: [{scenario: success, input: {}, output: 1}]}",
    ] {
        let text = good(&format!("  {listed}\n"));
        let mut found = names(&loads(&text));
        found.sort();
        assert_eq!(found, ["a_b", "c"], "{text}");
    }
    check(&good("  tools: [{description: d, notes: n}]\n"), &[(IgnoredField, 8, "tool.tools")]);
}

#[test]
fn parameters_are_read_in_every_form() {
    let schema = |parameters: &str| {
        let text = good(&format!("  commands:\n    - name: c\n      parameters: {parameters}\n"));
        loads(&text).tools().next().unwrap().1.input_schema().clone()
    };
    for described in [
        "[a, b]",
        "[{a: text}, {b: {type: string}}]",
        "{a: text, b: {type: int}}",
        "[{name: a, description: d}, {name: b}]",
    ] {
        let found = schema(described);
        assert!(
            found["properties"]["a"].is_object() && found["properties"]["b"].is_object(),
            "{described}: {found}"
        );
        assert!(found.get("required").is_none_or(|required| *required == json!([])), "{described}: {found}");
    }
    let found = schema(
        "[{name: a, type: int, required: true, minimum: 1, example: 5}, {name: b, type: str, required: false, enum: [x, y]}]",
    );
    assert_eq!(found["required"], json!(["a"]));
    assert_eq!(
        (&found["properties"]["a"]["type"], &found["properties"]["a"]["minimum"]),
        (&json!("integer"), &json!(1))
    );
    assert_eq!(found["properties"]["b"]["enum"], json!(["x", "y"]));
    let found = schema("[{name: a, type: file, required: true}, {name: b, type: string}]");
    assert_eq!((&found["required"], &found["properties"]["a"]["type"]), (&json!(["a"]), &json!(null)));
    assert!(schema("see the documentation").is_object());
}

#[test]
fn command_groups_are_read_in_every_form() {
    let commands = |groups: &str| {
        let text = good(&format!("  cli_specific: {{executable: gh}}\n  command_groups: {groups}\n"));
        names(&loads(&text.replace("type: mcp", "type: cli")))
    };
    for groups in [
        "{pr: [gh pr list, {command: gh pr view, usage: gh x}]}",
        "[gh pr list, gh pr view NUMBER]",
        "{pr: {list: gh pr list --json, view: {command: gh pr view, description: 5}}}",
        "{pr: {description: gh y, commands: [gh pr list, gh pr view]}}",
        "{pr: \"gh pr list\\ngh pr view\\n# gh\", other: ~, more: [git x, 5, ~]}",
    ] {
        assert_eq!(commands(groups), ["gh-pr-list", "gh-pr-view"], "{groups}");
    }
    assert!(commands("text").is_empty());
}

#[test]
fn type_sections_without_a_program_list_their_commands() {
    for (kind, section) in [
        ("cli", "cli_specific: {configuration: {a: b}, install_guide: {linux: apt}}"),
        ("cli", "cli_specific: text"),
        ("local", "local_specific: {runtime: bash, scripts: [a.sh]}"),
        ("local", "local_specific: [a]"),
        ("mcp", "mcp_specific: npx -y x"),
        ("mcp", "mcp_specific: {health_check: ping, tools: [a], config: ~}"),
        ("mcp", "mcp_specific: {server_command: s, health_check: {endpoint: /x, interval: 5}}"),
        (
            "mcp",
            "mcp_specific: {server_command: s, health_check: {method: tool_call, command: [a], timeout_ms: soon}}",
        ),
        ("meta", "meta_specific: text"),
    ] {
        let text =
            good(&format!("  commands: [c]\n  {section}\n")).replace("type: mcp", &format!("type: {kind}"));
        assert_eq!(names(&loads(&text)), ["c"], "{text}");
    }
}

#[test]
fn server_commands_are_read_in_every_form() {
    let server = |section: &str| {
        let manifest = loads(&good(&format!("  mcp_specific: {{{section}}}\n")));
        let mcp = manifest.mcp().unwrap();
        (mcp.server_command.clone().unwrap(), mcp.server_args.clone())
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        server("server_command: [npx, -y, a b], server_args: [--port, 80]"),
        ("npx".into(), words(&["-y", "a b", "--port", "80"]))
    );
    assert_eq!(
        server("server_command: npx -y x, server_args: --a --b, transport: STDIO"),
        ("npx -y x".into(), words(&["--a", "--b"]))
    );
    assert_eq!(server("connection: {command: uvx, args: [s]}"), ("uvx".into(), words(&["s"])));
}

/// Values that decide execution, location, rights or refusals are never guessed.
#[test]
fn deciding_values_stay_strict() {
    for more in [
        "commands: [{name: c, argv: ~}]",
        "commands: [{name: c, requires_approval: ~}]",
        "commands: [{name: c, requires_approval: maybe}]",
        "commands: [{name: c, allowed_modes: anywhere}]",
        "commands: [{name: c, risk_level: tiny}]",
        "commands: [{name: c, timeout_seconds: soon}]",
        "commands: 5",
        "executable_knowledge: {validators: ~}",
        "executable_knowledge: {validators: [{id: v, validates: c, language: javascript}]}",
        "executable_knowledge: {validators: [{id: v, validates: c, language: javascript, function: ~}]}",
        "executable_knowledge: {validators: [{id: v, validates: [c], language: javascript, function: f}]}",
        "mcp_specific: {server_command: {a: b}}",
        "mcp_specific: {server_command: s, transport: carrier-pigeon}",
        "mcp_specific: {server_command: ~}",
        "mcp_specific: {server_command: s, server_args: {a: b}}",
        "permissions: [all]",
    ] {
        let (manifest, found) = read(&good(&format!("  {more}\n")));
        assert!(manifest.is_none(), "{more}\n{}", shown(&found));
    }
}
