//! Loading of the curated map: accepted files, rejected files, and the positions of the errors.

use std::sync::Arc;

use serde_json::json;
use tool::{Category, RiskLevel, ToolDefinition, ToolSpec};

use super::*;
use crate::{InputSchema, KnownTool};

fn load(text: &str) -> Result<CuratedGuardrails, CuratedError> {
    CuratedGuardrails::from_document(Document::from_text("guardrails.yaml", text).unwrap())
}

/// Expects that the text does not load, with this message and suggestion at this position.
#[track_caller]
fn check(text: &str, place: (u64, u64), message: &str, help: &str) {
    check_error(load(text).map(|_| ()), text, place, message, help);
}

#[track_caller]
fn check_error<T: std::fmt::Debug>(
    loaded: Result<T, CuratedError>,
    text: &str,
    place: (u64, u64),
    message: &str,
    help: &str,
) {
    let error = loaded.expect_err(text);
    let [problem] = error.problems() else { panic!("{text}\nexpected one problem:\n{error}") };
    assert!(problem.message.contains(message), "{text}\n{problem}");
    assert!(problem.suggestion.as_deref().unwrap_or_default().contains(help), "{text}\n{problem}");
    assert_ne!(problem.suggestion.as_deref(), Some(""), "a missing suggestion is None, not empty: {text}");
    assert_eq!((problem.line, problem.column), place, "{text}\n{problem}");
}

#[test]
fn shipped_map_has_the_nine_documented_names() {
    let curated = CuratedGuardrails::embedded().unwrap_or_else(|error| panic!("{error}"));
    let demands = |name: &str| {
        let entry = curated.for_unknown_name(name, |_| false).unwrap_or_else(|| panic!("{name}"));
        let required: Vec<&str> = entry.required.iter().map(|field| field.as_str()).collect();
        let groups: Vec<Vec<&str>> = entry
            .any_of_groups
            .iter()
            .map(|group| group.iter().map(|field| field.as_str()).collect())
            .collect();
        let least: Vec<(&str, u32)> =
            entry.min_lengths.iter().map(|(field, least)| (field.as_str(), *least)).collect();
        assert!(entry.example.is_some(), "{name} shows an example");
        json!([required, groups, least])
    };
    assert_eq!(demands("write"), json!([["file_path", "content"], [], [["content", 11]]]));
    assert_eq!(demands("write_local_file"), json!([["path", "content"], [], [["content", 11]]]));
    assert_eq!(demands("read_local_file"), json!([["path"], [], []]));
    assert_eq!(demands("list_directory"), json!([["path"], [], []]));
    assert_eq!(demands("upload_to_composio"), json!([["path", "tool_slug", "toolkit_slug"], [], []]));
    assert_eq!(demands("gmail_send_email"), json!([["subject", "body"], [["recipient_email", "to"]], []]));
    assert_eq!(demands("composio_search_web"), json!([["query"], [], []]));
    assert_eq!(demands("composio_search_news"), json!([["query"], [], []]));
    assert_eq!(demands("composio_multi_execute_tool"), json!([["tools"], [], []]));
    assert_eq!(demands("write_file"), json!([["path"], [], []]), "an empty file may be written");
    assert_eq!(curated.hash().len(), 64);
}

#[test]
fn map_is_loaded_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let has = |map: &CuratedGuardrails, name: &str| map.for_unknown_name(name, |_| false).is_some();
    assert!(
        has(&CuratedGuardrails::load(folder.path()).unwrap(), "write"),
        "without a file, the built-in one"
    );
    let file = folder.path().join("guardrails.yaml");
    std::fs::write(&file, "tools: {mine: {required: [a]}}\n").unwrap();
    let mine = CuratedGuardrails::load(folder.path()).unwrap();
    assert!(has(&mine, "MINE") && has(&mine, "write"), "it extends the built-in one");
    std::fs::write(&file, "extends: none\ntools: {mine: {required: [a]}}\n").unwrap();
    let mine = CuratedGuardrails::load(folder.path()).unwrap();
    assert!(has(&mine, "MINE") && !has(&mine, "write"), "it replaces the built-in one");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let untrusted =
        CuratedGuardrails::load(folder.path()).expect_err("a file that others can write is not trusted");
    assert!(!untrusted.to_string().contains("sinew init"), "it is there: {untrusted}");
}

