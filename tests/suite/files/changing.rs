//! `write_file`, `edit_file` and `delete_file` on real files.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::json;
use tool::canonical::sha256_hex;

use super::FileToolFixture;

#[test]
fn write_creates_overwrites_and_appends() {
    let mut scene = FileToolFixture::new();
    let written = scene.result_of("write_file", json!({"path": "f", "content": "one\n", "mode": "create"}));
    assert_eq!((&written["output"]["created"], &written["output"]["size"]), (&json!(true), &json!(4)));
    let path = scene.daemon.home().workspace().join("f").display().to_string();
    assert_eq!(written["metadata"]["files_touched"], json!([path]));
    assert_eq!(written["metadata"]["undoable"], true);
    let (kind, _) = scene.failure_of("write_file", json!({"path": "f", "content": "x", "mode": "create"}));
    assert_eq!(kind, "conflict");
    scene.output_of("write_file", json!({"path": "f", "content": "two\n", "mode": "append"}));
    assert_eq!(scene.content("f").unwrap(), "one\ntwo\n");
    let sha256 = sha256_hex(b"one\ntwo\n");
    let stale = json!({"path": "f", "content": "x", "expected_sha256": sha256_hex(b"other")});
    assert_eq!(scene.failure_of("write_file", stale).0, "conflict");
    scene.output_of("write_file", json!({"path": "f", "content": "", "expected_sha256": sha256}));
    assert_eq!(scene.content("f").unwrap(), "");
    scene.output_of("write_file", json!({"path": "new", "content": "n", "mode": "append"}));
    assert_eq!(scene.names(), ["f", "new"]);
}

#[test]
fn dry_run_shows_the_change_and_makes_none() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "one\ntwo\n");
    let written = scene.result_of("write_file", json!({"path": "f", "content": "one\n2\n", "dry_run": true}));
    let diff = written["output"]["preview"]["diff"].as_str().unwrap().to_owned();
    assert!(diff.ends_with("@@ -1,2 +1,2 @@\n one\n-two\n+2\n"), "{diff}");
    assert_eq!(
        (&written["metadata"]["files_touched"], &written["metadata"]["undoable"]),
        (&json!([]), &json!(null))
    );
    let edits = json!([{"old_text": "two", "new_text": "2"}]);
    let edited = scene.output_of("edit_file", json!({"path": "f", "edits": edits, "dry_run": true}));
    assert_eq!(edited["preview"]["diff"], diff);
    let created = scene.output_of("write_file", json!({"path": "n", "content": "x\n", "dry_run": true}));
    assert!(created["preview"]["diff"].as_str().unwrap().starts_with("--- /dev/null\n"), "{created}");
    let deleted = scene.output_of("delete_file", json!({"path": "f", "dry_run": true}));
    assert_eq!((&deleted["dry_run"], &deleted["bytes"]), (&json!(true), &json!(8)));
    let (kind, _) = scene
        .failure_of("write_file", json!({"path": "f", "content": "", "mode": "create", "dry_run": true}));
    assert_eq!(kind, "conflict", "it says what would go wrong");
    assert_eq!((scene.names(), scene.content("f").unwrap().as_str()), (vec!["f".to_owned()], "one\ntwo\n"));
}

