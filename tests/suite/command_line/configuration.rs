//! Changes that `sinew init` and `sinew workspace` make to the files of a home, and the files they leave
//! unchanged.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use tests::{Daemon, Home};

const FILES: [&str; 5] = [
    "sinew.yaml",
    "governance/modes.yaml",
    "governance/tools.yaml",
    "governance/safety.yaml",
    "governance/guardrails.yaml",
];

fn backup_files(file: &Path) -> Vec<std::path::PathBuf> {
    let name = format!("{}.", file.file_name().unwrap().to_string_lossy());
    let entries = std::fs::read_dir(file.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&name)).collect()
}

#[test]
fn init_writes_editable_files_and_keeps_existing_ones() {
    let home = Home::new();
    let first = home.run(&["init", "--full"]).must_exit(0);
    let config = home.root().join("config");
    for file in FILES {
        assert!(config.join(file).is_file(), "{file}: {first}");
        assert!(first.stdout().contains(file), "{file} is named: {first}");
    }
    let tools = config.join("governance/tools.yaml");
    let edited = "# mine\n".to_owned() + &std::fs::read_to_string(&tools).unwrap();
    std::fs::write(&tools, &edited).unwrap();
    home.run(&["init", "--full"]).must_exit(0);
    assert_eq!(std::fs::read_to_string(&tools).unwrap(), edited, "an edit was lost");
    home.run(&["init", "--full", "--force"]).must_exit(0);
    assert_ne!(std::fs::read_to_string(&tools).unwrap(), edited);
    assert_eq!(backup_files(&tools).len(), 1, "the edited file is kept beside the new one");
}

#[test]
fn workspace_add_on_a_fresh_home_writes_one_small_file() {
    let home = Home::new();
    home.run(&["workspace", "add", &home.workspace().display().to_string()]).must_exit(0);
    let config = home.root().join("config");
    let written: Vec<_> = std::fs::read_dir(&config).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(written, [config.join("sinew.yaml")], "nothing else");
    assert!(std::fs::read_to_string(&written[0]).unwrap().lines().count() <= 6);
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    home.run(&["init"]).must_exit(0);
    home.run(&["check"]).must_exit(0);
}

#[test]
fn config_commands_change_the_effective_policy() {
    let home = Home::initialised();
    home.configure_layer("governance/tools.yaml", "tools: {}\n");
    let get = |key: &str| home.run(&["config", "get", key]).must_exit(0).stdout().trim().to_owned();
    assert_eq!(get("tools.run_command.memory_mb"), "2048");
    home.run(&["config", "set", "tools.run_command.memory_mb", "4096"]).must_exit(0);
    home.run(&["config", "set", "tools.run_command.allowed_commands", "{add: [rg]}"]).must_exit(0);
    assert_eq!(get("tools.run_command.memory_mb"), "4096");
    assert!(get("tools.run_command.allowed_commands").contains("\"rg\""));
    let refused = home.run(&["config", "set", "tools.run_command.memory_mb", "lots"]).must_exit(7);
    assert!(refused.stderr().contains("tools.yaml"), "{refused}");
    assert_eq!(get("tools.run_command.memory_mb"), "4096", "a change that does not load is not written");
    let shown = home.run(&["config", "show", "--effective"]).must_exit(0).stdout();
    let line = |text: &str| shown.lines().find(|line| line.contains(text)).unwrap_or_default().to_owned();
    assert!(line("memory_mb: 4096").contains("config/governance/tools.yaml:"), "{}", line("memory_mb: 4096"));
    assert!(
        line("timeout_seconds: 120").contains("built-in/tools.yaml:"),
        "{}",
        line("timeout_seconds: 120")
    );
    home.run(&["explain", "run_command", "command:=[\"rg\",\"x\"]"]).must_exit(0);
    home.run(&["explain", "run_command", "command:=[\"git\",\"x\"]"]).must_exit(3);
    assert!(home.run(&["config", "path"]).must_exit(0).stdout().contains("governance/tools.yaml"));
}

#[test]
fn init_writes_the_schemas_that_the_files_refer_to() {
    let home = Home::initialised();
    let governance = home.root().join("config/governance");
    for name in ["modes", "tools", "safety", "guardrails"] {
        let text = std::fs::read_to_string(governance.join(format!("{name}.yaml"))).unwrap();
        let place =
            text.lines().next().unwrap().split("$schema=").nth(1).expect("the first line names a schema");
        let file = governance.join(place);
        let reported = home.run(&["schema", name]).must_exit(0).stdout();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), reported, "{name}");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        std::fs::write(&file, "{}").unwrap();
        home.run(&["init"]).must_exit(0);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), reported, "an old schema is brought up to date");
    }
    Daemon::start_in(home).stop();
}

