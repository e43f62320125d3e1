//! Common programs, run in the sandbox as outside. Programs that are not installed for every user of the
//! machine are taken from where `cargo xtask test` puts them; if they are missing, the tests are skipped with
//! a message.

use std::path::Path;

use serde_json::Value;
use tests::{Daemon, Home, program_folder};

use super::{home, run};

/// Daemon that grants the workspace, and these programs read-only.
fn daemon_with(programs: &Path) -> Daemon {
    let home: Home = home("    timeout_seconds: 50\n    memory_mb: 2048\n    max_processes: 200\n");
    home.run(&["workspace", "add", "--read-only", programs.to_str().expect("text")]).must_exit(0);
    Daemon::start_in(home)
}

fn must_work(result: &Value) -> String {
    assert_eq!(result["output"]["exit_code"], 0, "{result}");
    assert_eq!(result["output"]["sandbox"]["tier"], "full", "{result}");
    assert_eq!(result["output"]["sandbox"]["quarantined"], serde_json::json!([]), "{result}");
    result["output"]["stdout"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn cargo_builds_and_tests_inside() {
    let Some(rust) = program_folder("rust", "bin/cargo") else { return };
    let daemon = daemon_with(&rust);
    let home = daemon.home();
    for folder in ["src", ".cargo"] {
        std::fs::create_dir(home.workspace().join(folder)).expect("a folder");
    }
    home.file("Cargo.toml", "[package]\nname = \"inside\"\nversion = \"1.0.0\"\nedition = \"2024\"\n");
    home.file("src/lib.rs", "#[test]\nfn it_runs() {\n    assert_eq!(1 + 1, 2);\n}\n");
    home.file(".cargo/config.toml", &format!("[build]\nrustc = {:?}\n", rust.join("bin/rustc")));
    let cargo = rust.join("bin/cargo").display().to_string();
    let text = must_work(&run(&daemon, &[&cargo, "test", "--offline", "--lib"]));
    assert!(text.contains("test it_runs ... ok"), "{text}");
}

#[test]
fn ruff_checks_inside() {
    let Some(python) = program_folder("python", "bin/ruff") else { return };
    let daemon = daemon_with(&python);
    daemon.home().file("clean.py", "print(1)\n");
    daemon.home().file("unused.py", "import os\n");
    let ruff = python.join("bin/ruff").display().to_string();
    let text = must_work(&run(&daemon, &[&ruff, "check", "clean.py"]));
    assert_eq!(text, "All checks passed!\n");
    let found = run(&daemon, &[&ruff, "check", "unused.py"]);
    assert_eq!(found["output"]["exit_code"], 1, "{found}");
    assert!(found["output"]["stdout"].as_str().unwrap_or_default().contains("F401"), "{found}");
}

#[test]
fn pytest_runs_inside() {
    let Some(python) = program_folder("python", "pyvenv.cfg") else { return };
    let daemon = daemon_with(&python);
    let body = "def test_it(tmp_path):\n    (tmp_path / 'f').write_text('x')\n    assert 1 + 1 == 2\n";
    daemon.home().file("test_it.py", body);
    let pytest = python.join("bin/pytest").display().to_string();
    let text = must_work(&run(&daemon, &[&pytest, "-q"]));
    assert!(text.contains("1 passed"), "{text}");
}
