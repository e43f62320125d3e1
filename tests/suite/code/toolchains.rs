//! `run_linter` and `run_tests` with the programs people use, from folders that policy names: clippy, cargo and nextest,
//! ruff, mypy and pytest. Those that are not for every user of a machine are taken from where `cargo xtask test` puts
//! them, and left out loudly where they are not.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// A folder of programs, if it is there.
fn programs(name: &str, needed: &str) -> Option<PathBuf> {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/programs");
    let folder = std::env::var_os("SINEW_PROGRAMS").map_or_else(built, PathBuf::from).join(name);
    let found = folder.canonicalize().ok().filter(|folder| folder.join(needed).is_file());
    if found.is_none() {
        println!("LEFT OUT: there is no {needed} in {}: `cargo xtask test` puts it there", folder.display());
    }
    found
}

/// A daemon whose policy takes programs from these folders.
fn daemon_with(folders: &[&Path]) -> Daemon {
    let home = Home::initialised();
    let list: Vec<String> =
        folders.iter().map(|folder| format!("{:?}", folder.display().to_string())).collect();
    let limits = "network: off, memory_mb: 4096, max_processes: 512, timeout_seconds: 100";
    let entry = format!("{{allowed_in_modes: [NORMAL], {limits}, program_folders: [{}]}}", list.join(", "));
    let rules = format!("tools:\n  run_tests: {entry}\n  run_linter: {entry}\n");
    home.configure("governance/tools.yaml", &rules);
    Daemon::start_in(home)
}

fn crate_with(home: &Home, code: &str) {
    for folder in ["project", "project/src"] {
        std::fs::create_dir_all(home.workspace().join(folder)).unwrap();
    }
    home.file(
        "project/Cargo.toml",
        "[package]\nname = \"inside\"\nversion = \"1.0.0\"\nedition = \"2024\"\n",
    );
    home.file("project/src/lib.rs", code);
}

fn ask(daemon: &Daemon, tool: &str, arguments: &Value) -> Value {
    daemon.agent().execute(tool, arguments)
}

#[test]
fn clippy_says_what_it_thinks_and_leaves_nothing() {
    let Some(rust) = programs("rust", "bin/cargo-clippy") else { return };
    let daemon = daemon_with(&[&rust]);
    crate_with(daemon.home(), "pub fn f(x: u8) -> u8 {\n    return x;\n}\n");
    let result = ask(&daemon, "run_linter", &json!({"path": "project"}));
    assert_eq!(result["success"], true, "{result}");
    let seen = &result["output"];
    assert_eq!((&seen["clean"], &seen["total"]), (&json!(false), &json!(1)), "{seen}");
    let one = &seen["complaints"][0];
    let told = (&one["file"], &one["line"], &one["code"], &one["severity"]);
    let expect = (&json!("src/lib.rs"), &json!(2), &json!("clippy::needless_return"), &json!("warning"));
    assert_eq!(told, expect, "{one}");
    assert!(one["fix"].as_str().is_some_and(|fix| fix.contains("remove")), "{one}");
    assert!(seen["program"]["path"].as_str().unwrap().starts_with(rust.to_str().unwrap()), "{seen}");
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full");
    assert!(!daemon.home().workspace().join("project/target").exists());
    crate_with(daemon.home(), "pub fn f(x: u8) -> u8 {\n    y\n}\n");
    let broken = ask(&daemon, "run_linter", &json!({"path": "project"}));
    assert_eq!(broken["output"]["complaints"][0]["severity"], "error", "{broken}");
    assert_eq!(broken["output"]["complaints"][0]["code"], "E0425", "{broken}");
}

const TESTS: &str = "pub fn f() -> u8 {\n    2\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn good() {\n        \
                     assert_eq!(super::f(), 2);\n    }\n\n    #[test]\n    fn bad() {\n        println!(\"said this\");\n        \
                     assert_eq!(super::f(), 3, \"two is not three\");\n    }\n\n    #[test]\n    #[ignore]\n    fn later() {}\n}\n";

#[test]
fn cargo_tests_are_counted_and_failures_explained() {
    let Some(rust) = programs("rust", "bin/rustdoc") else { return };
    let daemon = daemon_with(&[&rust]);
    crate_with(daemon.home(), TESTS);
    let result = ask(&daemon, "run_tests", &json!({"path": "project"}));
    let seen = &result["output"];
    assert_eq!((&seen["outcome"], &seen["exit_code"]), (&json!("failed"), &json!(101)), "{result}");
    assert_eq!(
        seen["counts"],
        json!({"total": 3, "passed": 1, "failed": 1, "errors": 0, "skipped": 1}),
        "{seen}"
    );
    let failure = &seen["failures"][0];
    assert_eq!(failure["name"], "tests::bad", "{seen}");
    let output = failure["output"].as_str().unwrap();
    assert!(output.contains("said this") && output.contains("two is not three"), "{seen}");
    let one = ask(&daemon, "run_tests", &json!({"path": "project", "tests": ["good"]}));
    assert_eq!(
        (&one["output"]["outcome"], &one["output"]["counts"]["total"]),
        (&json!("passed"), &json!(1)),
        "{one}"
    );
    crate_with(daemon.home(), "fn broken(\n");
    let broken = ask(&daemon, "run_tests", &json!({"path": "project"}));
    assert_eq!(broken["output"]["outcome"], "tests_not_run", "{broken}");
}

