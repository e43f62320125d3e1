//! Published MCP servers from the npm registry and from PyPI, run by manifest. Where `cargo xtask test` could
//! not install them, these tests are skipped and report it.

use std::path::{Path, PathBuf};

use serde_json::json;
use tests::{Daemon, Home};

use super::run::{code, put};

/// Directory filled by `cargo xtask test`, and this file in it, if it exists.
fn installed(variable: &str, file: &str) -> Option<(PathBuf, PathBuf)> {
    let folder = std::env::var_os(variable).map(PathBuf::from)?;
    let file = folder.join(file);
    if Path::new(&file).exists() {
        return Some((folder, file));
    }
    None
}

/// Home whose callers may read a folder.
fn home_beside(folder: &Path) -> Home {
    let home = Home::initialised().without_automatic_modes();
    home.run(&["workspace", "add", "--read-only", &folder.display().to_string()]).must_exit(0);
    home
}

#[test]
fn npm_reference_server_runs_from_the_shipped_manifest() {
    let server = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    let Some((folder, file)) = installed("SINEW_NODE", server) else {
        return tests::left_out(&format!("{server} is not installed"));
    };
    let home = home_beside(&folder);
    let started = format!("server_command: node {} stdio", file.display());
    let manifest = include_str!("../../../tools/everything.yaml");
    put(&home, "everything.yaml", &manifest.replace("server_command: mcp-server-everything stdio", &started));
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let echoed = agent.execute("everything.echo", &json!({"message": "hello"}));
    assert_eq!(echoed["output"]["text"], "Echo: hello", "{echoed}");
    assert_eq!(echoed["metadata"]["sandbox"]["tier"], "full", "{echoed}");
    let sum = agent.execute("everything.get-sum", &json!({"a": 1, "b": 2}));
    assert_eq!(sum["output"]["text"], "The sum of 1 and 2 is 3.", "{sum}");
}

#[test]
fn npm_file_server_is_under_the_path_rules() {
    let server = "node_modules/@modelcontextprotocol/server-filesystem/dist/index.js";
    let Some((folder, file)) = installed("SINEW_NODE", server) else {
        return tests::left_out(&format!("{server} is not installed"));
    };
    let home = home_beside(&folder);
    let workspace = home.workspace().display().to_string();
    let manifest = format!(
        "tool:\n  id: files\n  type: mcp\n  name: Files\n  version: 1.0.0\n  description: d\n  mcp_specific:\n    server_command: node \
         {} {workspace}\n  commands:\n    - name: read_text_file\n      category: read_only\n      risk_level: low\n      parameters:\n        \
         - {{name: path, type: string, format: path}}\n",
        file.display()
    );
    put(&home, "files.yaml", &manifest);
    let text = home.file("a.txt", "from the file").display().to_string();
    let daemon = Daemon::start_in(home);
    let read = daemon.agent().execute("files.read_text_file", &json!({"path": text}));
    assert_eq!(read["output"], json!({"content": "from the file"}), "{read}");
    let refused = daemon.agent().execute("files.read_text_file", &json!({"path": "/etc/shadow"}));
    assert!(code(&refused).starts_with("path_"), "{refused}");
}

