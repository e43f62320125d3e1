//! Tests of the core of a manifest: root, fields and versions.

use super::{check, good, read, shown};
use crate::diagnostic::DiagnosticCode::*;
use crate::schema_version::SchemaVersion;

#[test]
fn all_missing_fields_are_reported_at_once() {
    check(
        "tool:\n  schema_version: 1.0\n",
        &[
            (MissingRequiredField, 2, "tool.id"),
            (MissingRequiredField, 2, "tool.type"),
            (MissingRequiredField, 2, "tool.name"),
            (MissingRequiredField, 2, "tool.version"),
            (MissingRequiredField, 2, "tool.description"),
        ],
    );
    check(
        "tool: {id: a, type: cli, name: '', version: 1.0.0, description: '  '}\n",
        &[(MissingRequiredField, 1, "tool.name"), (MissingRequiredField, 1, "tool.description")],
    );
    check(
        "tool: {id: '', type: cli, name: n, version: '', description: d}\n",
        &[(MissingRequiredField, 1, "tool.id"), (MissingRequiredField, 1, "tool.version")],
    );
}

#[test]
fn tool_is_the_only_root_key() {
    let text = format!("{}health: 1\nother: 2\n", good(""));
    check(&text, &[(InvalidType, 8, "health"), (InvalidType, 9, "other")]);
    check("[a]\n", &[(InvalidType, 1, "")]);
    check("tool: text\n", &[(InvalidType, 1, "tool")]);
    check("tols: {id: a}\n", &[(InvalidType, 1, "tols"), (MissingRequiredField, 1, "tool")]);
    for (text, line) in [("tool: {id: [}\n", 1), ("tool: {id: a}\ntool: {id: b}\n", 2)] {
        check(text, &[(InvalidYaml, line, "")]);
    }
}

#[test]
fn transport_must_match_the_address_scheme() {
    let with = |transport: &str, url: &str| {
        good(&format!("  mcp_specific: {{transport: {transport}, url: '{url}'}}\n"))
    };
    let (web, socket) =
        (["http://a.example/", "https://a.example/"], ["ws://a.example/", "wss://a.example/"]);
    for (transport, spoken, other) in
        [("sse", web, socket), ("streamable_http", web, socket), ("websocket", socket, web)]
    {
        for url in spoken {
            check(&with(transport, url), &[]);
        }
        for url in other.into_iter().chain(["a.example", "file:///a", ""]) {
            check(&with(transport, url), &[(InvalidValue, 8, "tool.mcp_specific.url")]);
        }
        let reported = shown(&read(&with(transport, other[1])).1);
        assert!(reported.contains(&format!("write `{}", &spoken[1][..5])), "{reported}");
    }
    check(&with("stdio, server_command: s", "a.example"), &[]);
}

#[test]
fn unknown_words_are_reported_with_suggestions() {
    let text = "tool:\n  id: a\n  type: mpc\n  name: n\n  version: 1.0.0\n  description: d\n  \
                knowledge_strategy: declarativ\n  mcp_specific: {transport: tcp}\n";
    check(
        text,
        &[
            (InvalidEnumValue, 3, "tool.type"),
            (InvalidEnumValue, 7, "tool.knowledge_strategy"),
            (IgnoredField, 8, "tool.mcp_specific"),
            (InvalidEnumValue, 8, "tool.mcp_specific.transport"),
        ],
    );
    let reported = shown(&read(text).1);
    assert!(
        reported.contains("did you mean `mcp`?") && reported.contains("one of stdio, sse, websocket"),
        "{reported}"
    );
    check(
        &good("  local_specific: {entry_point: x, runtime: 3}\n").replace("mcp", "local"),
        &[(InvalidType, 8, "tool.local_specific.runtime")],
    );
}

#[test]
fn versions_must_be_semantic() {
    let with = |version: &str| good("").replace("version: 1.0.0", &format!("version: {version}"));
    for wrong in ["1.0", "\"1.0\"", "01.0.0", "1", "latest", "1.0.0.0", "v1.0.0"] {
        check(&with(wrong), &[(InvalidSemver, 6, "tool.version")]);
    }
    assert!(shown(&read(&with("1.0")).1).contains("in quotes"));
    for fine in ["1.0.0-beta.1", "\"2.10.3\"", "0.0.1+build.5"] {
        check(&with(fine), &[]);
    }
    check(&with("[1, 0, 0]"), &[(InvalidType, 6, "tool.version")]);
}

