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
        return eprintln!("left out: {server} is not installed");
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
        return eprintln!("left out: {server} is not installed");
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
        return eprintln!("left out: mcp-server-time is not installed");
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
