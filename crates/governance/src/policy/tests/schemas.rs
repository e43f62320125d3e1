//! The JSON schemas for editors agree with the loader.

use super::*;

fn schemas() -> [(&'static str, schemars::Schema); 3] {
    [
        ("modes", schemars::schema_for!(ModesFile)),
        ("tools", schemars::schema_for!(ToolsFile)),
        ("safety", schemars::schema_for!(SafetyFile)),
    ]
}

/// Run with `SINEW_WRITE_SCHEMAS=1` after a change of the raw file types.
#[test]
fn committed_schemas_are_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/governance/schema");
    for (name, schema) in schemas() {
        let (file, current) = (folder.join(format!("{name}.json")), format!("{:#}\n", schema.to_value()));
        if std::env::var_os("SINEW_WRITE_SCHEMAS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&file, &current).unwrap();
        }
        assert_eq!(fs::read_to_string(&file).unwrap_or_default(), current, "{} is stale", file.display());
    }
}

#[test]
fn schemas_agree_with_the_loader() {
    let accepts = |name: &str, text: &str| {
        let (_, schema) = schemas().into_iter().find(|(known, _)| *known == name).unwrap();
        let validator = jsonschema::validator_for(&schema.to_value()).unwrap();
        let value: serde_json::Value = Document::from_text(name, text).unwrap().parse().unwrap();
        validator.iter_errors(&value).map(|error| error.to_string()).collect::<Vec<_>>()
    };
    for (name, shipped, snippet) in [
        ("modes", EMBEDDED_MODES, include_str!("../../../tests/snippets/modes.yaml")),
        ("tools", EMBEDDED_TOOLS, include_str!("../../../tests/snippets/tools.yaml")),
        ("safety", EMBEDDED_SAFETY, include_str!("../../../tests/snippets/safety.yaml")),
    ] {
        assert_eq!(accepts(name, shipped), Vec::<String>::new(), "{name}");
        assert_eq!(accepts(name, snippet), Vec::<String>::new(), "{name}");
    }
    for layer in [
        "forbidden_paths: {add: [/x]}",
        "tools: {a: {allowed_commands: {remove: [jq], add: [{argv: [git]}]}}}",
    ] {
        assert_eq!(accepts("tools", layer), Vec::<String>::new(), "{layer}");
    }
    for (name, wrong) in [
        ("modes", "modes: {NORML: {}}"),
        ("modes", "modes: {NORMAL: {max_task: 1}}"),
        ("tools", "tools: {a: {allowed_in_modes: [SAFE]}}"),
        ("tools", "tools: {a: {allowed_paths: /x}}"),
        ("tools", "tools: {a: {timeout_seconds: 0}}"),
        ("tools", "tools: {a: {allowed_paths: {append: [/x]}}}"),
        ("safety", "sessions: {cost_cap: {mode: loud}}"),
    ] {
        assert_ne!(accepts(name, wrong), Vec::<String>::new(), "{wrong}");
    }
}