#[test]
fn pypi_server_runs_by_manifest() {
    let Some((_, program)) = installed("SINEW_PROGRAMS", "python/bin/mcp-server-time") else {
        return tests::left_out("mcp-server-time is not installed");
    };
    let libraries = program.parent().and_then(Path::parent).expect("its folder").join("lib");
    let versions = std::fs::read_dir(libraries).expect("libraries").flatten();
    let mut folders = versions.map(|version| version.path().join("site-packages"));
    let folder = folders.find(|folder| folder.join("mcp_server_time").exists()).expect("the package");
    let home = home_beside(&folder);
    let start = format!(
        "import sys\nsys.path.insert(0, {:?})\nfrom mcp_server_time import main\nmain()\n",
        folder.display().to_string()
    );
    let script = home.file("start.py", &start).display().to_string();
    let manifest = format!(
        "tool:\n  id: clock\n  type: mcp\n  name: Clock\n  version: 1.0.0\n  description: d\n  mcp_specific:\n    server_command: python3 \
         {script} --local-timezone UTC\n  commands:\n    - name: get_current_time\n      output: json\n      category: read_only\n      \
         risk_level: low\n      parameters: [{{name: timezone, type: string}}]\n"
    );
    put(&home, "clock.yaml", &manifest);
    let daemon = Daemon::start_in(home);
    let reported = daemon.agent().execute("clock.get_current_time", &json!({"timezone": "UTC"}));
    assert_eq!(reported["output"]["timezone"], "UTC", "{reported}");
}

/// Splits a documented command at blanks. Text in double quotes is one word.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for (index, part) in line.split('"').enumerate() {
        match index % 2 {
            0 => words.extend(part.split_whitespace().map(str::to_owned)),
            _ => words.push(part.to_owned()),
        }
    }
    words
}

/// Runs the three documented steps for a published server, with its folder below `target`, and calls a tool.
fn documented_steps(
    server: &str,
    call: (&str, impl FnOnce(&Home) -> serde_json::Value),
) -> Option<serde_json::Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the project");
    // A folder of its own, because two installations at once would disturb each other.
    let folder = root.join("target/servers").join(server);
    let page = include_str!("../../../docs/manifests.md");
    let import = format!("sinew manifest import {server} ");
    let block = page.split("```sh\n").filter_map(|part| part.split_once("```")).map(|(block, _)| block);
    let block = block.filter(|block| block.contains(&import)).last().expect("documented steps");
    let shown = folder.display().to_string();
    let lines: Vec<String> = block
        .lines()
        .map(|line| line.replace("~/servers", &shown).replace("$HOME/servers", &shown))
        .collect();
    let [install, workspace, import] = lines.as_slice() else { panic!("three steps: {block}") };
    let installed = std::process::Command::new("sh").args(["-c", install]).output();
    if !installed.as_ref().is_ok_and(|output| output.status.success()) {
        tests::left_out(&format!("{server}: its registry cannot be reached: {installed:?}"));
        return None;
    }
    let home = Home::initialised().without_automatic_modes();
    for line in [workspace, import] {
        let words = words(line);
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        home.run(&words).must_exit(0);
    }
    let (tool, arguments) = (call.0, call.1(&home));
    let daemon = Daemon::start_in(home);
    Some(daemon.agent().execute(tool, &arguments))
}

#[test]
fn documented_steps_connect_server_everything() {
    let called = documented_steps("everything", ("everything.echo", |_| json!({"message": "hello"})));
    if let Some(answer) = called {
        assert_eq!(answer["output"]["text"], "Echo: hello", "{answer}");
    }
}

#[test]
fn documented_steps_connect_server_memory() {
    if let Some(answer) = documented_steps("memory", ("memory.read_graph", |_| json!({}))) {
        assert_eq!(answer["output"]["entities"], json!([]), "{answer}");
    }
}

#[test]
fn documented_steps_connect_mcp_server_time() {
    let called = documented_steps("time", ("time.get_current_time", |_| json!({"timezone": "UTC"})));
    if let Some(answer) = called {
        assert!(answer.to_string().contains("timezone") && answer["success"] == true, "{answer}");
    }
}

#[test]
fn documented_steps_connect_mcp_server_git() {
    let repository = |home: &Home| {
        let folder = home.workspace();
        let made = std::process::Command::new("git").arg("init").arg("--quiet").arg(&folder).status();
        assert!(made.is_ok_and(|status| status.success()));
        json!({"repo_path": folder.display().to_string()})
    };
    if let Some(answer) = documented_steps("git", ("git.git_status", repository)) {
        assert!(answer.to_string().contains("No commits yet") && answer["success"] == true, "{answer}");
    }
}