#[test]
fn inconsistent_entry_is_an_error() {
    check("tools:\n  a: {requird: [x]}\n", (2, 7), "unknown key `requird`", "did you mean `required`");
    check("tools:\n  a: {required: [x]}\n  a: {}\n", (3, 3), "`a` occurs twice", "merge");
    check(
        "tools:\n  Mail: {required: [x]}\n  mail: {required: [x]}\n",
        (3, 3),
        "is defined twice, first on line 2",
        "case",
    );
    check("tools:\n  a b: {required: [x]}\n", (2, 3), "is not a tool name", "");
    check("tools:\n  a: {}\n", (2, 3), "requires nothing and has no example", "`required`");
    check("tools:\n  a: {required: [x, x]}\n", (2, 21), "`x` is required twice", "remove one");
    check("tools:\n  a: {required: [x], required_any: [[x, y]]}\n", (2, 38), "`x` is required twice", "");
    check("tools:\n  a: {required: ['']}\n", (2, 18), "1 to 64 characters", "");
    let named = |length: usize| format!("tools:\n  a: {{required: [{}]}}\n", "x".repeat(length));
    load(&named(64)).unwrap();
    check(&named(65), (2, 18), "1 to 64 characters", "");
    check("tools:\n  a: {required: [x], required_any: [[]]}\n", (2, 37), "can never be satisfied", "remove");
    check("tools:\n  a: {required_any: [[x]]}\n", (2, 22), "at least two arguments", "`required`");
    check("tools:\n  a: {min_length: {x: 0}}\n", (2, 23), "has no effect", "remove");
    check("tools:\n  a: {min_length: {x: -1}}\n", (2, 23), "", "");
    check("tools:\n  a: {deprecated: ' '}\n", (2, 19), "must name the replacement", "use write_file");
    check(
        "tools:\n  a: {required: [x], example: {y: 1}}\n",
        (2, 31),
        "would be refused: `x` is required",
        "",
    );
    let shows = |bytes: usize| {
        format!("tools:\n  a: {{example: {{x: {}}}}}\n", "y".repeat(bytes - r#"{"x":""}"#.len()))
    };
    load(&shows(1024)).unwrap();
    check(&shows(1025), (2, 16), "longer than 1024 bytes", "shorten");
    check("# nothing\n", (1, 1), "the file is empty", "");
}

fn tool(name: &str, alias: &str, closed: bool) -> (Arc<ToolDefinition>, InputSchema) {
    let mut spec = ToolSpec::new(name, "Write", Category::SYSTEM_WRITE, RiskLevel::High);
    spec.aliases = vec![alias.into()];
    spec.input_schema = Some(json!({"type": "object", "additionalProperties": !closed, "required": ["path"],
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}));
    let definition = Arc::new(spec.check().unwrap());
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    (definition, schema)
}

/// Checks a map against two built-in tools, the second with an open schema, and one tool of a manifest.
fn against_tools(text: &str) -> Result<Vec<DocumentError>, CuratedError> {
    let tools = [
        tool("write_file", "put_file", true),
        tool("take_note", "note_down", false),
        tool("board.create", "create_card", true),
    ];
    load(text)?.check_tools(tools.iter().map(|(definition, schema)| KnownTool { definition, schema }))
}

#[test]
fn entry_that_contradicts_its_tool_is_an_error() {
    let check = |text: &str, place, message: &str, help: &str| {
        check_error(against_tools(text), text, place, message, help)
    };
    check(
        "tools:\n  write_file: {required: [pth]}\n",
        (2, 27),
        "has no argument `pth`",
        "did you mean `path`?",
    );
    check(
        "tools:\n  write_file: {calls: steps}\n",
        (2, 23),
        "has no argument `steps`",
        "every call would be refused",
    );
    check(
        "tools:\n  write_file: {example: {path: 1}}\n",
        (2, 25),
        "would refuse this example: /path must be",
        "",
    );
    check(
        "tools:\n  wriet_file: {required: [path]}\n",
        (2, 3),
        "no tool is called",
        "did you mean `write_file`?",
    );
    check(
        "tools:\n  put_file: {required: [path]}\n",
        (2, 3),
        "is an alias of `write_file`",
        "write `write_file`",
    );
    for fine in [
        "tools:\n  write_file: {required: [path], example: {path: a}}\n",
        "tools:\n  gmail_send_email: {required: [to]}\n",
        "tools:\n  writefile: {required: [path], deprecated: use write_file}\n",
        "tools:\n  take_note: {required: [colour]}\n",
        "tools:\n  board.creat: {required: [path]}\n",
    ] {
        assert_eq!(against_tools(fine).unwrap(), [], "{fine}");
    }
    let warned =
        against_tools("tools:\n  write_file: {required: [path], deprecated: use another}\n").unwrap();
    assert!(warned[0].message.contains("is marked deprecated, but the tool exists"), "{warned:?}");
    let warned = against_tools("tools:\n  create_card: {required: [path]}\n").unwrap();
    assert!(warned[0].message.contains("is also a short name of `board.create`"), "{warned:?}");
}

#[test]
fn tool_errors_are_in_file_order() {
    let lines: String =
        (1..=6).map(|n| format!("  write_fil{}: {{required: [path]}}\n", "e".repeat(n))).collect();
    let error = against_tools(&format!("tools:\n{lines}")).unwrap_err();
    let found: Vec<u64> = error.problems().iter().map(|problem| problem.line).collect();
    assert!(found.len() > 1 && found.is_sorted(), "{found:?}");
}

#[test]
fn deprecated_name_has_a_replacement() {
    let shipped = CuratedGuardrails::embedded().unwrap();
    assert_eq!(shipped.deprecation("write_local_file"), Some("use write_file"));
    assert_eq!(shipped.deprecation("mcp__local_toolkit__READ_LOCAL_FILE"), Some("use read_file"));
    assert_eq!(shipped.deprecation("write"), None, "it is curated and not deprecated");
    assert_eq!(shipped.deprecation("unknown_tool"), None);
}

/// Run with `SINEW_WRITE_SCHEMAS=1` after changing the types of the file.
#[test]
fn schema_file_is_current_and_accepts_the_shipped_map() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/governance/schema/guardrails.json");
    let schema = schemars::schema_for!(GuardrailsFile).to_value();
    let current = format!("{schema:#}\n");
    if std::env::var_os("SINEW_WRITE_SCHEMAS").is_some() {
        std::fs::write(&file, &current).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), current, "{} is stale", file.display());
    let shipped: serde_json::Value = Document::from_text("f", EMBEDDED_TEXT).unwrap().parse().unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    assert!(validator.is_valid(&shipped));
    assert!(!validator.is_valid(&json!({"tools": {"a": {"requird": ["x"]}}})));
}