#[test]
fn schema_version_has_three_notations() {
    let with = |stated: &str| good("").replace("schema_version: 2.0", &format!("schema_version: {stated}"));
    for fine in ["2.0", "\"2.0\"", "2"] {
        check(&with(fine), &[]);
        assert_eq!(read(&with(fine)).0.unwrap().schema_version(), SchemaVersion::V2);
    }
    for one in ["1.0", "\"1.0\"", "1"] {
        assert_eq!(read(&with(one)).0.unwrap().schema_version(), SchemaVersion::V1);
    }
    for wrong in ["3.0", "\"2.1\"", "two"] {
        check(&with(wrong), &[(InvalidEnumValue, 2, "tool.schema_version")]);
    }
    check(&with("[2]"), &[(InvalidType, 2, "tool.schema_version")]);
}

#[test]
fn schema_version_is_detected_from_sections() {
    let core = "tool:\n  id: a\n  type: cli\n  name: n\n  version: 1.0.0\n  description: d\n";
    let detected = |more: &str| read(&format!("{core}{more}")).0.expect(more).schema_version();
    assert_eq!(detected(""), SchemaVersion::V1);
    assert_eq!(detected("  examples: {a: [{scenario: other, input: {}, output: 1}]}\n"), SchemaVersion::V1);
    for two in [
        "  executable_knowledge: {helpers: []}\n",
        "  api_complexity: {api_quirks: []}\n",
        "  anti_patterns: []\n",
        "  examples: {a: [{scenario: success, input: {}, output: 1}]}\n",
        "  examples: {a: [{scenario: failure_invalid_param, input: {}, error: {code: X}}]}\n",
    ] {
        assert_eq!(detected(two), SchemaVersion::V2, "{two}");
    }
    for odd in
        ["  examples: text\n", "  examples: [1, 2]\n", "  examples: {a: text}\n", "  examples: {a: [1]}\n"]
    {
        assert_eq!(detected(odd), SchemaVersion::V1, "{odd}");
    }
    let explicit = format!("{core}  schema_version: 1.0\n  anti_patterns: [{{pattern: x}}]\n");
    check(&explicit, &[(IgnoredField, 8, "tool.anti_patterns")]);
    assert_eq!(read(&explicit).0.unwrap().schema_version(), SchemaVersion::V1);
    // The rules of 2.0 apply to a detected version as well.
    check(
        &format!("{core}  anti_patterns: [{{pattern: x, description: d, wrong: w}}]\n"),
        &[(MissingRequiredField, 7, "tool.anti_patterns[0].correct")],
    );
}

#[test]
fn id_not_in_kebab_case_is_a_warning() {
    for id in ["Task_Board", "taskBoard", "Task Board"] {
        let text = good("  commands: [ok_name, also-fine, WrongOne]\n")
            .replace("id: task-board", &format!("id: {id}"));
        check(&text, &[(NamingConvention, 3, "tool.id"), (NamingConvention, 8, "tool.commands[2].name")]);
        assert_eq!(read(&text).0.unwrap().tools().count(), 3);
    }
    assert!(shown(&read(&good("").replace("task-board", "taskBoard")).1).contains("write `task-board`"));
}

#[test]
fn ignored_keys_warn_and_misspelt_keys_fail() {
    check(&good("  homepage: x\n"), &[(IgnoredField, 8, "tool.homepage")]);
    check(&good("  executable_knowlege: {}\n"), &[(UnknownField, 8, "tool.executable_knowlege")]);
    check(
        &good("  executable_knowledge: {validator: []}\n"),
        &[(UnknownField, 8, "tool.executable_knowledge.validator")],
    );
    check(&good("  commands: [{name: a, retries: 3}]\n"), &[(IgnoredField, 8, "tool.commands[0].retries")]);
    check(
        &good("  commands: [{name: a, requires_aproval: true}]\n"),
        &[(UnknownField, 8, "tool.commands[0].requires_aproval")],
    );
}