#[test]
fn init_never_overwrites_a_file_it_cannot_read() {
    let home = Home::initialised();
    let file = home.root().join("config/governance/tools.yaml");
    let strange = b"# caf\xe9\n".as_slice();
    std::fs::write(&file, strange).unwrap();
    home.run(&["init"]).must_exit(0);
    assert_eq!(std::fs::read(&file).unwrap(), strange, "a file that is not text is not replaced");

    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o000)).unwrap();
    let stopped = home.run(&["init"]).must_exit(7);
    assert!(stopped.stderr().contains("tools.yaml") && stopped.stderr().contains("--force"), "{stopped}");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), strange);

    std::fs::remove_file(&file).unwrap();
    symlink("elsewhere.yaml", &file).unwrap();
    home.run(&["init"]).must_exit(7);
    assert!(file.is_symlink(), "a dangling link is not replaced");
    home.run(&["init", "--force"]).must_exit(0);
    assert!(file.is_file() && !file.is_symlink());
    assert!(backup_files(&file)[0].is_symlink(), "the link is kept beside the new file");
}

#[test]
fn dangling_settings_link_is_not_a_missing_file() {
    let home = Home::initialised();
    let file = home.root().join("config/sinew.yaml");
    std::fs::remove_file(&file).unwrap();
    symlink("elsewhere.yaml", &file).unwrap();
    let work = home.workspace().display().to_string();
    home.run(&["workspace", "add", &work]).must_exit(7);
    assert!(file.is_symlink(), "the link was replaced");
}

/// Collects every named key of the schema, recursively.
fn keys(schema: &Value, at: &Value, found: &mut Vec<String>) {
    let target = at["$ref"].as_str().and_then(|place| schema.pointer(place.trim_start_matches('#')));
    let at = target.unwrap_or(at);
    for (key, below) in at["properties"].as_object().into_iter().flatten() {
        found.push(key.clone());
        keys(schema, below, found);
    }
}

#[test]
fn settings_file_shows_every_setting() {
    let home = Home::initialised();
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let schema = home.run(&["schema", "settings"]).must_exit(0).json();
    let mut wanted = Vec::new();
    keys(&schema, &schema, &mut wanted);
    assert!(
        wanted.contains(&"max_bytes".to_owned()) && wanted.contains(&"endpoint".to_owned()),
        "{wanted:?}"
    );
    for key in wanted {
        let shows = |line: &str| line.trim_start_matches(['#', ' ']).starts_with(&format!("{key}:"));
        assert!(text.lines().any(shows), "{key} is not in the settings file");
    }
}

fn listed(home: &Home) -> Vec<Value> {
    home.run(&["workspace", "list", "--json"]).must_exit(0).json()["workspaces"].as_array().unwrap().clone()
}

#[test]
fn workspaces_are_added_listed_and_removed() {
    let home = Home::initialised();
    let extra = home.workspace().with_file_name("extra");
    std::fs::create_dir(&extra).unwrap();
    let dir = extra.display().to_string();
    let sinew_yaml = home.root().join("config/sinew.yaml");
    let comments = |text: &str| text.lines().filter(|line| line.trim_start().starts_with('#')).count();
    let before = comments(&std::fs::read_to_string(&sinew_yaml).unwrap());
    let entry = |access: &str| json!({"path": dir, "access": access});
    home.run(&["workspace", "add", "--read-only", &dir]).must_exit(0);
    assert_eq!(listed(&home)[1..], [entry("read_only")]);
    home.run(&["workspace", "add", &dir]).must_exit(0);
    assert_eq!(listed(&home)[1..], [entry("read_write")], "its access changes, it is not listed twice");
    home.run(&["workspace", "remove", &dir]).must_exit(0);
    assert_eq!(listed(&home).len(), 1);
    assert_eq!(comments(&std::fs::read_to_string(&sinew_yaml).unwrap()), before, "comments are kept");
    home.run(&["workspace", "remove", &dir]).must_exit(2);
    home.run(&["workspace", "add", "/does/not/exist"]).must_exit(2);
}

