//! Manifests of a public system, unchanged: checked, tested, and called. Manifests made by `sinew manifest import`
//! and `sinew manifest new`.

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::{code, put};

const N8N: &str = include_str!("../../fixtures/aios/n8n.yaml");
const CLICKUP: &str = include_str!("../../fixtures/aios/clickup.yaml");
const GITHUB: &str = include_str!("../../fixtures/aios/github-cli.yaml");
const FILES: [(&str, &str, usize); 4] = [
    ("exa.yaml", include_str!("../../fixtures/aios/exa.yaml"), 8),
    ("github-cli.yaml", GITHUB, 16),
    ("n8n.yaml", N8N, 5),
    ("tool-v2.0-complex.yaml", include_str!("../../fixtures/aios/tool-v2.0-complex.yaml"), 2),
];
pub(super) const CORE: &str =
    "tool:\n  schema_version: 2.0\n  id: a\n  type: cli\n  name: n\n  version: 1.0.0\n  description: d\n";

fn check(home: &Home, name: &str, text: &str, code: i32) -> Value {
    let file = home.file(name, text).display().to_string();
    home.run(&["manifest", "check", &file, "--json"]).must_exit(code).json()
}

#[test]
fn public_files_load_and_list_their_commands() {
    let home = Home::new();
    for (name, text, count) in FILES {
        let answer = check(&home, name, text, 0);
        assert_eq!(answer["manifests"][0]["tools"].as_array().unwrap().len(), count, "{answer}");
        let codes: Vec<_> =
            answer["diagnostics"].as_array().unwrap().iter().map(|one| &one["code"]).collect();
        assert!(!codes.iter().any(|code| **code == "FUNCTION_FAILED"), "{answer}");
    }
    let answer = check(&home, "clickup.yaml", CLICKUP, 7);
    let errors = answer["diagnostics"].as_array().unwrap().iter().filter(|one| one["severity"] == "error");
    assert_eq!(errors.count(), 4, "two mappings and two examples violate the specification: {answer}");
    // These parts only inform, so the tools of the file can be used all the same.
    assert_eq!(answer["manifests"][0]["tools"].as_array().unwrap().len(), 3, "{answer}");
}

#[test]
fn examples_of_public_files_pass_against_a_stub() {
    let home = Home::new();
    let file = home.file("n8n.yaml", N8N).display().to_string();
    let run = home.run(&["manifest", "test", &file]).must_exit(0);
    assert!(run.stdout().contains("4 passed, 0 failed") && run.stdout().contains("against a stub"), "{run}");
    let file = home.file("clickup.yaml", CLICKUP).display().to_string();
    let run = home.run(&["manifest", "test", &file]).must_exit(1);
    // The example of an API error has an argument that the file's own validator refuses.
    assert!(run.stdout().contains("7 passed, 1 failed"), "{run}");
    assert!(run.stdout().contains("list_id must be a numeric string"), "{run}");
}

#[test]
fn validator_of_a_public_file_refuses_a_call() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "n8n.yaml", N8N);
    let daemon = Daemon::start_in(home);
    let refused =
        daemon.agent().execute("n8n.create_workflow", &json!({"name": "a", "nodes": [{"name": "n"}]}));
    assert_eq!(code(&refused), "validator_rejected", "{refused}");
    assert!(refused.to_string().contains("missing required 'type' field"), "{refused}");
}

#[test]
fn function_that_throws_on_its_example_is_reported() {
    let home = Home::new();
    let text = format!(
        "{CORE}  commands: [{{name: c, argv: [x]}}]\n  executable_knowledge:\n    validators:\n      - id: v\n        validates: c\n        \
         language: javascript\n        function: |\n          function v(args) {{ return args.a.b.c; }}\n  examples:\n    c:\n      - \
         {{scenario: success, input: {{n: 1}}, output: {{}}}}\n"
    );
    let answer = check(&home, "t.yaml", &text, 0);
    let reported =
        answer["diagnostics"].as_array().unwrap().iter().find(|one| one["code"] == "FUNCTION_FAILED");
    assert_eq!(reported.unwrap()["line"], 15, "{answer}");
}

fn printer(more: &str) -> String {
    format!("{}{more}", CORE.replace("id: a", "id: printer").replace("2.0", "1.0"))
        + "  cli_specific: {executable: printf}\n"
}

