//! `run_linter`: diagnostics in one format, and no linter is taken from a folder that a caller can write to.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::venv::packages;

fn lint(daemon: &Daemon, arguments: &Value) -> Value {
    daemon.agent().execute("run_linter", arguments)
}

#[test]
fn project_ruff_reports_problems_and_changes_nothing() {
    let Some(packages) = packages(&["ruff"]) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    home.file("project/a.py", "import os\n");
    home.file("project/b.py", "x = 1\n");
    home.file("project/pyproject.toml", "[tool.ruff.lint]\nselect = [\"F\"]\n");
    let daemon = Daemon::start_in(home);
    let result = lint(&daemon, &json!({"path": "project", "linter": "ruff"}));
    assert_eq!(result["success"], true, "{result}");
    let seen = &result["output"];
    assert_eq!((&seen["clean"], &seen["total"]), (&json!(false), &json!(1)), "{seen}");
    let one = &seen["findings"][0];
    assert_eq!(
        (&one["file"], &one["line"], &one["code"]),
        (&json!("a.py"), &json!(1), &json!("F401")),
        "{one}"
    );
    assert!(one["fix"].is_string() && one["message"].as_str().unwrap().contains("os"), "{one}");
    assert_eq!(seen["program"]["from_project"], true);
    assert!(seen["program"]["version"].as_str().unwrap().starts_with("ruff "), "{seen}");
    let project = daemon.home().workspace().join("project");
    assert_eq!(std::fs::read_to_string(project.join("a.py")).unwrap(), "import os\n");
    assert!(!project.join(".ruff_cache").exists());

    let clean = lint(&daemon, &json!({"path": "project", "files": ["b.py"]}));
    assert_eq!(clean["output"]["clean"], true, "{clean}");
    let option = lint(&daemon, &json!({"path": "project", "files": ["--fix"]}));
    assert_eq!(option["metadata"]["refusal"]["code"], "invalid_arguments", "{option}");
    daemon.home().file("project/pyproject.toml", "[tool.ruff]\nnonsense = 1\n");
    let broken = lint(&daemon, &json!({"path": "project"}));
    assert_eq!(broken["output"]["outcome"], "linter_failed", "{broken}");
}

#[test]
fn findings_are_masked_and_labelled_untrusted() {
    let Some(packages) = packages(&["ruff"]) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    home.file("project/a.py", "import AKIAQ7W3E5R9T2Y4U6I8\n");
    let daemon = Daemon::start_in(home);
    let result = lint(&daemon, &json!({"path": "project", "linter": "ruff"}));
    let seen = &result["output"];
    assert_eq!((&seen["total"], &seen["untrusted"]), (&json!(1), &json!(true)), "{result}");
    assert!(seen["notice"].as_str().unwrap().contains("not instructions"), "{seen}");
    assert!(seen["findings"][0]["message"].as_str().unwrap().contains("[redacted"), "{seen}");
    assert!(!result.to_string().contains("AKIAQ7W3E5R9"), "{result}");
}

#[test]
fn linter_found_only_in_a_workspace_is_not_run() {
    let home = Home::initialised();
    let mark = home.workspace().join("mark");
    let script = format!("#!/bin/sh\necho ran >> '{}'\necho 'ruff 1.0'\n", mark.display());
    for folder in ["", "bin", "node_modules/.bin", "env/bin", ".venv/bin"] {
        std::fs::create_dir_all(home.workspace().join("project").join(folder)).unwrap();
        for name in ["ruff", "mypy", "cargo"] {
            // `.venv` has no pyvenv.cfg, so it is an ordinary folder.
            let path = home.file(&format!("project/{folder}/{name}"), &script);
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    let daemon = Daemon::start_in(home);
    for (linter, program) in [("ruff", "ruff"), ("mypy", "mypy"), ("clippy", "cargo")] {
        let result = lint(&daemon, &json!({"path": "project", "linter": linter}));
        assert!(!mark.exists(), "{linter}: {result}");
        if result["success"] == false {
            let words = (&result["output"]["outcome"], &result["metadata"]["failure"]["kind"]);
            assert_eq!(words, (&json!("not_installed"), &json!("not_found")), "{result}");
            assert!(result["error"].as_str().unwrap().contains(program), "{result}");
        }
    }
}
