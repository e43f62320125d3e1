//! `sinew undo` and `control/undo`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;
use tests::Daemon;

use super::{FileToolFixture, call_id};

#[test]
fn every_change_can_be_undone_and_is_recorded() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "old\n");
    let path = scene.daemon.home().workspace().join("f");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    scene.file("d/inner", "inner");
    let changes = [
        scene.result_of("write_file", json!({"path": "f", "content": "new\n"})),
        scene.result_of("write_file", json!({"path": "f", "content": "more\n", "mode": "append"})),
        scene.result_of(
            "edit_file",
            json!({"path": "f", "edits": [{"old_text": "more", "new_text": "less"}]}),
        ),
        scene.result_of("write_file", json!({"path": "n", "content": "created"})),
        scene.result_of("delete_file", json!({"path": "d", "recursive": true})),
    ];
    assert_eq!(scene.names(), ["f", "n"]);
    let shown = scene.daemon.home().run(&["undo", &call_id(&changes[2]), "--dry-run"]).must_exit(0).stdout();
    assert!(shown.contains("-less\n+more\n"), "{shown}");
    for change in changes.iter().rev() {
        scene.daemon.home().run(&["undo", &call_id(change)]).must_exit(0);
    }
    assert_eq!(
        (scene.names(), scene.content("f").unwrap().as_str()),
        (vec!["d".into(), "f".into()], "old\n")
    );
    assert_eq!(scene.content("d/inner").unwrap(), "inner");
    assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o640);
    let records = scene.daemon.home().records();
    let undone: Vec<_> = records.iter().filter(|record| record["kind"] == "undo").collect();
    let events: Vec<_> = undone.iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["restoring", "restored"].repeat(5));
    assert_eq!(undone[0]["call_id"], call_id(&changes[4]));
    let outcome = records.iter().find(|record| tests::holds(record, "outcome")).unwrap();
    assert_eq!(outcome["run"]["undoable"], true, "{outcome}");
}

#[test]
fn undo_after_a_later_change_is_refused() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "old");
    let change = scene.result_of("write_file", json!({"path": "f", "content": "new"}));
    scene.file("f", "mine");
    let refused = scene.daemon.home().run(&["undo", &call_id(&change)]).must_exit(1);
    let reported = refused.stderr();
    assert!(
        reported.contains("has changed: its sha256 is now") && reported.contains("read it again"),
        "{reported}"
    );
    assert_eq!(scene.content("f").unwrap(), "mine");
    scene.file("f", "new");
    scene.daemon.home().run(&["undo", &call_id(&change)]).must_exit(0);
    assert_eq!(scene.content("f").unwrap(), "old");
    let again = scene.daemon.home().run(&["undo", &call_id(&change)]).must_exit(1).stderr();
    assert!(again.contains("no saved changes for call"), "{again}");
    scene.daemon.home().run(&["undo", "not-an-id"]).must_exit(2);
}

