//! Parent folders that a write creates, and `create_directory`: judged, shown, recorded, undone, and never
//! outside.

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::{FileToolFixture, call_id};

fn scene_with(tools: &str) -> FileToolFixture {
    let home = Home::initialised();
    home.configure("governance/tools.yaml", tools);
    let daemon = Daemon::start_in(home.without_automatic_modes());
    FileToolFixture { agent: daemon.agent(), daemon }
}

fn in_workspace(scene: &FileToolFixture, names: &[&str]) -> Value {
    names.iter().map(|name| scene.daemon.home().workspace().join(name).display().to_string()).collect()
}

#[test]
fn write_creates_parent_folders_on_request() {
    let mut scene = FileToolFixture::new();
    let plain = json!({"path": "src/new/mod.rs", "content": "x\n"});
    let failed = scene.agent.execute("write_file", &plain);
    assert_eq!(failed["metadata"]["failure"]["kind"], "not_found", "{failed}");
    assert!(failed["metadata"]["failure"]["hint"].as_str().unwrap().contains("create_dirs"), "{failed}");
    let with = |more: Value| {
        let mut arguments = plain.clone();
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let preview = scene.result_of("write_file", with(json!({"create_dirs": true, "dry_run": true})));
    let folders = in_workspace(&scene, &["src", "src/new"]);
    assert_eq!(preview["output"]["created_dirs"], folders);
    assert!(scene.names().is_empty(), "a dry run makes nothing");
    let written = scene.result_of("write_file", with(json!({"create_dirs": true})));
    assert_eq!(
        (&written["output"]["created_dirs"], &written["metadata"]["undoable"]),
        (&folders, &json!(true))
    );
    assert_eq!(
        written["metadata"]["files_touched"],
        in_workspace(&scene, &["src", "src/new", "src/new/mod.rs"])
    );
    assert_eq!(scene.content("src/new/mod.rs").unwrap(), "x\n");
    let again = scene.output_of("write_file", with(json!({"create_dirs": true, "content": "y\n"})));
    assert_eq!((&again["created"], &again["created_dirs"]), (&json!(false), &json!(null)));
    let records = scene.daemon.home().records();
    let intent = records.iter().find(|record| {
        tests::holds(record, "decision") && record["call_id"] == written["metadata"]["call_id"]
    });
    assert_eq!(intent.unwrap()["facts"]["paths"][0]["missing_folders"], folders, "{intent:?}");
}

#[test]
fn folder_is_created_once_with_its_parents() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "a file");
    let preview = scene.output_of("create_directory", json!({"path": "a/b/", "dry_run": true}));
    let made = scene.result_of("create_directory", json!({"path": "a/b/"}));
    assert_eq!(made["output"]["created_dirs"], in_workspace(&scene, &["a", "a/b"]));
    assert_eq!(preview["created_dirs"], made["output"]["created_dirs"]);
    let again = scene.result_of("create_directory", json!({"path": "a/b"}));
    assert_eq!(
        (&again["output"]["created_dirs"], &again["metadata"]["undoable"]),
        (&json!([]), &json!(null))
    );
    assert_eq!(scene.failure_of("create_directory", json!({"path": "f"})).0, "wrong_kind");
    let deep = vec!["d"; 34].join("/");
    assert_eq!(scene.failure_of("create_directory", json!({"path": deep})).0, "not_found");
    assert_eq!(scene.names(), ["a", "f"]);
    scene.daemon.home().run(&["undo", &call_id(&made)]).must_exit(0);
    assert_eq!(scene.names(), ["f"]);
}

#[test]
fn every_folder_to_be_created_is_judged() {
    let mut scene = scene_with(
        "tools:\n  write_file: {forbidden_paths: [\"**/secret-*\"]}\n  \
         create_directory: {allowed_paths: [\"**/*.d\"]}\n",
    );
    let write = |path: &str| json!({"path": path, "content": "x", "create_dirs": true});
    for path in ["secret-a/f", "a/secret-b/c/f", "a/secret-c/../f"] {
        let (code, _) = scene.refusal_of("write_file", write(path));
        assert_eq!(code, "path_forbidden", "{path}");
    }
    for path in [".git/objects/x/f", "a/.vscode/b/f", ".claude/hooks/x/f", "x.git/hooks/y/f"] {
        let (code, detail) = scene.refusal_of("write_file", write(path));
        assert_eq!((code.as_str(), detail.as_str()), ("path_forbidden", "built_in"), "{path}");
    }
    let (code, detail) = scene.refusal_of("create_directory", json!({"path": "plain/x.d"}));
    assert_eq!((code.as_str(), detail.as_str()), ("path_not_allowed", "not_listed"));
    let outside = scene.daemon.home().user_home().join("elsewhere/f").display().to_string();
    assert_eq!(scene.refusal_of("write_file", write(&outside)).0, "path_not_allowed");
    assert!(scene.names().is_empty(), "{:?}", scene.names());
    scene.output_of("create_directory", json!({"path": "y.d/x.d"}));
}