#[test]
fn manifest_cannot_grant_itself_permissions() {
    for power in ["sandbox: none", "network: all", "env: ['*']", "approval: never"] {
        let text = good(&format!("  {power}\n"));
        let (manifest, found) = read(&text);
        assert!(manifest.is_none(), "{power}");
        assert!(shown(&found).contains("only policy may grant it"), "{power}: {}", shown(&found));
    }
    let text = good("  commands: [{name: a}]\n");
    let manifest = read(&text).0.unwrap();
    let (_, tool) = manifest.tools().next().unwrap();
    assert!(tool.requires_sandbox(), "confined, whatever it says");
    assert_eq!((tool.risk_level(), tool.category().as_str()), (tool::RiskLevel::High, "system_write"));
}

#[test]
fn simple_specification_example_loads_unchanged() {
    let text = "tool:\n  id: exa\n  type: mcp\n  name: Exa Search\n  version: 1.0.0\n  \
                description: Web search via Exa API\n  commands:\n    - web_search\n  \
                # No schema_version = auto-detected as v1.0\n  # No executable_knowledge = simple tool\n";
    check(text, &[]);
    let manifest = read(text).0.unwrap();
    assert_eq!(manifest.schema_version(), SchemaVersion::V1);
    assert_eq!(manifest.tools().next().unwrap().1.name().as_str(), "exa.web_search");
}

/// The ellipses of the example are replaced by real content; the rest is unchanged.
#[test]
fn completed_complex_specification_example_loads() {
    let text = "tool:\n  schema_version: 2.0\n  id: clickup\n  type: mcp\n  name: ClickUp\n  version: 1.0.0\n  \
                description: ClickUp project management\n  knowledge_strategy: executable\n\n  executable_knowledge:\n    \
                helpers: [{id: h, language: javascript, runtime: isolated_vm, function: f}]\n    \
                validators: [{id: v, validates: create_task, language: javascript, function: f}]\n\n  api_complexity:\n    \
                payload_schemas: [{type: native, detection: event field exists, payload_path: body}]\n    \
                field_mappings: {due: {structure: date}}\n    \
                api_quirks: [{quirk: q, description: d, mitigation: m}]\n\n  \
                anti_patterns: [{pattern: p, description: d, wrong: w, correct: c}]\n\n  examples:\n    create_task:\n      \
                - scenario: success\n        input: {name: x}\n        output: {id: 1}\n      \
                - scenario: failure_invalid_param\n        input: {}\n        error: {code: INVALID}\n";
    let (manifest, found) = read(text);
    let report_text: Vec<_> = found.iter().map(|one| one.code).collect();
    assert_eq!(report_text, [MissingScenario, MissingScenario], "warnings only: {}", shown(&found));
    assert_eq!(manifest.unwrap().schema_version(), SchemaVersion::V2);
}

#[test]
fn only_the_section_of_the_type_is_used() {
    let mcp = "  mcp_specific:\n    server_command: npx -y @package/server\n    transport: stdio\n    \
               health_check: {method: tool_call, command: health_check, expected_response: {status: ok}}\n";
    check(&good(mcp), &[(IgnoredField, 11, "tool.mcp_specific.health_check.command")]);
    assert!(read(&good(mcp)).0.unwrap().mcp().is_some());
    let cli = "  cli_specific:\n    executable: gh\n    install_check: gh --version\n    install_guide: |\n      \
               Run: brew install gh\n";
    check(&good(cli), &[(IgnoredField, 8, "tool.cli_specific")]);
    let as_cli = good(cli).replace("type: mcp", "type: cli");
    check(&as_cli, &[]);
    assert_eq!(read(&as_cli).0.unwrap().cli().unwrap().executable, "gh");
    check(
        &as_cli.replace("executable: gh", "executable: bash"),
        &[(InvalidValue, 9, "tool.cli_specific.executable")],
    );
    check(
        &as_cli.replace("executable: gh", "executable: gh api"),
        &[(InvalidValue, 9, "tool.cli_specific.executable")],
    );
    let local = "  local_specific: {entry_point: ./scripts/tool.js, runtime: node, dependencies: [a, b]}\n";
    check(&good(local).replace("type: mcp", "type: local"), &[]);
}

