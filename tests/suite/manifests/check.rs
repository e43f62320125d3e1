//! `sinew manifest check`.

use serde_json::{Value, json};
use tests::Home;

const CORE: &str = "  id: a\n  type: cli\n  name: n\n  version: 1.0.0\n  description: d\n";

/// Commands of a manifest whose own commands do not matter; without any, it gets a warning.
const COMMANDS: &str = "  commands: [{name: c, argv: [x]}]\n";

fn write(home: &Home, name: &str, text: &str) -> String {
    home.file(name, text).display().to_string()
}

/// Report on one file, as JSON.
fn check(text: &str, code: i32) -> Value {
    let home = Home::new();
    let file = write(&home, "t.yaml", text);
    home.run(&["manifest", "check", &file, "--json"]).must_exit(code).json()
}

#[test]
fn valid_manifest_and_warnings_exit_with_0() {
    let answer = check(&format!("tool:\n{CORE}{COMMANDS}"), 0);
    assert_eq!(answer["diagnostics"], json!([]));
    assert_eq!(answer["manifests"][0]["schema_version"], "1.0");
    let answer = check(&format!("tool:\n{CORE}{COMMANDS}").replace("id: a", "id: An_Id"), 0);
    assert_eq!((&answer["diagnostics"][0]["severity"], &answer["ok"]), (&json!("warning"), &json!(true)));
}

#[test]
fn every_mistake_has_its_code_severity_and_place() {
    let answer = check(&format!("tool:\n{}  color: red\nother: 1\n", CORE.replace("1.0.0", "1.0")), 7);
    let reported = answer["diagnostics"].as_array().unwrap();
    let brief: Vec<_> =
        reported.iter().map(|one| (one["code"].as_str().unwrap(), one["line"].as_u64().unwrap())).collect();
    assert_eq!(brief, [("INVALID_SEMVER", 5), ("IGNORED_FIELD", 7), ("INVALID_TYPE", 8)], "{answer}");
    for one in reported {
        for key in ["code", "severity", "message", "file", "excerpt", "fix"] {
            assert!(one[key].is_string(), "{key}: {one}");
        }
        assert!(one["column"].as_u64().unwrap() >= 1);
    }
    let home = Home::new();
    let file = write(&home, "t.yaml", "tool: {id: a}\n");
    let run = home.run(&["manifest", "check", &file]).must_exit(7);
    assert!(
        run.stdout().contains("error[MISSING_REQUIRED_FIELD]") && run.stdout().contains("t.yaml:1:7"),
        "{run}"
    );
}

/// The sandboxed JavaScript engine itself is the parser.
#[test]
fn functions_are_parsed_and_not_run() {
    let with = |function: &str| {
        format!(
            "tool:\n{CORE}  executable_knowledge:\n    processors:\n      - id: p\n        language: javascript\n        \
             function: |\n          {function}\n{COMMANDS}"
        )
    };
    assert_eq!(check(&with("module.exports = (data) => data;"), 0)["diagnostics"], json!([]));
    assert_eq!(check(&with("for (;;) {}"), 0)["diagnostics"], json!([]), "parsed, not run");
    let answer = check(&with("module.exports = (data => ;"), 7);
    let reported = &answer["diagnostics"][0];
    assert_eq!(
        (&reported["code"], &reported["line"]),
        (&json!("INVALID_FUNCTION_SYNTAX"), &json!(12)),
        "{reported}"
    );
}

