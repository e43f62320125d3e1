//! Manifests of a public system, unchanged, and the forms that such files use.

use std::path::Path;

use serde_json::json;

use super::{check, good, read, shown};
use crate::diagnostic::DiagnosticCode::{IgnoredField, UnknownField};
use crate::{CommandLine, Diagnostic, DiagnosticSeverity, Manifest, load_all};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/aios");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn errors(found: &[Diagnostic]) -> Vec<(&str, u64, &str)> {
    let errors = found.iter().filter(|one| one.severity() == DiagnosticSeverity::Error);
    errors.map(|one| (one.code.as_str(), one.error.line, one.field.as_str())).collect()
}

/// Loads a public file and returns the names of its tools.
#[track_caller]
fn commands(name: &str) -> (Manifest, Vec<String>) {
    let (manifest, found) = read(&fixture(name));
    let manifest = manifest.unwrap_or_else(|| panic!("{name}\n{}", shown(&found)));
    let names = manifest.tools().map(|(_, tool)| tool.name().to_string()).collect();
    (manifest, names)
}

#[test]
fn public_files_load_with_warnings_only() {
    let (manifest, tools) = commands("exa.yaml");
    assert_eq!(tools.len(), 8, "{tools:?}");
    let (_, search) = manifest.tools().next().unwrap();
    assert_eq!(search.name().as_str(), "exa.web_search_exa");
    assert_eq!(search.input_schema()["properties"]["query"], json!({"description": "Search query string"}));
    assert!(search.input_schema().get("required").is_none());
    let mcp = manifest.mcp().unwrap();
    assert!(mcp.server_args[0].starts_with("--tools=web_search_exa,"));
    assert_eq!(mcp.environment_variables[0].name, "EXA_API_KEY");
    assert_eq!(mcp.health_check.as_ref().unwrap().timeout_ms, Some(10000));

    let (manifest, tools) = commands("github-cli.yaml");
    assert_eq!(tools.len(), 16, "{tools:?}");
    assert_eq!(tools[4], "github-cli.gh-pr-list");
    let (list, _) = manifest.tools().nth(4).unwrap();
    assert_eq!(manifest.command_line(list), CommandLine::Implicit(vec!["pr".into(), "list".into()]));

    let (manifest, tools) = commands("n8n.yaml");
    assert_eq!(
        tools,
        [
            "n8n.execute_workflow",
            "n8n.create_workflow",
            "n8n.create_credential",
            "n8n.update_credential",
            "n8n.delete_credential"
        ]
    );
    let schema = manifest.tools().next().unwrap().1.input_schema();
    assert_eq!(schema["required"], json!(["workflow_id"]), "from the checks, not from the example");
    assert_eq!(manifest.tools().nth(1).unwrap().1.input_schema()["required"], json!([]));

    assert_eq!(
        commands("tool-v2.0-complex.yaml").1,
        ["test-complex.create_item", "test-complex.update_item"]
    );
}

/// Examples without a scenario and mappings without a structure violate the specification.
#[test]
fn only_violations_of_the_specification_stop_a_public_file() {
    let (_, found) = read(&fixture("clickup.yaml"));
    assert_eq!(
        errors(&found),
        [
            ("MISSING_REQUIRED_FIELD", 282, "tool.api_complexity.field_mappings.assignees"),
            ("MISSING_REQUIRED_FIELD", 299, "tool.api_complexity.field_mappings.list_id"),
            ("MISSING_REQUIRED_FIELD", 387, "tool.examples.story_creation_workflow[0].scenario"),
            ("MISSING_REQUIRED_FIELD", 407, "tool.examples.story_creation_workflow[1].scenario"),
        ],
        "{}",
        shown(&found)
    );
}

#[test]
fn keys_of_informing_sections_are_warnings() {
    check(
        &good(
            "  anti_patterns:\n    - {pattern: p, description: d, wrong: w, correct: c, severity: high, ratonale: x}\n",
        ),
        &[
            (IgnoredField, 9, "tool.anti_patterns[0].severity"),
            (IgnoredField, 9, "tool.anti_patterns[0].ratonale"),
        ],
    );
    check(
        &good(
            "  api_complexity: {states: [a], api_quirks: [{quirk: q, description: d, mitigation: m, since: 1}]}\n",
        ),
        &[
            (IgnoredField, 8, "tool.api_complexity.states"),
            (IgnoredField, 8, "tool.api_complexity.api_quirks[0].since"),
        ],
    );
    // Lines of a server's section may contain a secret, so they are reported without an excerpt.
    let codes = |section: &str| {
        let (_, found) = read(&good(&format!("  mcp_specific: {{{section}}}\n")));
        found.iter().map(|one| (one.code, one.field.clone())).collect::<Vec<_>>()
    };
    assert_eq!(codes("server_command: s, notes: x"), [(IgnoredField, "tool.mcp_specific.notes".to_owned())]);
    // What decides how the tool runs stays strict.
    assert_eq!(
        codes("server_comand: s, transport: sse, url: 'https://a.org'"),
        [(UnknownField, "tool.mcp_specific.server_comand".to_owned())]
    );
    for stated in ["env: {A: b}", "api_key: a", "headers: {A: b}"] {
        let found = codes(&format!("server_command: s, {stated}"));
        assert!(found.iter().any(|(code, _)| *code == UnknownField), "{stated}: {found:?}");
    }
}

