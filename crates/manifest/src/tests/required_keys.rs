//! Tests of each required key and each allowed word of the specification, one by one.

use super::{check, good, read};
use crate::KnowledgeStrategy;
use crate::diagnostic::DiagnosticCode::{InvalidEnumValue, MissingRequiredField, NamingConvention};

/// Returns a list entry with all of these keys except one.
fn entry(keys: &[(&str, &str)], without: &str) -> String {
    let pairs = keys.iter().filter(|(key, _)| *key != without).map(|(key, value)| format!("{key}: {value}"));
    format!("- {{{}}}\n", pairs.collect::<Vec<_>>().join(", "))
}

/// Asserts that each key is required in an entry of the list. `head` is the text before the entry, `line` the
/// line of the entry.
fn check_each_key(head: &str, line: u64, list: &str, keys: &[(&str, &str)]) {
    check(&good(&format!("{head}{}", entry(keys, ""))), &[]);
    for (key, _) in keys {
        let text = good(&format!("{head}{}", entry(keys, key)));
        check(&text, &[(MissingRequiredField, line, &format!("tool.{list}[0].{key}"))]);
    }
}

#[test]
fn each_key_of_a_function_is_required() {
    let check_kind = |kind: &str, keys: &[(&str, &str)]| {
        let head = format!("  executable_knowledge:\n    {kind}:\n      ");
        check_each_key(&head, 10, &format!("executable_knowledge.{kind}"), keys);
        let python: Vec<_> =
            keys.iter().map(|(key, value)| (*key, value.replace("javascript", "python"))).collect();
        let python: Vec<_> = python.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let field = format!("tool.executable_knowledge.{kind}[0].language");
        check(&good(&format!("{head}{}", entry(&python, ""))), &[(InvalidEnumValue, 10, &field)]);
    };
    let (id, language, function) = (("id", "one"), ("language", "javascript"), ("function", "f"));
    check_kind("helpers", &[id, language, ("runtime", "isolated_vm"), function]);
    check_kind("processors", &[id, language, function]);
    check_kind("validators", &[id, ("validates", "create"), language, function]);
}

#[test]
fn each_key_of_the_api_description_is_required() {
    let head = |list: &str| format!("  api_complexity:\n    {list}:\n      ");
    let schema = [("type", "native"), ("detection", "event"), ("payload_path", "body")];
    check_each_key(&head("payload_schemas"), 10, "api_complexity.payload_schemas", &schema);
    let quirk = [("quirk", "q"), ("description", "d"), ("mitigation", "m")];
    check_each_key(&head("api_quirks"), 10, "api_complexity.api_quirks", &quirk);
}

#[test]
fn each_key_of_an_anti_pattern_but_its_category_is_required() {
    let keys = [("pattern", "p"), ("description", "d"), ("wrong", "w"), ("correct", "c")];
    check_each_key("  anti_patterns:\n    ", 9, "anti_patterns", &keys);
    for category in ["api_usage", "validation", "error_handling", "performance", "security"] {
        let named = [&keys[..], &[("category", category), ("rationale", "r")]].concat();
        check(&good(&format!("  anti_patterns:\n    {}", entry(&named, ""))), &[]);
    }
}

#[test]
fn specified_words_are_accepted_in_lower_case_only() {
    for kind in ["mcp", "cli", "local", "meta"] {
        let text = good("").replace("type: mcp", &format!("type: {kind}"));
        let (manifest, found) = read(&text);
        assert!(manifest.is_some(), "{kind}: {found:?}");
        check(&text.replace(kind, &kind.to_uppercase()), &[(InvalidEnumValue, 4, "tool.type")]);
    }
    for transport in ["stdio", "sse", "websocket"] {
        let url = if transport == "websocket" { "wss://a.example/" } else { "https://a.example/" };
        let section =
            format!("  mcp_specific: {{transport: {transport}, server_command: s, url: '{url}'}}\n");
        assert!(read(&good(&section)).0.is_some(), "{transport}");
    }
    let strategy = |text: &str| read(&good(text)).0.unwrap().strategy();
    assert_eq!(strategy(""), KnowledgeStrategy::Embedded, "the default");
    for (word, expect) in [
        ("embedded", KnowledgeStrategy::Embedded),
        ("external", KnowledgeStrategy::External),
        ("hybrid", KnowledgeStrategy::Hybrid),
        ("executable", KnowledgeStrategy::Executable),
        ("none", KnowledgeStrategy::None),
    ] {
        assert_eq!(strategy(&format!("  knowledge_strategy: {word}\n")), expect);
        check(
            &good(&format!("  knowledge_strategy: {}\n", word.to_uppercase())),
            &[(InvalidEnumValue, 8, "tool.knowledge_strategy")],
        );
    }
}

#[test]
fn function_ids_follow_the_naming_convention() {
    for kind in ["helpers", "processors", "validators"] {
        let text = |id: &str| {
            let validates = if kind == "validators" { "validates: create, " } else { "" };
            good(&format!(
                "  executable_knowledge:\n    {kind}:\n      - {{id: {id}, {validates}language: javascript, \
                 runtime: isolated_vm, function: f}}\n"
            ))
        };
        check(&text("extract-custom-field"), &[]);
        for id in ["extract_custom_field", "extractCustomField"] {
            let field = format!("tool.executable_knowledge.{kind}[0].id");
            check(&text(id), &[(NamingConvention, 10, &field)]);
        }
    }
}

#[test]
fn description_may_have_several_lines() {
    let text =
        good("").replace("description: Tasks on a board", "description: |\n    First line\n    second line");
    check(&text, &[]);
    let text = format!("{text}  commands: [create]\n");
    assert!(read(&text).0.is_some());
    let blank = good("").replace("description: Tasks on a board", "description: |\n\n    \n");
    check(&blank, &[(MissingRequiredField, 7, "tool.description")]);
}