#[test]
fn nextest_is_taken_where_a_project_is_set_up_for_it() {
    let Some(rust) = programs("rust", "bin/cargo") else { return };
    if sandbox_has("cargo-nextest").is_none() {
        println!("LEFT OUT: there is no cargo-nextest that everybody can run");
        return;
    }
    let daemon = daemon_with(&[&rust]);
    crate_with(daemon.home(), TESTS);
    std::fs::create_dir(daemon.home().workspace().join("project/.config")).unwrap();
    daemon.home().file("project/.config/nextest.toml", "");
    let result = ask(&daemon, "run_tests", &json!({"path": "project"}));
    let seen = &result["output"];
    assert_eq!((&seen["outcome"], &seen["exit_code"]), (&json!("failed"), &json!(100)), "{result}");
    assert!(seen["program"]["version"].as_str().unwrap().contains("nextest"), "{seen}");
    assert_eq!((&seen["counts"]["passed"], &seen["counts"]["failed"]), (&json!(1), &json!(1)), "{seen}");
    let failure = &seen["failures"][0];
    assert!(failure["name"].as_str().unwrap().ends_with("tests::bad"), "{seen}");
    assert!(failure["output"].as_str().unwrap().contains("two is not three"), "{seen}");
    // A report that the project wants elsewhere is not taken for no tests.
    daemon.home().file("project/.config/nextest.toml", "[profile.default.junit]\npath = \"own.xml\"\n");
    let own = ask(&daemon, "run_tests", &json!({"path": "project", "tests": ["good"]}));
    assert_eq!(
        (&own["output"]["outcome"], &own["output"]["counts"]["passed"]),
        (&json!("passed"), &json!(1)),
        "{own}"
    );
    let none = ask(&daemon, "run_tests", &json!({"path": "project", "tests": ["no_such_test"]}));
    assert_eq!(none["output"]["outcome"], "no_tests", "{none}");
}

/// A program that every user of this machine can run.
fn sandbox_has(name: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.is_file())
}

#[test]
fn mypy_and_ruff_of_one_user_are_found_and_speak_alike() {
    let Some(python) = programs("python", "bin/mypy") else { return };
    let daemon = daemon_with(&[&python]);
    std::fs::create_dir(daemon.home().workspace().join("project")).unwrap();
    daemon.home().file("project/a.py", "import os\n\ndef f(x: int) -> str:\n    return x\n");
    let mypy = ask(&daemon, "run_linter", &json!({"path": "project", "linter": "mypy"}));
    assert_eq!((&mypy["success"], &mypy["output"]["total"]), (&json!(true), &json!(1)), "{mypy}");
    let one = &mypy["output"]["complaints"][0];
    let told = (&one["file"], &one["line"], &one["code"], &one["severity"]);
    assert_eq!(told, (&json!("a.py"), &json!(4), &json!("return-value"), &json!("error")), "{one}");
    assert!(mypy["output"]["program"]["version"].as_str().unwrap().starts_with("mypy "), "{mypy}");
    assert_eq!(mypy["output"]["program"]["from_project"], false);
    let ruff = ask(&daemon, "run_linter", &json!({"path": "project"}));
    assert_eq!(ruff["output"]["complaints"][0]["code"], "F401", "{ruff}");
    daemon.home().file("project/a.py", "def f(x: int) -> int:\n    return x\n");
    let clean = ask(&daemon, "run_linter", &json!({"path": "project", "linter": "mypy"}));
    assert_eq!(clean["output"]["clean"], true, "{clean}");
    daemon.home().file("project/test_a.py", "from a import f\n\ndef test_f():\n    assert f(1) == 1\n");
    let tested = ask(&daemon, "run_tests", &json!({"path": "project"}));
    assert_eq!(
        (&tested["output"]["outcome"], &tested["output"]["counts"]["passed"]),
        (&json!("passed"), &json!(1)),
        "{tested}"
    );
    let project = daemon.home().workspace().join("project");
    for litter in [".mypy_cache", ".ruff_cache", "__pycache__"] {
        assert!(!project.join(litter).exists(), "{litter}");
    }
}

/// What a run could write is no place for programs, whatever the policy says.
#[test]
fn programs_are_not_taken_from_what_a_workspace_holds() {
    for place in ["work/tools", ""] {
        let home = Home::initialised();
        std::fs::create_dir_all(home.workspace().join("tools/bin")).unwrap();
        let mark = home.workspace().join("mark");
        let script = home.file("tools/bin/ruff", &format!("#!/bin/sh\necho ran > '{}'\n", mark.display()));
        std::fs::set_permissions(script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        home.configure(
            "governance/tools.yaml",
            &taking_from(&home.user().canonicalize().unwrap().join(place)),
        );
        let daemon = Daemon::start_in(home);
        let told = ask(&daemon, "run_linter", &json!({"linter": "ruff"}));
        assert!(told["error"].as_str().unwrap().contains("programs cannot be taken from"), "{told}");
        assert!(told["metadata"]["failure"]["hint"].as_str().unwrap().contains("program_folders"), "{told}");
        assert!(!mark.exists());
    }
    let home = Home::initialised();
    for written in ["/", "relative", "/a/*", "/a:b"] {
        home.configure("governance/tools.yaml", &taking_from(Path::new(written)));
        let refused = home.run(&["check"]);
        assert_ne!(refused.output.status.code(), Some(0), "{written}: {refused}");
    }
}

fn taking_from(folder: &Path) -> String {
    let folder = folder.display().to_string();
    format!("tools:\n  run_linter: {{allowed_in_modes: [NORMAL], program_folders: [{folder:?}]}}\n")
}