/// The map of the source document, with its examples as texts.
#[test]
fn example_may_be_text() {
    let text = r#"tools:
  mcp__local_toolkit__write_local_file:
    required: [path, content]
    example: "write_local_file({path: '/tmp/report.html', content: '<html>...</html>'})"
  mcp__local_toolkit__upload_to_composio:
    required: [path, tool_slug, toolkit_slug]
    example: "upload_to_composio({path: '/tmp/report.pdf', tool_slug: 'GMAIL_SEND_EMAIL', toolkit_slug: 'gmail'})"
  GMAIL_SEND_EMAIL:
    required: [recipient_email, subject, body, attachment]
    example: "GMAIL_SEND_EMAIL({recipient_email: 'x', subject: 'y', body: 'z', attachment: {...}})"
"#;
    let map =
        CuratedGuardrails::from_document(Document::from_text("guardrails.yaml", text).unwrap()).unwrap();
    let no_tools = |_: &str| None;
    let guard = crate::Guardrail::new(&map, &no_tools);
    let refusal = guard.check_unknown("gmail_send_email", &serde_json::json!({"subject": "y"})).unwrap();
    assert!(
        refusal.reason.ends_with(
            "Example: GMAIL_SEND_EMAIL({recipient_email: 'x', subject: 'y', body: 'z', attachment: {...}})"
        ),
        "{}",
        refusal.reason
    );
    assert_eq!(refusal.example, None, "a text is not arguments");
    let number = Document::from_text("guardrails.yaml", "tools: {a: {required: [b], example: 5}}\n").unwrap();
    assert!(
        CuratedGuardrails::from_document(number).unwrap_err().to_string().contains("arguments or a text")
    );
}
