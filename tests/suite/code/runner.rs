//! `run_tests`: ordinary projects, and projects whose tests try to escape the sandbox.

use std::io::Read;
use std::net::TcpListener;

use serde_json::{Value, json};
use tests::{Daemon, Home, wait_until};

use super::venv::{PYTEST, packages};

fn run(daemon: &Daemon, arguments: &Value) -> Value {
    daemon.agent().execute("run_tests", arguments)
}

const TESTS: &str = "import pytest\n\
    def test_good(): pass\n\
    def test_bad():\n    print('said <this>')\n    assert 1 == 2, 'one is not two'\n\
    @pytest.mark.skip(reason='later')\ndef test_later(): pass\n\
    @pytest.fixture\ndef broken(): raise ValueError('no')\n\
    def test_broken(broken): pass\n";

const WRITING_TESTS: &str = "\
import pathlib, pytest
def test_inside():
    pathlib.Path('src/inside.txt').write_text('x')
@pytest.mark.parametrize('name', ['outside.txt', 'tests/outside.txt', '.sinew/policy.yaml', 'src/../up.txt', '../up.txt'])
def test_outside(name):
    with pytest.raises(OSError):
        pathlib.Path(name).write_text('x')
";

/// The recipe of docs/policy.md with the programs that it names: a test run writes below src/ and nowhere else.
#[test]
fn pytest_and_ruff_run_under_the_documented_project_policy() {
    let Some(packages) = packages(&[PYTEST, &["ruff"]].concat()) else { return };
    let recipe = crate::documents::project_recipe();
    assert!(recipe.lines().count() <= 20, "{recipe}");
    let home = Home::initialised();
    packages.install(&home, "project");
    for folder in ["src", "tests", ".sinew"] {
        std::fs::create_dir_all(home.workspace().join("project").join(folder)).unwrap();
    }
    home.file("project/.sinew/policy.yaml", &format!("{recipe}\n"));
    home.file("project/.env", "KEY=1");
    home.file("project/src/a.py", "import os\n");
    home.file("project/tests/test_writes.py", WRITING_TESTS);
    let project = home.workspace().canonicalize().unwrap().join("project");
    home.run(&["workspace", "add", project.to_str().unwrap()]).must_exit(0);
    let daemon = Daemon::start_in(home);
    let tested = run(&daemon, &json!({"path": project}));
    let seen = &tested["output"];
    assert_eq!((&seen["outcome"], &seen["counts"]["passed"]), (&json!("passed"), &json!(6)), "{tested:#}");
    assert!(seen["program"]["version"].as_str().unwrap().starts_with("pytest "), "{seen}");
    assert!(project.join("src/inside.txt").exists());
    for name in ["outside.txt", "tests/outside.txt", "up.txt", "../up.txt"] {
        assert!(!project.join(name).exists(), "{name}");
    }
    assert_eq!(std::fs::read_to_string(project.join(".sinew/policy.yaml")).unwrap(), format!("{recipe}\n"));
    let linted = daemon.agent().execute("run_linter", &json!({"path": project, "linter": "ruff"}));
    assert_eq!(linted["output"]["findings"][0]["code"], "F401", "{linted:#}");
    let code = |tool: &str, arguments: Value| {
        daemon.agent().execute(tool, &arguments)["metadata"]["refusal"]["code"].clone()
    };
    assert_eq!(code("read_file", json!({"path": project.join(".env")})), "path_forbidden");
    assert_eq!(
        code("write_file", json!({"path": project.join("setup.py"), "content": "x"})),
        "path_not_allowed"
    );
}