/// The words of the name and `args` are the command line, and the command rules judge all of it.
#[test]
fn command_without_argv_runs_its_words_under_the_command_rules() {
    let home = Home::initialised().without_automatic_modes();
    put(&home, "printer.yaml", &printer("  commands: [printf hello, {name: greet_all}]\n"));
    let rules = "tools:\n  printer.printf-hello: {allowed_in_modes: [NORMAL], allowed_commands: [{argv: [printf, hello]}], \
                 forbidden_commands: [{argv: [printf, hello, no]}]}\n  printer.greet_all: {allowed_in_modes: [NORMAL]}\n";
    home.configure("governance/tools.yaml", rules);
    let daemon = Daemon::start_in(home);
    let call = |tool: &str, arguments: Value| {
        let asked = daemon.agent().execute(tool, &arguments);
        match asked["metadata"]["refusal"]["approval_id"].as_str() {
            Some(id) => {
                daemon.home().run(&["approve", id]).must_exit(0);
                daemon.agent().execute_with(tool, &arguments, &json!({"approval_id": id}))
            }
            None => asked,
        }
    };
    let ran = call("printer.printf-hello", json!({"args": ["--not-an-option", "$(x)"]}));
    assert_eq!(ran["output"]["stdout"], "hello", "{ran}");
    let refused = call("printer.printf-hello", json!({"args": ["no"]}));
    assert_eq!(code(&refused), "command_not_allowed", "{refused}");
    let closed = call("printer.printf-hello", json!({"text": "x"}));
    assert_eq!(code(&closed), "invalid_arguments", "{closed}");
    let unclear = call("printer.greet_all", json!({}));
    assert_eq!(unclear["success"], false, "{unclear}");
    assert!(unclear.to_string().contains("argv: ["), "{unclear}");
}

#[test]
fn imported_server_is_pinned_and_can_be_called() {
    let home = Home::initialised().without_automatic_modes();
    let server = home.file("server.py", include_str!("server.py")).display().to_string();
    let folder = home.workspace().display().to_string();
    home.run(&["workspace", "add", "--read-only", &folder]);
    let run = home.run(&["manifest", "import", "fake", "--read-only", "--", "python3", &server]).must_exit(0);
    assert!(run.stdout().contains("fake.echo"), "{run}");
    home.run(&["manifest", "import", "fake", "--", "python3", &server]).must_exit(7);
    let daemon = Daemon::start_in(home);
    let echoed = daemon.agent().execute("fake.echo", &json!({"text": "hello"}));
    assert_eq!(echoed["output"]["text"], "hello", "{echoed}");
    let complained = daemon.agent().execute("fake.complain", &json!({}));
    assert_eq!(complained["success"], false, "{complained}");
    assert_eq!(complained["output"], json!({"is_error": true, "text": "no such task"}), "{complained}");
}

#[test]
fn new_manifest_of_each_type_has_no_errors() {
    let home = Home::initialised();
    for kind in ["cli", "local", "mcp", "meta"] {
        home.run(&["manifest", "new", kind, "--type", kind]).must_exit(0);
        let file = home.root().join(format!("tools/{kind}.yaml")).display().to_string();
        home.run(&["manifest", "check", &file]).must_exit(0);
        home.run(&["manifest", "new", kind, "--type", kind]).must_exit(7);
    }
    home.run(&["manifest", "new", "Not_A_Name", "--type", "cli"]).must_exit(7);
}

/// The network is open for the import alone, and only if the operator asks for it.
#[test]
fn import_opens_the_network_only_on_request() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let home = Home::initialised().without_automatic_modes();
    let script = format!(
        "import socket\nsocket.create_connection((\"127.0.0.1\", {port}), 5).close()\n{}",
        include_str!("server.py")
    );
    let server = home.file("online.py", &script).display().to_string();
    let import = |more: &[&str]| {
        let words = ["manifest", "import", "online"].into_iter().chain(more.iter().copied());
        home.run(&words.chain(["--read-only", "--", "python3", &server]).collect::<Vec<_>>())
    };
    let offline = import(&[]).must_exit(1);
    assert!(offline.stderr().contains("add `--network`"), "{offline}");
    assert!(!home.root().join("tools/online.yaml").exists(), "{offline}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "nothing connected");
    let online = import(&["--network"]).must_exit(0);
    assert!(online.stdout().contains("online.echo"), "{online}");
    assert!(listener.accept().is_ok(), "the server connected while it was imported");
    let daemon = Daemon::start_in(home);
    let called = daemon.agent().execute("online.echo", &json!({"text": "a"}));
    assert_eq!(called["success"], false, "a call has no network: {called}");
    assert!(listener.accept().is_err(), "nothing connected for the call");
}