#[test]
fn placeholder_must_be_a_whole_word() {
    let with = |argv: &str| {
        good(&format!(
            "  cli_specific: {{executable: rg}}\n  commands:\n    - name: search\n      argv: {argv}\n      \
             parameters: [{{name: pattern, type: string}}, {{name: glob, type: string, required: false}}]\n"
        ))
        .replace("type: mcp", "type: cli")
    };
    check(&with("[-e, '{pattern}', [--glob, '{glob}'], --]"), &[]);
    for spliced in ["['--pattern={pattern}']", "['{pattern}{glob}']", "['{}']", "['a {pattern} b']"] {
        check(&with(spliced), &[(InvalidValue, 11, "tool.commands[0].argv")]);
    }
    check(&with("[['{patern}']]"), &[(UnresolvedReference, 11, "tool.commands[0].argv")]);
    check(&with("[{a: b}]"), &[(InvalidType, 11, "tool.commands[0].argv[0]")]);
}

#[test]
fn path_like_parameter_without_format_is_a_warning() {
    let with = |more: &str| {
        good(&format!("  commands: [{{name: a, parameters: [{{name: path, type: string{more}}}]}}]\n"))
    };
    check(&with(""), &[(NamingConvention, 8, "tool.commands[0].parameters.path")]);
    check(&with(", format: path"), &[]);
    check(
        &with(", default: 4"),
        &[(InvalidValue, 8, "tool.commands[0]"), (NamingConvention, 8, "tool.commands[0].parameters.path")],
    );
}

/// The maximum number of entries passes, and one more is reported.
#[test]
fn number_of_entries_is_limited() {
    let list = |count: usize, one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let commands = |count| format!("  commands:\n{}", list(count, &|n| format!("    - c{n}\n")));
    let one = |key: &str, count: usize, entry: &str| {
        let name = |n: usize| format!("        - {}\n", entry.replace('N', &n.to_string()));
        format!("  commands:\n    - name: c\n      {key}:\n{}", list(count, &name))
    };
    let parameters = |count| one("parameters", count, "{name: pN, type: string, description: d}");
    let words = |count| one("argv", count, "wN");
    let aggregates =
        |count| format!("  meta_specific:\n    aggregates:\n{}", list(count, &|n| format!("      - t{n}\n")));
    let quirks = |count| {
        let one = |n| format!("      - {{quirk: q{n}, description: d, mitigation: m}}\n");
        format!("  api_complexity:\n    api_quirks:\n{}", list(count, &one))
    };
    let helpers = |count| {
        let one =
            |n| format!("      - {{id: h{n}, runtime: isolated_vm, language: javascript, function: x}}\n");
        format!("  executable_knowledge:\n    helpers:\n{}", list(count, &one))
    };
    let too_much = |text: &str, field: &str| {
        let (manifest, found) = read(
            &good(text).replace("type: mcp", if field.contains("meta") { "type: meta" } else { "type: mcp" }),
        );
        let report_text =
            found.iter().any(|one| one.field == field && one.error.message.contains("the limit is"));
        assert_eq!(report_text, manifest.is_none(), "{field}: {}", shown(&found));
        report_text
    };
    let check = |make: &dyn Fn(usize) -> String, max: usize, field: &str| {
        assert!(!too_much(&make(max), field), "{field}: {max}");
        assert!(too_much(&make(max + 1), field), "{field}: {}", max + 1);
    };
    check(&commands, 256, "tool.commands");
    check(&parameters, 128, "tool.commands[0].parameters");
    check(&words, 128, "tool.commands[0].argv");
    check(&aggregates, 256, "tool.meta_specific.aggregates");
    check(&quirks, 256, "tool.api_complexity.api_quirks");
    check(&helpers, 256, "tool.executable_knowledge.helpers");
    assert!(too_much(&commands(30_000), "tool.commands"));
}

