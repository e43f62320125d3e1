//! The official MCP clients, run with the examples of the documentation: both eras, over the socket and
//! through the bridge.
//!
//! Interpreters and packages may be readable by this user only, so these tests do not drop privileges.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tests::sinew_as_current_user;

struct Served {
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Served {
    fn start() -> Served {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let work = folder.path().join("work");
        std::fs::create_dir(&work).expect("a workspace");
        std::fs::write(work.join("a.txt"), "hello").expect("a file");
        let command = |words: &[&str]| {
            let mut command = sinew_as_current_user();
            command.args(words).env("SINEW_HOME", folder.path().join("home")).env("HOME", folder.path());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        for words in [&["init"][..], &["workspace", "add", &work.display().to_string()]] {
            assert!(command(words).status().expect("run sinew").success(), "{words:?}");
        }
        let daemon = command(&["serve", "--allow-root"]).spawn().expect("start the daemon");
        let served = Served { folder, daemon };
        let deadline = Instant::now() + Duration::from_secs(20);
        while std::os::unix::net::UnixStream::connect(served.socket()).is_err() {
            assert!(Instant::now() < deadline, "the daemon does not answer");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("home/run/agent.sock")
    }

    /// Standard output of a client program that must succeed.
    fn said_by(&self, command: &mut Command) -> String {
        let (home, path) = (self.folder.path().join("home"), std::env::var_os("PATH").unwrap_or_default());
        command.env("SINEW_HOME", home).env("PATH", path).env("SINEW", sinew_as_current_user().get_program());
        let output = command.output().expect("start the client");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs an example in both eras, over the socket and through the bridge.
    fn try_example(&self, command: impl Fn() -> Command) {
        let file = self.folder.path().join("work/a.txt");
        for (mode, revision) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
            for place in [self.socket().as_path(), Path::new("--bridge")] {
                let text = self.said_by(command().arg(place).arg(&file).arg(mode));
                let expect = [
                    &format!("protocol {revision}"),
                    "read_file",
                    "refused invalid_arguments",
                    "content hello",
                ];
                for words in expect {
                    assert!(text.contains(words), "{} {mode}: no `{words}` in {text}", place.display());
                }
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples").join(name)
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

#[test]
fn python_sdk_works_through_socket_and_bridge() {
    let Ok(python) = std::env::var("SINEW_PYTHON") else { return tests::left_out("no SINEW_PYTHON") };
    Served::start().try_example(|| {
        let mut command = Command::new(&python);
        command.arg(example("python/orchestrator.py")).env("PYTHONDONTWRITEBYTECODE", "1");
        command
    });
}

#[test]
fn typescript_sdk_works_through_socket_and_bridge() {
    let Ok(node) = std::env::var("SINEW_NODE") else { return tests::left_out("no SINEW_NODE") };
    let served = Served::start();
    // Node looks for packages beside the script.
    let beside = served.folder.path().join("script");
    std::fs::create_dir(&beside).expect("a folder for the script");
    for name in ["orchestrator.mjs", "sinew-socket.mjs"] {
        std::fs::copy(example("typescript").join(name), beside.join(name)).expect("copy the example");
    }
    std::os::unix::fs::symlink(Path::new(&node).join("node_modules"), beside.join("node_modules"))
        .expect("a link");
    served.try_example(|| {
        let mut command = Command::new("node");
        command.arg(beside.join("orchestrator.mjs"));
        command
    });
}

/// Makes every `write_file` wait for the operator.
fn require_approval(served: &Served) {
    let layer = served.folder.path().join("home/config/governance/tools.yaml");
    std::fs::write(layer, "tools:\n  write_file: {requires_approval: true}\n").expect("a policy");
    let home = served.folder.path().join("home");
    let mut reload = sinew_as_current_user();
    reload.args(["reload", "--accept"]).env("SINEW_HOME", home).env("HOME", served.folder.path());
    assert!(reload.output().expect("run sinew").status.success());
}

/// The answer to a form is no approval: the first answer leads to the second form.
#[test]
fn python_sdk_shows_a_form_and_the_operator_approves() {
    let Ok(python) = std::env::var("SINEW_PYTHON") else { return tests::left_out("no SINEW_PYTHON") };
    let served = Served::start();
    require_approval(&served);
    let mut command = Command::new(&python);
    command.arg(fixture("operator_form.py")).arg(served.socket()).arg(example("python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").current_dir(served.folder.path().join("work"));
    let text = served.said_by(&mut command);
    assert!(text.contains("protocol 2026-07-28") && text.contains("forms 2 error False"), "{text}");
    assert!(served.folder.path().join("work/form.txt").exists());
}

#[test]
fn typescript_sdk_waits_for_a_task() {
    let Ok(node) = std::env::var("SINEW_NODE") else { return tests::left_out("no SINEW_NODE") };
    if !Path::new(&node).join("node_modules/@modelcontextprotocol/ext-tasks").exists() {
        return tests::left_out(
            "the package ext-tasks is not installed: remove target/node and run the tests",
        );
    }
    let served = Served::start();
    require_approval(&served);
    let beside = served.folder.path().join("script");
    std::fs::create_dir(&beside).expect("a folder for the script");
    for file in [fixture("operator_task.mjs"), example("typescript/sinew-socket.mjs")] {
        std::fs::copy(&file, beside.join(file.file_name().expect("a name"))).expect("copy the script");
    }
    std::os::unix::fs::symlink(Path::new(&node).join("node_modules"), beside.join("node_modules"))
        .expect("a link");
    let mut command = Command::new("node");
    let text = served.said_by(command.arg(beside.join("operator_task.mjs")).arg(served.socket()));
    assert!(text.contains("protocol 2025-11-25") && text.contains("outcome completed error false"), "{text}");
    assert!(served.folder.path().join("work/task.txt").exists());
}

#[test]
fn inspector_works_through_the_bridge() {
    let Ok(node) = std::env::var("SINEW_NODE") else { return tests::left_out("no SINEW_NODE") };
    let served = Served::start();
    let home = format!("SINEW_HOME={}", served.folder.path().join("home").display());
    let mut command = Command::new(Path::new(&node).join("node_modules/.bin/mcp-inspector"));
    command.args(["--cli", "-e", &home]).arg(sinew_as_current_user().get_program()).arg("mcp");
    command.args(["--method", "tools/list"]);
    let text = served.said_by(&mut command);
    assert!(text.contains("\"read_file\"") && text.contains("inputSchema"), "{text}");
    let strict = command.arg("--strict").output().expect("the inspector runs");
    let report = String::from_utf8_lossy(&strict.stderr);
    assert!(strict.status.success() && !report.contains("Issue:"), "{report}");
}