#[test]
fn workspace_is_the_same_folder_in_any_spelling() {
    let home = Home::initialised();
    let user = home.user_home().canonicalize().unwrap();
    std::fs::create_dir(user.join("real")).unwrap();
    symlink("real", user.join("link")).unwrap();
    let spellings = |home: &Home, text: &str| home.configure("sinew.yaml", text);
    for (written, typed) in [("~/link", "real"), ("~/link", "link"), ("~/real", "link")] {
        spellings(&home, &format!("workspaces:\n  - {written}\n"));
        let typed = user.join(typed).display().to_string();
        home.run(&["workspace", "add", "--read-only", &typed]).must_exit(0);
        let [only] = &listed(&home)[..] else { panic!("{written} was added twice as {typed}") };
        assert_eq!(only["access"], "read_only");
        assert_eq!(only["path"], user.join("real").display().to_string(), "by its own name");
        home.run(&["workspace", "remove", &typed]).must_exit(0);
        assert_eq!(listed(&home), Vec::<Value>::new(), "{written} was not removed as {typed}");
    }
    spellings(&home, "workspaces:\n  - ~/link\n  - /srv\n  - ~/real\n");
    let typed = user.join("real").display().to_string();
    home.run(&["workspace", "remove", &typed]).must_exit(0);
    assert_eq!(listed(&home), [json!({"path": "/srv", "access": "read_write"})], "or the folder stays open");
    spellings(&home, "workspaces:\n  - ~/gone\n");
    let gone = user.join("gone").display().to_string();
    home.run(&["workspace", "remove", &gone]).must_exit(0);
    assert_eq!(listed(&home), Vec::<Value>::new(), "a folder that is gone can be removed");
}

#[test]
fn symlink_does_not_choose_the_workspace() {
    let home = Home::initialised();
    let (work, user) = (home.workspace(), home.user_home().canonicalize().unwrap());
    let inner = work.join("a/sub");
    std::fs::create_dir_all(&inner).unwrap();
    home.run(&["workspace", "add", inner.to_str().unwrap()]).must_exit(0);
    home.run(&["check"]).must_exit(0);
    // A caller that can write in the outer workspace replaces the inner one by another folder.
    let secret = user.join("secret");
    std::fs::create_dir(&secret).unwrap();
    std::fs::write(secret.join("key.txt"), "x").unwrap();
    std::fs::rename(work.join("a"), work.join("b")).unwrap();
    std::fs::create_dir(work.join("a")).unwrap();
    symlink(&secret, &inner).unwrap();
    let arguments = json!({"path": secret.join("key.txt")}).to_string();
    let refused = home.run(&["call", "read_file", &arguments]).must_exit(7);
    let reported = refused.stderr();
    for part in ["sinew.yaml:", "a/sub", "leads through a link", "secret", "sinew workspace remove"] {
        assert!(reported.contains(part), "{part}: {reported}");
    }
    home.run(&["check"]).must_exit(7);
    let named = home.run(&["workspace", "add", inner.to_str().unwrap()]).must_exit(0);
    assert!(named.stderr().contains("by its canonical path"), "{named}");
    assert_eq!(listed(&home)[1]["path"], secret.display().to_string(), "and it is shown what it is");
}

#[test]
fn read_only_workspace_refuses_writes() {
    let home = Home::initialised();
    let work = home.workspace().display().to_string();
    home.run(&["workspace", "add", "--read-only", &work]).must_exit(0);
    home.file("a.txt", "x");
    home.run(&["call", "read_file", "path=a.txt"]).must_exit(0);
    home.run(&["call", "write_file", "path=b.txt", "content=x"]).must_exit(3);
}

#[test]
fn home_that_other_users_can_replace_is_not_trusted() {
    let home = Home::initialised();
    let mode = |bits| std::fs::set_permissions(home.user_home(), Permissions::from_mode(bits)).unwrap();
    for (bits, code) in [(0o770, 7), (0o757, 7), (0o755, 0), (0o1777, 0)] {
        mode(bits);
        let reported = home.run(&["workspace", "list"]).must_exit(code);
        assert!(code == 0 || reported.stderr().contains("chmod go-w"), "{reported}");
    }
    mode(0o700);
}