#[test]
fn project_tests_are_counted_and_failures_explained() {
    let Some(packages) = packages(PYTEST) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    home.file("project/test_x.py", TESTS);
    let daemon = Daemon::start_in(home);
    let result = run(&daemon, &json!({"path": "project"}));
    assert_eq!(result["success"], true, "{result}");
    let seen = &result["output"];
    assert_eq!((&seen["outcome"], &seen["exit_code"]), (&json!("failed"), &json!(1)), "{seen}");
    assert_eq!(seen["counts"], json!({"total": 4, "passed": 1, "failed": 1, "errors": 1, "skipped": 1}));
    let failures = seen["failures"].as_array().unwrap();
    assert_eq!(failures[0]["name"], "test_x::test_bad", "{seen}");
    assert!(failures[0]["message"].as_str().unwrap().contains("one is not two"), "{seen}");
    assert!(failures[0]["output"].as_str().unwrap().contains("assert 1 == 2"));
    assert_eq!(failures[1]["name"], "test_x::test_broken");
    assert!(seen["output"].as_str().unwrap().contains("1 failed, 1 passed"), "{seen}");
    assert_eq!(
        (&seen["program"]["name"], &seen["program"]["from_project"]),
        (&json!("pytest"), &json!(true))
    );
    assert!(seen["program"]["version"].as_str().unwrap().starts_with("pytest "), "{seen}");
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full");
    let project = daemon.home().workspace().join("project");
    for litter in ["__pycache__", ".pytest_cache"] {
        assert!(!project.join(litter).exists(), "{litter}");
    }

    let one = run(&daemon, &json!({"path": "project", "tests": ["test_x.py::test_good"]}));
    assert_eq!(
        (&one["output"]["outcome"], &one["output"]["counts"]["total"]),
        (&json!("passed"), &json!(1)),
        "{one}"
    );
    let option = run(&daemon, &json!({"path": "project", "tests": ["--version"]}));
    assert_eq!(option["metadata"]["refusal"]["code"], "invalid_arguments", "{option}");
    let outside = run(&daemon, &json!({"path": "project", "tests": ["../x.py"]}));
    assert_eq!(outside["metadata"]["failure"]["kind"], "wrong_kind", "{outside}");
}

