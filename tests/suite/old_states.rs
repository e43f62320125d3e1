//! States that earlier versions left: the daemon takes them over, keeps what it does not need any more, and the
//! ledger, undo and approvals go on.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Daemon, Home};

/// Files of a folder and its subfolders, by their path in it.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for path in std::fs::read_dir(next).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            match path.is_dir() {
                true => open.push(path),
                false => {
                    let content = std::fs::read(&path).expect("a file");
                    let name = path.strip_prefix(folder).expect("it is below").to_owned();
                    found.insert(name, content);
                }
            }
        }
    }
    found
}

/// Writes a file of the state. A removed file is in the undo store as it was, with its permissions.
fn write_state(path: &Path, content: &[u8]) {
    let folder = path.parent().expect("a folder");
    std::fs::create_dir_all(folder).expect("a folder");
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).expect("private");
    std::fs::write(path, content).expect("write");
    let mode = if path.extension().is_some_and(|extension| extension == "before") { 0o644 } else { 0o600 };
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("permissions");
}

/// Old state in a new home. Undo records name folders, so these follow the workspace.
struct OldState {
    home: Home,
    files: BTreeMap<PathBuf, Vec<u8>>,
    changes: Vec<String>,
}

impl OldState {
    fn copy(version: &str) -> OldState {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/states").join(version);
        let home = Home::initialised();
        let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("settings");
        assert!(settings.contains(" keep_days: 30 "), "{settings}");
        // The changes of the fixture grow old.
        home.configure("sinew.yaml", &settings.replace(" keep_days: 30 ", " keep_days: 36500 "));
        for (name, content) in files(&fixture.join("work")) {
            std::fs::write(home.workspace().join(name), content).expect("write");
        }
        let (mut files, mut changes) = (files(&fixture.join("state")), Vec::new());
        for (name, content) in &mut files {
            if name.starts_with("undo") && name.extension().is_some_and(|extension| extension == "json") {
                let mut record: Value = serde_json::from_slice(content).expect("an undo record");
                record["folder"] = json!({"Unix": home.workspace().as_os_str().as_bytes()});
                changes.push(record["call_id"].as_str().expect("a call").to_owned());
                *content = record.to_string().into_bytes();
            }
            write_state(&home.root().join("state").join(name), content);
        }
        OldState { home, files, changes }
    }
}

/// Checks that every byte of the old segments is still there: as records, or beside them.
fn check_kept(home: &Home, old: &BTreeMap<PathBuf, Vec<u8>>) {
    let now = files(&home.root().join("state"));
    for (name, content) in old.iter().filter(|(name, _)| name.extension().is_some_and(|end| end == "ndjson"))
    {
        let records = content.trim_ascii_end().len() + 1;
        let (records, padding) = content.split_at(records.min(content.len()));
        assert!(now[name].starts_with(records), "{}: records were changed", name.display());
        let leaf = name.file_name().expect("a name").to_string_lossy();
        let beside = name.with_file_name(format!("cut-{leaf}-{}.bin", records.len()));
        assert_eq!(now.get(&beside).map_or(&[][..], Vec::as_slice), padding, "{}", beside.display());
    }
}

fn check_ledger(home: &Home) {
    let report = home.run(&["ledger", "verify", "--json"]).json();
    assert_eq!(report["intact"], true, "{report}");
    let refused = home.run(&["ledger", "query", "--outcome", "refused", "--json"]).must_exit(0).stdout();
    assert!(refused.contains("/etc/shadow"), "an old record is found: {refused}");
}

/// Undoes the three changes of the fixture.
fn check_undo(home: &Home, changes: &[String]) {
    let content = |name: &str| std::fs::read_to_string(home.workspace().join(name)).ok();
    let contents = || ["changed.txt", "removed.txt", "new.txt"].map(content);
    assert_eq!(contents(), [Some("second".to_owned()), None, Some("new".to_owned())]);
    for change in changes {
        home.run(&["undo", change]).must_exit(0);
    }
    assert_eq!(contents(), [Some("first\n".to_owned()), Some("gone\n".to_owned()), None]);
}

/// The old requests are too old to be approved. A new one is asked, approved and run.
fn check_approvals(daemon: &Daemon) {
    let home = daemon.home();
    let listed = home.run(&["approvals", "list", "--json"]).must_exit(0).json();
    assert_eq!(listed["approvals"], json!([]), "{listed}");
    let mode = home.run(&["status", "--json"]).must_exit(0).json()["mode"].clone();
    assert_eq!(mode, "ALERT", "the mode is kept");
    let arguments = json!({"path": "plan.md", "content": "x"});
    let asked = daemon.agent().execute_with("write_file", &arguments, &json!({"approval": "async"}));
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_default().to_owned();
    assert!(!id.is_empty(), "{asked}");
    home.run(&["approve", &id]).must_exit(0);
    let with_id = json!({"approval": "async", "approval_id": id});
    let done = daemon.agent().execute_with("write_file", &arguments, &with_id);
    assert_eq!(done["success"], true, "{done}");
}

#[test]
fn states_of_earlier_versions_are_taken_over() {
    for version in ["0", "1"] {
        let OldState { home, files, changes } = OldState::copy(version);
        let daemon = Daemon::start_in(home);
        let state = daemon.home().root().join("state");
        assert_eq!(std::fs::read_to_string(state.join("version")).expect("a version"), "1\n");
        check_kept(daemon.home(), &files);
        check_ledger(daemon.home());
        check_undo(daemon.home(), &changes);
        check_approvals(&daemon);
        let home = daemon.stop();
        check_ledger(&home);
    }
}