#[test]
fn broken_manifest_in_a_folder_affects_only_itself() {
    let home = Home::new();
    write(&home, "one.yaml", &format!("tool:\n{CORE}{COMMANDS}"));
    write(&home, "two.yml", &format!("tool:\n{CORE}{COMMANDS}").replace("id: a", "id: b"));
    write(&home, "three.yaml", "tool: {id: [}\n");
    write(&home, "notes.txt", "not one");
    let folder = home.workspace().display().to_string();
    let answer = home.run(&["manifest", "check", &folder, "--json"]).must_exit(7).json();
    assert_eq!(answer["manifests"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(answer["diagnostics"].as_array().unwrap().len(), 1, "{answer}");
}

/// Shipped manifests. `clickup` is the complex example of the schema document, with its ellipses filled in.
pub(super) const SHIPPED: [(&str, &str); 6] = [
    ("clickup.yaml", include_str!("../../../tools/clickup.yaml")),
    ("ripgrep.yaml", include_str!("../../../tools/ripgrep.yaml")),
    ("text-statistics.yaml", include_str!("../../../tools/text-statistics.yaml")),
    ("json-tidy.yaml", include_str!("../../../tools/json-tidy.yaml")),
    ("everything.yaml", include_str!("../../../tools/everything.yaml")),
    ("project-health.yaml", include_str!("../../../tools/project-health.yaml")),
];

#[test]
fn shipped_manifests_have_no_diagnostics() {
    let home = Home::new();
    for (name, text) in SHIPPED {
        write(&home, name, text);
    }
    let folder = home.workspace().display().to_string();
    let answer = home.run(&["manifest", "check", &folder, "--json"]).must_exit(0).json();
    assert_eq!(answer["diagnostics"], json!([]));
    assert_eq!(answer["manifests"].as_array().unwrap().len(), SHIPPED.len());
}

#[test]
fn schema_for_editors_matches_the_checks() {
    let home = Home::new();
    let schema = home.run(&["schema", "manifest"]).must_exit(0).json();
    assert_eq!(schema["required"], json!(["tool"]));
    let tool = &schema["$defs"]["ToolFile"];
    assert_eq!(tool["required"], json!(["id", "type", "name", "version", "description"]));
}

/// The examples are verified as far as a call can be checked before a tool runs.
#[test]
fn examples_of_shipped_manifests_hold() {
    let home = Home::new();
    for folder in [home.workspace(), home.workspace().join("scripts")] {
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    }
    for (name, text) in SHIPPED {
        write(&home, name, text);
    }
    write(&home, "scripts/text_statistics.py", include_str!("../../../tools/scripts/text_statistics.py"));
    write(&home, "scripts/sort_json.js", include_str!("../../../tools/scripts/sort_json.js"));
    let folder = home.workspace().display().to_string();
    let answer = home.run(&["manifest", "test", &folder, "--json"]).must_exit(0).json();
    assert_eq!((&answer["failed"], &answer["passed"]), (&json!(0), &json!(40)), "{answer}");
}

#[test]
fn outdated_example_is_reported() {
    let with = |example: &str| {
        format!(
            "tool:\n{CORE}  commands: [{{name: c, parameters: [{{name: n, type: integer}}]}}]\n  examples:\n    c:\n      \
             - {example}\n"
        )
    };
    let test = |example: &str, code: i32| {
        let home = Home::new();
        let file = write(&home, "t.yaml", &with(example));
        home.run(&["manifest", "test", &file, "--json"]).must_exit(code).json()["cases"][0]["why"].to_string()
    };
    test("{scenario: success, input: {n: 1}, output: {}}", 0);
    test("{scenario: failure_invalid_param, input: {}, error: {message: \"`n` is required\"}}", 0);
    let valid = test("{scenario: failure_invalid_param, input: {n: 1}, error: {message: no}}", 1);
    assert!(valid.contains("the example says it is not"), "{valid}");
    let drifted = test("{scenario: failure_invalid_param, input: {}, error: {message: other words}}", 1);
    assert!(drifted.contains("other words"), "{drifted}");
}

/// Tool of this category with one example.
fn echoing(category: &str, more: &str, example: &str) -> String {
    format!(
        "tool:\n{CORE}  cli_specific: {{executable: echo}}\n  commands:\n    - name: c\n      category: {category}\n      \
         risk_level: low\n      argv: ['{{text}}']\n{more}      parameters: [{{name: text, type: string}}]\n  examples:\n    c:\n      \
         - {example}\n"
    )
}

#[test]
fn read_only_example_is_run_and_drift_is_reported() {
    let test = |text: &str, code: i32| {
        let home = Home::new();
        let file = write(&home, "t.yaml", text);
        home.run(&["manifest", "test", &file, "--json"]).must_exit(code).json()["cases"][0].clone()
    };
    let message = |stdout: &str| {
        format!("{{scenario: success, input: {{text: hi}}, output: {{stdout: \"{stdout}\\n\"}}}}")
    };
    let ran = test(&echoing("read_only", "", &message("hi")), 0);
    assert_eq!((&ran["tried"], &ran["holds"]), (&json!("run"), &json!(true)), "{ran}");
    let drifted = test(&echoing("read_only", "", &message("ho")), 1);
    let why = "at /stdout: the tool returned \"hi\\n\", the example says \"ho\\n\"";
    assert_eq!((&drifted["tried"], drifted["why"].as_str()), (&json!("run"), Some(why)), "{drifted}");
    // A tool that may change something is not run to verify an example.
    let held = test(&echoing("system_write", "", &message("ho")), 0);
    assert_eq!((&held["tried"], &held["holds"]), (&json!("checked"), &json!(true)), "{held}");
    let asked = test(&echoing("read_only", "      requires_approval: true\n", &message("ho")), 0);
    let why = asked["not_run"].as_str().unwrap_or_else(|| panic!("{asked}"));
    assert!(asked["tried"] == "checked" && why.contains("pproval"), "no approval is requested: {asked}");
    let promise = "      output_schema: {properties: {stdout: {type: integer}}}\n";
    let unpromised = test(&echoing("system_write", promise, &message("hi")), 1);
    assert!(unpromised["why"].as_str().unwrap().contains("does not match `output_schema`"), "{unpromised}");
}

#[test]
fn configuration_check_covers_manifests() {
    let home = Home::new();
    let errors = |code: i32| {
        let reported = home.run(&["check", "--json"]).must_exit(code).json();
        (reported["errors"].as_array().unwrap().clone(), reported["warnings"].as_array().unwrap().len())
    };
    let (_, warnings) = errors(0);
    home.put_tool("good.yaml", &format!("tool:\n{CORE}{COMMANDS}").replace("id: a", "id: An_Id"));
    assert_eq!(errors(0), (vec![], warnings + 1), "a warning of a manifest is one of the configuration");
    home.put_tool("broken.yaml", "tool: {id: broken, type: nonsense}\n");
    let (reported, _) = errors(7);
    assert!(
        reported.iter().all(|one| one["file"].as_str().unwrap().ends_with("broken.yaml")),
        "{reported:?}"
    );
    let kind =
        reported.iter().find(|one| one["message"].as_str().unwrap().starts_with("INVALID_ENUM_VALUE: "));
    assert_eq!(kind.map(|one| (&one["line"], &one["column"])), Some((&json!(1), &json!(26))), "{reported:?}");
    let stdout = home.run(&["check"]).must_exit(7).stdout();
    assert!(
        stdout.contains(
            "the configuration can be used, but some manifests or project policies cannot: 4 errors"
        ),
        "{stdout}"
    );
}