#[test]
fn unknown_checks_beside_a_function_are_warnings() {
    let validator = "  commands: [a]\n  executable_knowledge:\n    validators:\n      - id: v\n        validates: a\n        \
                     language: javascript\n        function: x\n        checks:\n          - required_fields: [n]\n          \
                     - custom: text\n          - words\n          - format: colour\n";
    let field = "tool.executable_knowledge.validators[0].checks";
    check(
        &good(validator),
        &[(IgnoredField, 17, field), (IgnoredField, 18, field), (IgnoredField, 19, field)],
    );
}

#[test]
fn unusable_servers_and_examples_are_reported() {
    for transport in ["sse", "websocket", "streamable_http", "stdio"] {
        check(
            &good(&format!("  mcp_specific: {{transport: {transport}}}\n")),
            &[(IgnoredField, 8, "tool.mcp_specific")],
        );
    }
    check(&good("  examples: 5\n"), &[(IgnoredField, 8, "tool.examples")]);
    let first = good("  examples: 5\n").replace("2.0", "1.0");
    check(&first, &[(IgnoredField, 8, "tool.examples")]);
    check(&good("  tools: 5\n"), &[(IgnoredField, 8, "tool.tools")]);
    check(
        &good(
            "  mcp_specific: {server_command: s, health_check: {method: tool_call, expected_response: text}}\n",
        ),
        &[(IgnoredField, 8, "tool.mcp_specific.health_check.expected_response")],
    );
}

#[test]
fn forms_of_public_files_are_read() {
    let text = good(
        "  mcp_specific:\n    connection: {type: http, url: 'https://a.org/mcp'}\n    environment_variables: {API_KEY: needed}\n  \
         commands:\n    create: {description: d, parameters: {name: {type: string, required: true}, size: a size}}\n",
    );
    let (manifest, found) = read(&text);
    let manifest = manifest.unwrap_or_else(|| panic!("{}", shown(&found)));
    assert!(found.is_empty(), "{}", shown(&found));
    let mcp = manifest.mcp().unwrap();
    assert_eq!(mcp.url.as_deref(), Some("https://a.org/mcp"));
    assert_eq!(mcp.environment_variables[0].key_name(), "api_key");
    let schema = manifest.tools().next().unwrap().1.input_schema();
    assert_eq!(schema["required"], json!(["name"]));
    assert_eq!(schema["properties"]["size"], json!({"description": "a size"}));

    let cli = good("  cli_specific: {executables: [ff], verification: ff -version}\n  command_groups:\n    all: [ff info FILE]\n")
        .replace("type: mcp", "type: cli");
    let (manifest, found) = read(&cli);
    let manifest = manifest.unwrap_or_else(|| panic!("{}", shown(&found)));
    let section = manifest.cli().unwrap();
    assert_eq!((section.executable.as_str(), section.install_check_args()), ("ff", Some(vec!["-version"])));
    assert_eq!(manifest.tools().next().unwrap().1.name().as_str(), "task-board.ff-info");
}

#[test]
fn value_of_a_variable_is_not_read_and_not_shown() {
    let text = good(
        "  mcp_specific:\n    server_command: s\n    environment_variables:\n      - {name: KEY, value: planted7f3a}\n",
    );
    let (manifest, found) = read(&text);
    assert!(
        manifest.is_some() && found.len() == 1 && !shown(&found).contains("planted"),
        "{}",
        shown(&found)
    );
}

#[test]
fn manifest_without_commands_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    std::fs::write(&file, good("")).unwrap();
    let loaded = load_all(&[file], &strict_yaml::Document::read, &super::syntax, &|_| false);
    assert_eq!(loaded.manifests.len(), 1);
    let codes: Vec<_> = loaded.diagnostics.iter().map(|one| one.code.as_str()).collect();
    assert_eq!(codes, ["NO_COMMANDS"]);
}

#[test]
fn command_line_of_a_program_comes_from_argv_or_from_the_name() {
    let line = |command: &str| {
        let text = good(&format!("  cli_specific: {{executable: /usr/bin/gh}}\n  commands: [{command}]\n"))
            .replace("type: mcp", "type: cli");
        let manifest = read(&text).0.unwrap();
        let (command, _) = manifest.tools().next().unwrap();
        manifest.command_line(command)
    };
    let words = |words: &[&str]| CommandLine::Implicit(words.iter().map(|word| (*word).to_owned()).collect());
    assert_eq!(line("gh pr list"), words(&["pr", "list"]));
    assert_eq!(line("status"), words(&["status"]));
    assert_eq!(line("{name: x_y, argv: [x]}"), CommandLine::Declared);
    assert_eq!(line("list_issues"), CommandLine::Unclear);
    assert_eq!(line("{name: status, parameters: [{name: a, type: string}]}"), CommandLine::Unclear);
}

#[test]
fn verification_runs_nothing_but_a_version_command() {
    for command in
        ["ff -rf", "ff --version extra", "ff --version; id", "sh -c id", "ff", "", "ff -v -v", "ff --eval"]
    {
        let cli = good(&format!(
            "  cli_specific: {{executables: [ff], verification: {command:?}}}\n  command_groups:\n    all: [ff info FILE]\n"
        ))
        .replace("type: mcp", "type: cli");
        let (manifest, found) = read(&cli);
        let manifest = manifest.unwrap_or_else(|| panic!("{command}: {}", shown(&found)));
        assert_eq!(manifest.cli().unwrap().install_check_args(), None, "{command}");
    }
}
