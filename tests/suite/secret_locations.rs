//! Locations of secrets against every tool that could reveal one: built-in tools, the manifests that ship
//! with Sinew, the one in the documentation, and tools of manifests that do not declare the paths they open.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// List that the shipped file has in its sets, with one pattern on each line. A test of `governance` keeps the
/// two files equal in meaning.
const LISTED: &str = include_str!("../../crates/governance/tests/fixtures/tools-before-sets.yaml");
const SHIPPED: &str = include_str!("../../config/governance/tools.yaml");
const DOCUMENTED: &str = include_str!("../../docs/manifests.md");

/// Text that only files in secret locations contain.
const CANARY: &str = "xqcanaryzq";
/// Text of an ordinary file, to detect a tool that reveals nothing at all.
const ORDINARY: &str = "xqordinaryzq";

/// Opens the file that a plain text argument names, without declaring it as a path.
const CAT: &str = "tool:\n  id: shower\n  type: cli\n  name: Shower\n  version: 1.0.0\n  description: d\n  \
    cli_specific: {executable: cat, install_guide: i}\n  commands:\n    - name: show\n      category: read_only\n      risk_level: low\n      \
    argv: [--, \"{file}\"]\n      parameters: [{name: file, type: string}]\n";
const SCRIPT: &str = "tool:\n  id: opener\n  type: local\n  name: Opener\n  version: 1.0.0\n  description: d\n  \
    local_specific: {entry_point: opener.py, runtime: python}\n  commands:\n    - name: open_it\n      category: read_only\n      \
    risk_level: low\n      parameters: [{name: file, type: string}]\n    - name: open_path\n      category: read_only\n      risk_level: low\n      \
    parameters: [{name: file, type: string, format: path}]\n";
const SCRIPT_CODE: &str = "import json, sys\nfile = json.load(sys.stdin)['arguments']['file']\n\
    try: print(json.dumps({'text': open(file).read()}))\nexcept OSError as error: print(json.dumps({'error': str(error)}))\n";
const SERVER: &str = "import json, sys\n\
    def answer(id, result): print(json.dumps({'jsonrpc': '2.0', 'id': id, 'result': result}), flush=True)\n\
    for line in sys.stdin:\n \
    m = json.loads(line)\n \
    if 'id' not in m: continue\n \
    if m['method'] == 'initialize': answer(m['id'], {'protocolVersion': m['params']['protocolVersion'], 'capabilities': {'tools': {}}, 'serverInfo': {'name': 's', 'version': '1'}})\n \
    elif m['method'] == 'tools/list': answer(m['id'], {'tools': [{'name': 'fetch_it', 'inputSchema': {'type': 'object'}}]})\n \
    elif m['method'] == 'tools/call':\n  \
    try: text = open(m['params']['arguments']['file']).read()\n  \
    except OSError as error: text = str(error)\n  \
    answer(m['id'], {'content': [{'type': 'text', 'text': text}]})\n \
    else: answer(m['id'], {})\n";

fn upstream(script: &Path) -> String {
    format!(
        "tool:\n  id: upstream\n  type: mcp\n  name: Upstream\n  version: 1.0.0\n  description: d\n  mcp_specific:\n    \
         server_command: python3 {}\n    transport: stdio\n  commands:\n    - name: fetch_it\n      category: read_only\n      \
         risk_level: low\n      timeout_seconds: 20\n      parameters: [{{name: file, type: string}}]\n",
        script.display()
    )
}

/// Patterns that the shipped policy forbids to every tool.
fn patterns() -> Vec<String> {
    let list = LISTED.split_once("\nforbidden_paths:\n").expect("the list for every tool").1;
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let patterns = lines.filter_map(|line| line.trim().strip_prefix("- "));
    patterns.map(|pattern| pattern.trim_matches('"').to_owned()).collect()
}