#[test]
fn edits_apply_all_or_none() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "alpha\nbeta\nbeta\n");
    let both = json!([{"old_text": "alpha", "new_text": "a"}, {"old_text": "beta", "new_text": "b", "replace_all": true}]);
    let edited = scene.result_of("edit_file", json!({"path": "f", "edits": both}));
    assert_eq!(
        (&edited["output"]["replacements"], scene.content("f").unwrap().as_str()),
        (&json!(3), "a\nb\nb\n")
    );
    assert_eq!(edited["metadata"]["files_touched"].as_array().unwrap().len(), 1);
    let half = json!([{"old_text": "a", "new_text": "x"}, {"old_text": "bb", "new_text": "y"}]);
    let result = scene.agent.execute("edit_file", &json!({"path": "f", "edits": half}));
    assert_eq!(result["error"], "old_text of edit 2 is not in the file; nothing was changed");
    let hint = result["metadata"]["failure"]["hint"].as_str().unwrap();
    assert!(hint.starts_with("the most similar text is in lines 2 to 2:\nb"), "{hint}");
    let twice = json!([{"old_text": "b", "new_text": "y"}]);
    let (kind, message) = scene.failure_of("edit_file", json!({"path": "f", "edits": twice}));
    assert!(kind == "conflict" && message.contains("occurs 2 times, in lines 2, 3"), "{message}");
    assert_eq!(scene.content("f").unwrap(), "a\nb\nb\n");
    let missing = json!({"path": "none", "edits": [{"old_text": "b", "new_text": "y"}]});
    assert_eq!(scene.failure_of("edit_file", missing).0, "not_found");
    let records = scene.daemon.home().records();
    assert!(
        !records.iter().any(|record| record.to_string().contains("most similar")),
        "no content on record"
    );
}

#[test]
fn delete_removes_entries_and_never_a_root() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "x");
    scene.file("d/inner", "y");
    let outside = scene.daemon.home().user_home().canonicalize().unwrap().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("kept"), "kept").unwrap();
    symlink(&outside, scene.daemon.home().workspace().join("link")).unwrap();
    let deleted = scene.result_of("delete_file", json!({"path": "f"}));
    assert_eq!(
        (&deleted["output"]["kind"], &deleted["metadata"]["undoable"]),
        (&json!("file"), &json!(true))
    );
    let linked = scene.output_of("delete_file", json!({"path": "link", "recursive": true}));
    assert_eq!((&linked["kind"], outside.join("kept").exists()), (&json!("symlink"), true));
    assert_eq!(scene.failure_of("delete_file", json!({"path": "d"})).0, "wrong_kind");
    let workspace = scene.daemon.home().workspace().display().to_string();
    for root in [workspace.as_str(), ".", "..", "/", "d/.."] {
        let (code, detail) = scene.refusal_of("delete_file", json!({"path": root, "recursive": true}));
        let expect = if ["/", ".."].contains(&root) { "outside_workspaces" } else { "workspace_root" };
        assert_eq!((code.as_str(), detail.as_str()), ("path_not_allowed", expect), "{root}");
    }
    let deleted = scene.output_of("delete_file", json!({"path": "d", "recursive": true}));
    assert_eq!((&deleted["entries"], scene.names().len()), (&json!(2), 0));
}

#[test]
fn directory_with_a_protected_entry_stays_whole() {
    let mut scene = FileToolFixture::new();
    scene.file("project/src/a", "a");
    scene.file("project/.git/config", "[core]");
    let (kind, message) = scene.failure_of("delete_file", json!({"path": "project", "recursive": true}));
    assert!(kind == "conflict" && message.contains("project/.git` is protected"), "{message}");
    scene.file("keys/sub/id_rsa", "key");
    let (kind, message) = scene.failure_of("delete_file", json!({"path": "keys", "recursive": true}));
    assert!(kind == "conflict" && message.contains("keys/sub/id_rsa` is protected"), "{message}");
    assert_eq!(scene.content("project/src/a").unwrap(), "a");
    assert_eq!(scene.refusal_of("delete_file", json!({"path": "keys/sub/id_rsa"})).0, "path_forbidden");
}

#[test]
fn policy_limit_and_read_only_file_are_reported() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "x");
    let path = scene.daemon.home().workspace().join("f");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    for (tool, arguments) in [
        ("write_file", json!({"path": "f", "content": "y"})),
        ("edit_file", json!({"path": "f", "edits": [{"old_text": "x", "new_text": "y"}]})),
        ("delete_file", json!({"path": "f"})),
    ] {
        assert_eq!(scene.failure_of(tool, arguments).0, "unreadable", "{tool}");
    }
    scene.file("large", "x".repeat(10 << 20));
    let more = json!({"path": "large", "content": "y", "mode": "append"});
    assert_eq!(scene.failure_of("write_file", more).0, "too_large");
    assert_eq!(scene.content("f").unwrap(), "x");
}