#[test]
fn path_pattern_applies_before_its_folder_exists() {
    let home = Home::initialised();
    let above = home.user_home().display().to_string();
    let rule = format!(
        "tools:\n  write_file:\n    allowed_paths:\n      - {above}/dev/agent/**\n      - {above}/notes/*.md\n"
    );
    home.configure("governance/tools.yaml", &rule);
    let checked = home.run(&["check"]).must_exit(0).stdout();
    for folder in ["dev/agent", "notes"] {
        assert!(
            checked.contains(&format!("matches no folder: {above}/{folder} does not exist")),
            "{checked}"
        );
    }
    let daemon = Daemon::start_in(home.without_automatic_modes());
    let mut scene = FileToolFixture { agent: daemon.agent(), daemon };
    let write = |path: &str| json!({"path": format!("{above}/{path}"), "content": "x", "create_dirs": true});
    for path in ["dev/other/a.md", "dev/a.md", "notes/deep/a.md", "else/agent/a.md"] {
        assert_eq!(scene.refusal_of("write_file", write(path)).0, "path_not_allowed", "{path}");
    }
    for path in ["dev/agent/drafts/a.md", "notes/a.md"] {
        scene.output_of("write_file", write(path));
        assert_eq!(std::fs::read_to_string(format!("{above}/{path}")).unwrap(), "x", "{path}");
    }
    let checked = scene.daemon.home().run(&["check"]).must_exit(0).stdout();
    assert!(!checked.contains("matches no folder"), "{checked}");
}

#[test]
fn undo_keeps_a_folder_that_others_use() {
    let mut scene = FileToolFixture::new();
    let first =
        scene.result_of("write_file", json!({"path": "a/b/one", "content": "1", "create_dirs": true}));
    let second = scene.result_of("write_file", json!({"path": "a/two", "content": "2"}));
    let shown = scene.daemon.home().run(&["undo", &call_id(&first), "--dry-run"]).must_exit(0).stdout();
    let kept =
        format!("kept     {}, which contains more", scene.daemon.home().workspace().join("a").display());
    assert!(shown.contains(&kept), "{shown}");
    let report_text = scene.daemon.home().run(&["undo", &call_id(&first)]).must_exit(0).stdout();
    assert!(report_text.contains(&kept) && report_text.contains("a/b\n"), "{report_text}");
    assert_eq!((scene.content("a/two").unwrap().as_str(), scene.content("a/b/one")), ("2", None));
    scene.daemon.home().run(&["undo", &call_id(&second)]).must_exit(0);
    assert_eq!(scene.names(), ["a"]);
}

/// A path component keeps switching between a folder and a symlink that leads out, while files are written
/// below it.
#[test]
fn folders_are_never_created_through_a_swapped_symlink() {
    // This many refused writes would raise the mode, and the writes would then require approval.
    let daemon = Daemon::start_in(Home::initialised().without_automatic_modes());
    let mut scene = FileToolFixture { agent: daemon.agent(), daemon };
    let outside = scene.daemon.home().user_home().join("outside");
    std::fs::create_dir(&outside).unwrap();
    scene.file("way/f", "inside");
    let names = ["way", "swap"].map(|name| scene.daemon.home().workspace().join(name));
    std::os::unix::fs::symlink(&outside, &names[1]).unwrap();
    let over = AtomicBool::new(false);
    let mut ends = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::SeqCst) {
                let _ = renameat_with(CWD, &names[0], CWD, &names[1], RenameFlags::EXCHANGE);
            }
        });
        let writes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for round in 0..60 {
                let path = format!("way/{round}/x/f");
                let arguments = json!({"path": path, "content": "inside", "create_dirs": true});
                ends.push(scene.agent.execute("write_file", &arguments)["success"] == true);
            }
        }));
        over.store(true, Ordering::SeqCst);
        writes.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0, "something was made outside");
    // Whatever the threads did, one of the two names is the folder, and it contains each write that was
    // reported.
    let folder = names.iter().find(|name| !name.is_symlink()).unwrap();
    for (round, _) in ends.iter().enumerate().filter(|(_, done)| **done) {
        assert_eq!(std::fs::read_to_string(folder.join(format!("{round}/x/f"))).unwrap(), "inside");
    }
    let litter = std::fs::read_dir(folder)
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".sinew-tmp-"));
    assert_eq!(litter.count(), 0);
}