/// One file for each location of a pattern that a test can create: in the home of the user, or anywhere.
fn places(pattern: &str, home: &Home) -> Vec<PathBuf> {
    if let Some((before, rest)) = pattern.split_once('{') {
        let (inside, after) = rest.split_once('}').expect("a closed brace");
        return inside.split(',').flat_map(|one| places(&format!("{before}{one}{after}"), home)).collect();
    }
    let is_file = |name: &str| {
        name.starts_with("credentials")
            || name.ends_with(".json")
            || name.ends_with("rc")
            || name == ".git-credentials"
    };
    let user = home.user_home().canonicalize().expect("the home exists");
    if let Some(below) = pattern.strip_prefix("$HOME/") {
        let name = below.rsplit('/').next().expect("a name");
        return vec![if is_file(name) { user.join(below) } else { user.join(below).join("canary.txt") }];
    }
    match pattern.strip_prefix("**/") {
        Some(name) => vec![home.workspace().join("deep").join(name.replace('*', "local"))],
        None => Vec::new(),
    }
}

fn put(path: &Path, content: &str, like: &Path) {
    let owner = std::fs::metadata(like).expect("an owner");
    let folder = path.parent().expect("a folder");
    std::fs::create_dir_all(folder).expect("folders");
    std::fs::write(path, content).expect("a file");
    for path in path.ancestors().take_while(|path| *path != like) {
        std::os::unix::fs::chown(path, Some(owner.uid()), Some(owner.gid())).expect("hand it over");
    }
}

/// Every call that could reveal a file, by tool. The last field is true if it reveals an ordinary file.
fn calls(file: &Path) -> Vec<(&'static str, Value, bool)> {
    let (path, folder) = (file.display().to_string(), file.parent().expect("a folder").display().to_string());
    vec![
        ("read_file", json!({"path": path}), true),
        ("list_directory", json!({"path": folder}), false),
        ("search_files", json!({"path": folder, "query": "xq"}), true),
        ("write_file", json!({"path": path, "content": "x", "dry_run": true}), true),
        (
            "edit_file",
            json!({"path": path, "edits": [{"old_text": "xq", "new_text": "x"}], "dry_run": true}),
            true,
        ),
        ("delete_file", json!({"path": path, "dry_run": true}), false),
        ("create_directory", json!({"path": path}), false),
        ("run_command", json!({"command": ["cat", path]}), true),
        ("run_command", json!({"command": ["grep", "-r", "-e", "xq", folder]}), true),
        ("run_linter", json!({"path": folder}), false),
        ("run_tests", json!({"path": folder}), false),
        ("git_status", json!({"path": folder}), false),
        ("git_diff", json!({"path": folder}), false),
        ("git_log", json!({"path": folder}), false),
        ("read_system_logs", json!({"file": path}), false),
        ("finder.find_text", json!({"pattern": "xq", "path": path}), true),
        ("finder.find_text", json!({"pattern": path, "path": path}), false),
        ("ripgrep.search_text", json!({"pattern": "xq", "path": folder}), false),
        ("text-statistics.count_text", json!({"path": path}), true),
        ("json-tidy.sort_keys", json!({"value": {"path": path}}), false),
        ("project-health.check_project", json!({"folder": folder, "note": "xq"}), true),
        ("shower.show", json!({"file": path}), true),
        ("opener.open_it", json!({"file": path}), true),
        ("opener.open_path", json!({"file": path}), true),
        ("upstream.fetch_it", json!({"file": path}), true),
    ]
}