#[test]
fn test_output_is_masked_escaped_and_labelled_untrusted() {
    let Some(packages) = packages(PYTEST) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    let test = "def test_bad():\n    print('api_key=hunter2hunter2 \\x1b[2J\\u202eend')\n    \
                assert 0, 'password=hunter3hunter3 \\u202edne'\n";
    home.file("project/test_x.py", test);
    let daemon = Daemon::start_in(home);
    let result = run(&daemon, &json!({"path": "project"}));
    let seen = &result["output"];
    assert_eq!((&seen["outcome"], &seen["untrusted"]), (&json!("failed"), &json!(true)), "{result}");
    assert!(seen["notice"].as_str().unwrap().contains("not instructions"), "{seen}");
    let text = seen.to_string();
    for hidden in ["hunter2", "hunter3", "\\u001b", "\u{202e}"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    for shown in ["[redacted", "\\\\u{202e}"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
}

#[test]
fn missing_tests_and_a_failed_run_are_distinct() {
    let Some(packages) = packages(PYTEST) else { return };
    let home = Home::initialised();
    packages.install(&home, "empty");
    packages.install(&home, "broken");
    home.file("broken/conftest.py", "import no_such_module\n");
    let daemon = Daemon::start_in(home);
    let empty = run(&daemon, &json!({"path": "empty"}));
    assert_eq!(empty["output"]["outcome"], "no_tests", "{empty}");
    let broken = run(&daemon, &json!({"path": "broken"}));
    assert_eq!(broken["output"]["outcome"], "tests_not_run", "{broken}");
    assert!(broken["error"].as_str().unwrap().contains("no_such_module"), "{broken}");
    for missing in ["test_gone.py", "test_gone.py::test_a", "tests/unit"] {
        let result = run(&daemon, &json!({"path": "empty", "tests": [missing]}));
        assert_eq!(result["metadata"]["failure"]["kind"], "not_found", "{result}");
        let file = missing.split("::").next().unwrap();
        let said = format!("`{file}` does not exist in the project directory");
        assert_eq!(result["error"], said, "{result}");
    }
}

/// Hostile test file: each line that it prints is something it could reach.
const HOSTILE: &str = r#"
import os, socket, subprocess, sys, time
got = []
def attempt(name, action):
    try:
        if action(): got.append(name)
    except BaseException:
        pass
def connect(kind, address):
    s = socket.socket(kind, socket.SOCK_STREAM)
    s.settimeout(2)
    s.connect(address)
    s.send(b'leak')
    return True
attempt('file', lambda: open(CANARY).read())
attempt('env', lambda: 'canary' in str(os.environ))
attempt('tcp', lambda: connect(socket.AF_INET, ('127.0.0.1', PORT)))
attempt('agent', lambda: connect(socket.AF_UNIX, AGENT))
attempt('control', lambda: connect(socket.AF_UNIX, CONTROL))
attempt('write', lambda: open(OUTSIDE, 'w').write('x') and False)  # into its own /tmp, perhaps: seen from outside
attempt('hidden', lambda: open('.env').read())
attempt('kill', lambda: os.kill(DAEMON, 0) is None)
open('got.txt', 'w').write(' '.join(got))
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)', WORD])
    os._exit(0)
"#;

#[test]
fn hostile_tests_reach_nothing_and_leave_nothing_behind() {
    let Some(packages) = packages(PYTEST) else { return };
    let home = Home::initialised();
    packages.install(&home, "project");
    home.file("project/.env", "TOKEN=canary\n");
    home.file("project/test_x.py", "def test_good(): pass\n");
    let user = home.user_home().canonicalize().unwrap();
    let (canary, outside) = (user.join("canary"), user.join("outside"));
    std::fs::write(&canary, "canary").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let daemon = Daemon::start_with(home, &[("SECRET", "canary")]);
    let word = format!("sinew-left-behind-{}", std::process::id());
    let code = HOSTILE
        .replace("CANARY", &format!("{:?}", canary.to_str().unwrap()))
        .replace("PORT", &listener.local_addr().unwrap().port().to_string())
        .replace("AGENT", &format!("{:?}", daemon.home().socket("agent.sock").to_str().unwrap()))
        .replace("CONTROL", &format!("{:?}", daemon.home().socket("control.sock").to_str().unwrap()))
        .replace("OUTSIDE", &format!("{:?}", outside.to_str().unwrap()))
        .replace("DAEMON", &daemon.pid().to_string())
        .replace("WORD", &format!("{word:?}"));
    daemon.home().file("project/conftest.py", &code);
    let result = run(&daemon, &json!({"path": "project"}));
    assert_eq!(result["output"]["outcome"], "passed", "{result}");
    let got = std::fs::read_to_string(daemon.home().workspace().join("project/got.txt")).unwrap();
    assert_eq!(got, "", "what it got hold of");
    assert!(!outside.exists());
    assert!(listener.accept().is_err(), "no connection was made");
    assert!(!result.to_string().contains("canary"), "{result}");
    wait_until("it is gone", || !is_running(&word));
}

/// Returns true if a process has this word on its command line.
fn is_running(word: &str) -> bool {
    let own = std::process::id().to_string();
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let mut line = Vec::new();
        let name = entry.file_name();
        let is_other = name.to_str() != Some(&own);
        let read = std::fs::File::open(entry.path().join("cmdline"))
            .and_then(|mut file| file.read_to_end(&mut line));
        is_other && read.is_ok() && String::from_utf8_lossy(&line).contains(word)
    })
}

#[test]
fn npm_script_is_run_and_its_counts_are_read() {
    if !std::path::Path::new("/usr/bin/npm").exists() {
        tests::left_out("there is no /usr/bin/npm");
        return;
    }
    let home = Home::initialised();
    std::fs::create_dir(home.workspace().join("web")).unwrap();
    home.file(
        "web/package.json",
        r#"{"name": "web", "version": "1.0.0", "scripts": {"test": "node --test"}}"#,
    );
    let code = "const test = require('node:test');\nconst assert = require('node:assert');\n\
                test('good', () => {});\ntest('bad', () => assert.equal(1, 2));\n";
    home.file("web/x.test.js", code);
    let daemon = Daemon::start_in(home);
    let result = run(&daemon, &json!({"path": "web"}));
    assert_eq!(
        (&result["output"]["outcome"], &result["output"]["program"]["name"]),
        (&json!("failed"), &json!("npm")),
        "{result}"
    );
    assert_eq!(result["output"]["counts"]["passed"], 1, "{result}");
    assert_eq!(result["output"]["counts"]["failed"], 1, "{result}");
    let failures = result["output"]["failures"].as_array().unwrap();
    let bad = failures.iter().find(|failure| failure["name"] == "bad").unwrap_or_else(|| panic!("{result}"));
    assert!(bad["output"].as_str().unwrap().contains("x.test.js"), "{result}");
}