/// A manifest names a key but never contains it, and the key may only be sent where it cannot be read in
/// transit.
#[test]
fn key_is_only_sent_over_tls_or_loopback() {
    let server = |section: &str| good(&format!("  mcp_specific: {{{section}}}\n"));
    let line = 8;
    let far = "transport: streamable_http, url: \"https://a.org/mcp\"";
    for fine in ["{name: a-b}", "{name: a_b2, header: X-API-Key}"] {
        check(&server(&format!("{far}, key: {fine}")), &[]);
    }
    let here =
        |url: &str, transport: &str| format!("transport: {transport}, url: \"{url}\", key: {{name: k}}");
    for fine in ["http://localhost:1/", "http://127.0.0.1:1/", "http://[::1]:1/"] {
        check(&server(&here(fine, "sse")), &[]);
    }
    check(&server(&here("wss://a.org/", "websocket")), &[]);
    let wrong = |section: &str, field: &str| {
        check(&server(section), &[(InvalidValue, line, &format!("tool.mcp_specific.{field}"))]);
    };
    for (url, transport) in [
        ("http://a.org/", "streamable_http"),
        ("ws://a.org/", "websocket"),
        ("http://localhost.a.org/", "sse"),
    ] {
        wrong(&here(url, transport), "key");
    }
    wrong("server_command: npx server, key: {name: k}", "key");
    for name in ["A", "sk-ABC", "a b", "a/../b"] {
        wrong(&format!("{far}, key: {{name: \"{name}\"}}"), "key.name");
    }
    wrong(&format!("{far}, key: {{name: k, header: \"x: y\"}}"), "key.header");
    wrong("transport: streamable_http, url: \"https://me:key@a.org/\"", "url");
    check(
        &server(&format!("{far}, key: {{name: k, value: secret}}")),
        &[(UnknownField, line, "tool.mcp_specific.key")],
    );
    check(
        &server(&format!("{far}, key: {{}}")),
        &[(MissingRequiredField, line, "tool.mcp_specific.key.name")],
    );
}

#[test]
fn key_written_in_place_of_its_name_is_not_quoted() {
    let planted = "Plainword7f3a9";
    for section in [
        "transport: sse, url: \"https://a.org/\", key: PLANTED",
        "transport: sse, url: \"https://a.org/\", key: {name: PLANTED}",
        "transport: sse, url: \"https://a.org/\", key: {name: k, header: \"Authorization: Bearer PLANTED\"}",
        "transport: sse, url: \"https://a.org/\", key: {name: k, value: PLANTED}",
        "transport: sse, url: \"https://a.org/\", key: {PLANTED}",
        "transport: sse, url: \"https://a.org/\", key: [PLANTED",
        "transport: sse, url: \"https://me:PLANTED@a.org/\"",
        "transport: sse, url: \"https://me:PLANTED@/\"",
        "transport: sse, url: \"https://me:PLANTED@a.org/\", bogus: 1",
        "transport: sse, url: \"https://a.org/\", key: {name: k, PLANTED: 1}",
        "transport: sse, url: \"https://a.org/\", key: {name: k, namePLANTED: k}",
        "transport: sse, url: \"https://a.org/\", api_key: PLANTED",
        "transport: sse, url: \"https://a.org/\", headers: {Authorization: Bearer PLANTED}",
        "transport: websocket, url: \"https://a.org/?token=PLANTED\"",
        "transport: sse, url: \"https://a.org/\", key: {\n  name: k,\n  PLANTED: 1,\n  PLANTED: 2}",
        "transport: sse, url: \"https://a.org/\", key: {name:\n  PLANTED, : [",
    ] {
        let (manifest, found) =
            read(&good(&format!("  mcp_specific: {{{section}}}\n")).replace("PLANTED", planted));
        let reported: String = found.iter().map(|one| format!("{one} {}\n", one.to_json())).collect();
        assert!(
            manifest.is_none() && !reported.is_empty() && !reported.contains(planted),
            "{section}\n{reported}"
        );
    }
    // A key of digits is not text, and the usual fix, which quotes the value, would reveal it.
    let number = "  mcp_specific: {transport: sse, url: \"https://a.org/\", key: {name: 4711081512}}\n";
    let (_, found) = read(&good(number));
    assert!(!shown(&found).contains("4711081512") && !found.is_empty(), "{}", shown(&found));
}