fn home() -> (Home, Vec<PathBuf>) {
    let home = Home::initialised().without_automatic_modes();
    let user = home.user_home().canonicalize().expect("the home exists");
    let canaries: Vec<PathBuf> = patterns().iter().flat_map(|pattern| places(pattern, &home)).collect();
    for canary in &canaries {
        put(canary, CANARY, &user);
        // Each location is a workspace, so that no other rule keeps a tool out. The whole home would contain
        // Sinew's own folders.
        let below = canary.strip_prefix(&user).expect("it is in the home");
        let top = user.join(below.components().next().expect("a first name"));
        if top.is_dir() {
            home.run(&["workspace", "add", &top.display().to_string()]).must_exit(0);
        }
    }
    put(&home.workspace().join("plain/plain.txt"), ORDINARY, &home.workspace());
    for (name, text) in [
        ("ripgrep.yaml", include_str!("../../tools/ripgrep.yaml")),
        ("text-statistics.yaml", include_str!("../../tools/text-statistics.yaml")),
        ("json-tidy.yaml", include_str!("../../tools/json-tidy.yaml")),
        ("project-health.yaml", include_str!("../../tools/project-health.yaml")),
        ("shower.yaml", CAT),
        ("opener.yaml", SCRIPT),
        ("opener.py", SCRIPT_CODE),
    ] {
        home.put_tool(name, text);
    }
    let documented =
        DOCUMENTED.split_once("```yaml\n").expect("an example").1.split_once("```").expect("its end").0;
    home.put_tool("finder.yaml", documented);
    std::fs::create_dir_all(home.root().join("tools/scripts")).expect("a folder");
    home.put_tool("scripts/text_statistics.py", include_str!("../../tools/scripts/text_statistics.py"));
    home.put_tool("scripts/sort_json.js", include_str!("../../tools/scripts/sort_json.js"));
    let script = home.workspace().join("server.py");
    put(&script, SERVER, &home.workspace());
    home.put_tool("upstream.yaml", &upstream(&script));
    let tools = home.root().join("tools");
    for path in [tools.join("scripts"), tools.clone()] {
        let owner = std::fs::metadata(home.root().join("config")).expect("a configuration");
        for entry in std::fs::read_dir(&path).expect("tools").flatten() {
            std::os::unix::fs::chown(entry.path(), Some(owner.uid()), Some(owner.gid()))
                .expect("hand it over");
        }
        std::os::unix::fs::chown(&path, Some(owner.uid()), Some(owner.gid())).expect("hand it over");
    }
    (home, canaries)
}

#[test]
fn no_tool_reveals_a_secret_from_its_location() {
    let (home, canaries) = home();
    assert!(canaries.len() > 25, "{canaries:?}");
    // Other tests cover rate limits.
    let home = home.without_rate_limits();
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let plain = daemon.home().workspace().join("plain/plain.txt");
    for (tool, arguments, shows) in calls(&plain) {
        let result = agent.execute(tool, &arguments);
        let text = result.to_string().to_lowercase();
        assert!(text.contains(ORDINARY) || !shows, "{tool} shows an ordinary file: {result}");
    }
    let mut count = 0;
    for canary in &canaries {
        for (tool, arguments, _) in calls(canary) {
            let text = agent.execute(tool, &arguments).to_string().to_lowercase();
            assert!(!text.contains(CANARY), "{tool} {arguments}: {text}");
            count += 1;
        }
    }
    let notes = format!("{} locations, every tool that could reveal a file", canaries.len());
    tests::Campaign::start(1).finish(count, &notes);
}

#[test]
fn tool_reads_a_secret_that_its_own_entry_excepts() {
    let (home, _) = home();
    let env = home.workspace().join("deep/.env");
    let entry = "\n  shower.show:\n    forbidden_paths_except: [\"**/.env\"]\n";
    home.configure("governance/tools.yaml", &format!("{SHIPPED}{entry}"));
    let found = home.run(&["check", "--json"]).must_exit(0).json();
    let warnings: Vec<String> =
        found["warnings"].as_array().expect("a list").iter().map(|one| one["message"].to_string()).collect();
    let named = |warning: &&String| warning.contains("shower.show (line ") && warning.contains("**/.env`");
    assert!(warnings.iter().any(|warning| named(&warning)), "{warnings:?}");
    let daemon = Daemon::start_in(home);
    let file = json!({"file": env.display().to_string()});
    let shown = daemon.agent().execute("shower.show", &file).to_string();
    assert!(shown.contains(CANARY), "{shown}");
    let other = daemon.agent().execute("opener.open_it", &file).to_string();
    assert!(!other.contains(CANARY), "{other}");
}