#[test]
fn settings_show_their_origin_and_no_secrets() {
    let home = Home::initialised();
    home.configure("sinew.yaml", "limits:\n  max_connections: 9\notlp:\n  headers: {x-key: hunter2}\n");
    let run = home.run(&["config", "show", "--origin"]).must_exit(0);
    let line = |key: &str| {
        let text = run.stdout();
        let mut found = text.lines().filter(|line| line.split_whitespace().next() == Some(key));
        found.next().map(|line| line.trim_end().to_owned()).unwrap_or_else(|| panic!("{key}: {run}"))
    };
    assert!(line("limits.max_connections").contains("sinew.yaml:2"), "{run}");
    assert!(line("limits.drain_seconds").ends_with("default"), "{run}");
    assert!(line("governance/tools.yaml").contains("config/governance/tools.yaml"), "{run}");
    assert!(!run.stdout().contains("hunter2"), "{run}");
    let plain = home.run(&["config", "show"]).must_exit(0);
    assert!(!plain.stdout().contains("sinew.yaml:2"), "{plain}");

    let mut command = tests::sinew();
    command.args(["config", "show", "--json"]).env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    let output = command.env("SINEW_LOG", "debug").output().unwrap();
    let reported: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reported["schema_version"], 1);
    let settings = reported["settings"].as_array().unwrap();
    let one =
        |key: &str| settings.iter().find(|row| row["key"] == key).unwrap_or_else(|| panic!("{reported}"));
    let (nine, level) = (one("limits.max_connections"), one("log.level"));
    assert_eq!(nine["value"], 9);
    assert_eq!(nine["origin"], json!({"from": "file", "line": 2, "is_default": false}));
    assert_eq!(level["value"], "debug");
    assert_eq!(level["origin"], json!({"from": "environment", "variable": "SINEW_LOG"}));
    assert_eq!(one("ledger.keep_days")["value"], Value::Null);
    assert!(!reported.to_string().contains("hunter2"), "{reported}");

    home.configure("sinew.yaml", "limits:\n  max_connections: 0\n");
    let refused = home.run(&["config", "show"]).must_exit(7);
    assert!(
        refused.stderr().contains("max_connections"),
        "what cannot hold is not shown as holding: {refused}"
    );
}

/// Each preset is shown as a table, loads without a warning, and holds.
#[test]
fn home_presets_are_shown_and_hold() {
    for (preset, rows, write, run) in [
        ("coding", "delete_file", 0, 0),
        ("review", "requires_approval_in_modes", 4, 4),
        ("research", "allowed_commands", 4, 3),
        ("docs", "allowed_commands", 0, 3),
    ] {
        let home = Home::new();
        let folder = home.workspace().display().to_string();
        let shown = home.run(&["init", "--preset", preset, "--workspace", &folder]).must_exit(0).stdout();
        let table = shown.lines().position(|line| line.contains(rows)).expect("a table");
        let written = shown.lines().position(|line| line.contains("tools.yaml")).expect("a file");
        assert!(table < written, "{shown}");
        let checked = home.run(&["check"]).must_exit(0).stdout();
        assert!(checked.contains("0 errors, 0 warnings"), "{preset}: {checked}");
        let explain = |words: &[&str]| home.run(&[&["explain"], words].concat()).output.status.code();
        assert_eq!(explain(&["write_file", "path=a.txt", "content=x"]), Some(write), "{preset}");
        assert_eq!(explain(&["run_command", "command:=[\"ls\"]"]), Some(run), "{preset}");
        assert_eq!(explain(&["read_file", "path=a.txt"]), Some(0), "{preset}");
        let diff = home.run(&["policy", "diff", "built-in", "effective", "--json"]).must_exit(0).json();
        for list in ["changes", "differences"] {
            let differences = diff[list].as_array().unwrap();
            assert!(!differences.is_empty(), "{preset} {list}");
            assert!(differences.iter().all(|one| one["effect"] != "loosens"), "{preset}: {differences:#?}");
        }
        home.run(&["init", "--preset", preset]).must_exit(2);
    }
    let home = Home::new();
    home.run(&["init", "--preset", "coding", "--full"]).must_exit(2);
}

/// The editor's text is checked before it replaces the guardrails, and keys of tools with dots are found.
#[test]
fn edited_guardrails_are_checked() {
    let home = Home::new();
    home.run(&["init"]).must_exit(0);
    let editor = home.user_home().join("editor.sh");
    let edit = |text: &str| {
        std::fs::write(&editor, format!("#!/bin/sh\ncat > \"$1\" <<'END'\n{text}END\n")).unwrap();
        std::fs::set_permissions(&editor, Permissions::from_mode(0o700)).unwrap();
        let mut command = tests::sinew();
        command.args(["config", "edit", "guardrails"]).current_dir(home.workspace());
        command.env("SINEW_HOME", home.root()).env("HOME", home.user_home()).env("EDITOR", &editor);
        command.output().unwrap()
    };
    let file = home.root().join("config/governance/guardrails.yaml");
    let broken = edit("tools:\n  read_file: {required: path}\n");
    assert_eq!(broken.status.code(), Some(7), "{broken:?}");
    let said = String::from_utf8_lossy(&broken.stderr).into_owned();
    assert!(said.contains("governance/guardrails.yaml:2"), "{said}");
    assert!(!file.exists(), "the broken text was not written");
    let good = edit("tools:\n  read_file: {required: [path]}\n");
    assert!(good.status.success() && file.exists(), "{good:?}");
}
