//! Client libraries: their own test suites and type checkers, against the daemon under test.
//!
//! Interpreters and packages may be readable by this user only, so these tests do not drop privileges.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use client::{Client, ToolCall};
use serde_json::json;
use tests::{Daemon, left_out, sinew_as_current_user};

fn library(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients").join(name).canonicalize().expect("the library")
}

/// Runs a program of a library, which must succeed, and returns its output.
fn output_of(command: &mut Command) -> String {
    command.env("SINEW_BIN", sinew_as_current_user().get_program()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().expect("start the program");
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    text.into_owned()
}

#[test]
fn python_client_passes_its_tests() {
    let Ok(python) = std::env::var("SINEW_CLIENT_PYTHON") else { return left_out("no SINEW_CLIENT_PYTHON") };
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "--quiet", "--color=no"]).current_dir(library("python"));
    let text = output_of(&mut tests);
    assert!(text.contains(" passed") && !text.contains("skipped"), "{text}");
}

#[test]
fn python_client_is_strictly_typed() {
    let Ok(python) = std::env::var("SINEW_CLIENT_PYTHON") else { return left_out("no SINEW_CLIENT_PYTHON") };
    let mut check = Command::new(python);
    check.args(["-m", "mypy", "--cache-dir=/dev/null"]).current_dir(library("python"));
    output_of(&mut check);
}

/// TypeScript client and its tests, compiled into a folder.
struct CompiledClient {
    packages: PathBuf,
    folder: tempfile::TempDir,
}

impl CompiledClient {
    fn build() -> Option<CompiledClient> {
        let Ok(packages) = std::env::var("SINEW_CLIENT_NODE") else {
            left_out("no SINEW_CLIENT_NODE");
            return None;
        };
        let packages = Path::new(&packages).join("node_modules");
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("package.json"), "{\"type\": \"module\"}").expect("a package");
        let mut compile = Command::new(packages.join(".bin/tsc"));
        compile.arg("-p").arg(library("typescript")).arg("--outDir").arg(folder.path());
        output_of(compile.arg("--typeRoots").arg(packages.join("@types")));
        Some(CompiledClient { packages, folder })
    }

    /// Runs the tests with a runtime and returns its report.
    fn test(&self, runtime: &mut Command) -> String {
        runtime.current_dir(self.folder.path());
        output_of(runtime.env("SINEW_CLIENT_README", library("typescript").join("README.md")))
    }
}

#[test]
fn typescript_client_compiles_and_passes_its_tests() {
    let Some(client) = CompiledClient::build() else { return };
    let text = client.test(Command::new("node").args(["--test", "test"]));
    assert!(text.contains("# fail 0") && text.contains("# skipped 0"), "{text}");
}

#[test]
fn typescript_client_passes_its_tests_on_bun() {
    let Some(client) = CompiledClient::build() else { return };
    let mut bun = Command::new(client.packages.join(".bin/bun"));
    let text = client.test(bun.args(["test", "--timeout", "60000", "./test/client.test.js"]));
    assert!(text.contains(" 0 fail") && !text.contains(" skip"), "{text}");
}

#[test]
fn official_sdks_pass_the_client_matrix() {
    let Ok(clients) = std::env::var("SINEW_CLIENTS") else { return left_out("no SINEW_CLIENTS") };
    let Ok(python) = std::env::var("SINEW_CLIENT_PYTHON") else { return left_out("no SINEW_CLIENT_PYTHON") };
    let mut matrix = Command::new(python);
    matrix.arg(library("matrix").join("matrix.py")).args(["--only", "SDK", "--clients", &clients]);
    let text = output_of(matrix.arg("--sinew").arg(sinew_as_current_user().get_program()));
    let rows = text.lines().filter(|line| line.contains(" SDK | ") && !line.contains("left out"));
    assert_eq!(rows.count(), 4, "{text}");
}

#[test]
fn rust_client_gets_result_progress_and_refusal() {
    let daemon = Daemon::start();
    daemon.home().file("note.md", "hello\n");
    let cwd = daemon.home().workspace().display().to_string();
    let call = |tool: &str, arguments| ToolCall::new(tool, &arguments).with_cwd(&cwd);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut client =
            Client::connect(&daemon.home().socket("agent.sock"), Duration::ZERO).await.expect("a connection");
        let mut steps = 0;
        let cat = call("run_command", json!({"command": ["cat", "note.md"]}));
        let result = client.call_with_progress(cat, |_| steps += 1).await.expect("a result");
        assert_eq!(result.output["stdout"], "hello\n");
        assert!(steps > 0, "no progress");
        let refused = client.call(call("read_file", json!({"pth": "note.md"}))).await.expect("a result");
        let refusal = refused.metadata.refusal.expect("a refusal");
        let repair = refusal.repair.expect("a repair");
        let repaired = client.call(call("read_file", json!(repair.arguments))).await.expect("a result");
        assert_eq!(repaired.output["content"], "hello\n");
    });
}