#[test]
#[cfg(target_os = "linux")]
fn program_inside_a_deleted_folder_plants_nothing() {
    let home = tests::Home::initialised();
    home.configure(
        "governance/tools.yaml",
        "tools:\n  run_command: {allowed_commands: [sh], timeout_seconds: 15}\n",
    );
    let daemon = Daemon::start_in(home);
    let mut scene = FileToolFixture { agent: daemon.agent(), daemon };
    scene.file("dd/sub/inner", "inner");
    let script = "echo ready > ../../ready; while [ ! -e go ]; do sleep 0.05; done; \
                  mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit";
    scene.file("dd/sub/plant.sh", script);
    let mut other = scene.daemon.agent();
    let running = std::thread::spawn(move || {
        other.execute("run_command", &json!({"command": ["sh", "plant.sh"], "cwd": "dd/sub"}))
    });
    while scene.content("ready").is_none() {
        if running.is_finished() {
            let reported = running.join().unwrap();
            let code = reported["metadata"]["refusal"]["code"].as_str().unwrap_or_default();
            assert_eq!(code, "sandbox_unavailable", "{reported}");
            tests::left_out("no sandbox on this machine");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let change = scene.result_of("delete_file", json!({"path": "dd", "recursive": true}));
    let id = call_id(&change);
    let kept = scene.daemon.home().root().join("state/undo").join(format!("{id}-0.before"));
    std::fs::write(kept.join("sub/go"), "").unwrap();
    let reported = running.join().unwrap();
    std::fs::remove_file(kept.join("sub/go")).unwrap();
    assert!(kept.join("sub/.git/hooks/pre-commit").exists(), "it could not even try: {reported}");
    for words in [&["undo", id.as_str(), "--dry-run"][..], &["undo", id.as_str()]] {
        let refused = scene.daemon.home().run(words).must_exit(1).stderr();
        assert!(refused.contains("was changed after it was removed"), "{refused}");
        assert!(refused.contains(kept.file_name().unwrap().to_str().unwrap()), "and where it is: {refused}");
    }
    assert_eq!(scene.names(), ["ready"]);
}

#[test]
fn undo_rejects_content_changed_through_a_hard_link() {
    let mut scene = FileToolFixture::new();
    scene.file("orig", "mine");
    let workspace = scene.daemon.home().workspace();
    std::fs::hard_link(workspace.join("orig"), workspace.join("twin")).unwrap();
    let change = scene.result_of("delete_file", json!({"path": "orig"}));
    let id = call_id(&change);
    std::fs::write(workspace.join("twin"), "evil").unwrap();
    for words in [&["undo", id.as_str(), "--dry-run"][..], &["undo", id.as_str()]] {
        let refused = scene.daemon.home().run(words).must_exit(1).stderr();
        assert!(refused.contains("was changed after it was removed"), "{refused}");
    }
    assert_eq!(scene.names(), ["twin"]);
    std::fs::write(workspace.join("twin"), "mine").unwrap();
    scene.daemon.home().run(&["undo", &id]).must_exit(0);
    assert_eq!(scene.content("orig").unwrap(), "mine");
}

#[test]
fn agent_cannot_undo() {
    let mut scene = FileToolFixture::new();
    let change = scene.result_of("write_file", json!({"path": "f", "content": "new"}));
    let answer = scene.agent.request("control/undo", &json!({"call_id": call_id(&change)}));
    assert!(answer["error"]["message"].as_str().unwrap().contains("control.sock"), "{answer}");
    let answer = scene.agent.execute("write_file", &json!({"path": "../home/state/undo/x", "content": "y"}));
    assert_eq!(answer["success"], false, "{answer}");
    assert!(scene.content("f").is_some());
    let mut control = scene.daemon.control();
    let answer = control.request("control/undo", &json!({"call_id": call_id(&change), "dry_run": true}));
    assert_eq!(answer["result"]["changes"][0]["action"], "remove", "{answer}");
}

#[test]
fn undo_survives_the_daemon_and_works_without_it() {
    let mut scene = FileToolFixture::new();
    scene.file("f", "old");
    let first = scene.result_of("write_file", json!({"path": "f", "content": "new"}));
    let second = scene.result_of("write_file", json!({"path": "f", "content": "newer"}));
    drop(scene.agent);
    let home = scene.daemon.crash();
    let file = home.workspace().join("f");
    let undone = home.run(&["undo", &call_id(&second), "--json"]).must_exit(0).json();
    assert_eq!(
        (&undone["dry_run"], std::fs::read_to_string(&file).unwrap().as_str()),
        (&json!(false), "new")
    );
    let daemon = Daemon::start_in(home);
    daemon.home().run(&["undo", &call_id(&first)]).must_exit(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "old");
    // The file changed since this undo, so the undo itself can no longer be undone.
    let id = undone["undo_id"].as_str().unwrap();
    daemon.home().run(&["undo", id]).must_exit(1);
}

#[test]
fn settings_bound_the_undo_storage() {
    let scene = FileToolFixture::new();
    let home = scene.daemon.stop();
    let file = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("keep_bytes: 1073741824            # the oldest are"));
    let less =
        text.replace("keep_bytes: 1073741824            # the oldest are", "keep_bytes: 10 # the oldest are");
    std::fs::write(&file, less).unwrap();
    home.file("f", "more than ten bytes");
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let result = agent.execute("write_file", &json!({"path": "f", "content": "x"}));
    assert_eq!(result["metadata"]["failure"]["kind"], "too_large", "{result}");
    assert!(result["metadata"]["failure"]["hint"].as_str().unwrap().contains("undo.keep_bytes"), "{result}");
}
