//! A disk that fails under the running daemon: changes are refused, reads are answered or refused as
//! configured, the state is visible, nothing is lost, and recording resumes without a restart.
//!
//! `strace` injects the errors into the system calls of the running process; a small disk is a real one.

mod meddling;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home, Strace, sinew, wait_for, wait_until};

use super::verify;

/// Handling of reads while no record can be written.
#[derive(Clone, Copy, PartialEq)]
enum Reads {
    Refused,
    Answered,
}

/// System calls that fail.
#[derive(Clone, Copy)]
enum At {
    /// Every `fdatasync`.
    EverySync,
    /// Writes to the open segment, and to the one that would follow it.
    SegmentWrites,
}

/// Daemon with a fault that it has not noticed yet.
struct Scene {
    daemon: Daemon,
    agent: Client,
    /// Ids of calls that succeeded, recorded at once or owed.
    answered: Vec<String>,
    /// First refused call.
    refused: Value,
}

impl Scene {
    fn new(reads: Reads) -> Scene {
        // A broken disk leads to DEGRADED, where a write needs approval and earlier decisions are judged
        // again.
        let home = Home::initialised().without_automatic_modes();
        if reads == Reads::Answered {
            let file = home.root().join("config/sinew.yaml");
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text.replace("when_unavailable: refuse", "when_unavailable: allow_reads"))
                .unwrap();
        }
        home.file("a.txt", "x");
        let daemon = Daemon::start_debuggable(home);
        let agent = daemon.agent();
        let mut scene = Scene { daemon, agent, answered: Vec::new(), refused: Value::Null };
        assert_eq!(scene.write()["success"], true);
        assert_eq!(scene.read()["metadata"]["recorded"], true);
        std::fs::remove_file(scene.target()).unwrap();
        scene
    }

    fn target(&self) -> PathBuf {
        self.daemon.home().workspace().join("b.txt")
    }

    fn write(&mut self) -> Value {
        self.call("write_file", &json!({"path": "b.txt", "content": "y"}))
    }

    fn read(&mut self) -> Value {
        self.call("read_file", &json!({"path": "a.txt"}))
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let result = self.agent.execute(tool, arguments);
        if result["success"] == true {
            self.answered.push(result["metadata"]["call_id"].as_str().unwrap().to_owned());
        }
        result
    }

    fn ledger(&self) -> PathBuf {
        self.daemon.home().root().join("state/ledger")
    }

    /// Files whose writes fail: the open segment, and every name the next one can have.
    fn segments(&self) -> Vec<PathBuf> {
        let mut paths = segments(&self.ledger());
        let head = self.daemon.home().records().len() as u64;
        paths.extend((head..head + 40).map(|seq| self.ledger().join(format!("segment-{seq:012}.ndjson"))));
        paths
    }

    /// Injects an error, or reports why that is not possible here.
    fn fail(&self, at: At, error: &str) -> Option<Strace> {
        let only = match at {
            At::EverySync => Vec::new(),
            At::SegmentWrites => self.segments(),
        };
        let call = match at {
            At::EverySync => "fdatasync",
            At::SegmentWrites => "write",
        };
        Strace::inject(self.daemon.pid(), call, error, &only)
    }

    /// Checks the state while no record can be written.
    fn check_down(&mut self, reads: Reads, reason: &str) {
        let refused = self.write();
        assert_eq!(refused["metadata"]["refusal"]["code"], "ledger_unavailable", "{refused}");
        assert_eq!(refused["metadata"]["recorded"], false, "{refused}");
        if self.refused.is_null() {
            self.refused = refused;
        }
        let read = self.read();
        match reads {
            Reads::Refused => {
                assert_eq!(read["metadata"]["refusal"]["code"], "ledger_unavailable", "{read}");
            }
            Reads::Answered => {
                assert_eq!((&read["success"], &read["metadata"]["recorded"]), (&json!(true), &json!(false)));
                assert_eq!(self.write()["success"], false, "only reads are let through");
            }
        }
        assert!(!self.target().exists(), "nothing runs unrecorded");
        let shown = self.daemon.home().run(&["status"]).must_exit(0).stdout();
        assert!(shown.contains("unavailable") && shown.contains(reason), "the state is visible: {shown}");
        let status = self.status();
        assert_eq!(status["lost_records"], 0, "{status}");
        assert!(reads == Reads::Refused || status["deferred"] != 0, "what waits can be seen: {status}");
    }

    /// Checks that the log entry of another crate names the call during which it was written.
    fn check_log(&self) {
        // The log is written by a thread of its own, which may lag.
        let halted = wait_for("the log says so", || {
            let lines = self.daemon.home().run(&["logs", "--level", "error", "--json"]).must_exit(0).stdout();
            lines.lines().find(|line| line.contains("the ledger accepts no more records")).map(str::to_owned)
        });
        let halted: Value = serde_json::from_str(&halted).unwrap();
        assert_eq!(halted["trace_id"], self.refused["metadata"]["trace_id"], "{halted}");
    }

    fn status(&self) -> Value {
        self.daemon.home().run(&["status", "--json"]).must_exit(0).json()["ledger"].clone()
    }

    /// Checks that the same process continues after the fault, in a new segment, with every record in it.
    fn check_back(mut self, first: &Path, length: u64, reason: &str) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.status()["state"] != "ready"
            || self.status()["deferred"] != 0
            || self.write()["success"] != true
        {
            assert!(Instant::now() < deadline, "no recovery although the fault is gone: {}", self.status());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(std::fs::metadata(first).unwrap().len(), length, "the failed segment is left alone");
        let answered = std::mem::take(&mut self.answered);
        drop(self.agent);
        let home = self.daemon.stop();
        let records = home.records();
        for id in answered {
            let kinds: Vec<&Value> = records
                .iter()
                .filter(|record| record["call_id"] == *id)
                .map(|record| &record["kind"])
                .collect();
            assert!(kinds == ["decision", "outcome"] || kinds == ["call"], "{id}: {kinds:?}");
        }
        let resumed = records.iter().find(|record| record["kind"] == "resumed").expect("a new segment");
        assert!(resumed["reason"].as_str().unwrap().contains(reason), "{resumed}");
        assert_eq!((&resumed["lost"], resumed["rejected"].as_u64() >= Some(1)), (&json!(0), true));
        let report = verify(&home);
        assert_eq!(report["intact"], true, "{report}");
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|extension| extension == "ndjson")).collect();
    paths.sort();
    paths
}

/// Injects a fault, removes it after a while, and checks the state during and after it.
fn check(at: At, error: &str, message: &str, reads: Reads) {
    let mut scene = Scene::new(reads);
    let first = segments(&scene.ledger()).remove(0);
    let Some(strace) = scene.fail(at, error) else { return };
    scene.check_down(reads, message);
    if let At::SegmentWrites = at {
        scene.check_log();
    }
    let length = std::fs::metadata(&first).unwrap().len();
    assert_eq!(segments(&scene.ledger()), std::slice::from_ref(&first), "no half-made segment stays");
    strace.stop();
    scene.check_back(&first, length, message);
}

#[test]
fn disk_without_sync_refuses_everything() {
    check(At::EverySync, "EIO", "Input/output error", Reads::Refused);
}

#[test]
fn disk_without_sync_answers_reads_where_allowed() {
    check(At::EverySync, "EIO", "Input/output error", Reads::Answered);
}

#[test]
fn disk_without_writes_refuses_everything() {
    check(At::SegmentWrites, "EIO", "Input/output error", Reads::Refused);
}

#[test]
fn disk_without_writes_answers_reads_where_allowed() {
    check(At::SegmentWrites, "EIO", "Input/output error", Reads::Answered);
}

#[test]
fn stricter_mode_holds_unrecorded_and_is_recorded_later() {
    let mut scene = Scene::new(Reads::Refused);
    let Some(strace) = scene.fail(At::SegmentWrites, "EIO") else { return };
    scene.check_down(Reads::Refused, "Input/output error");
    let mut control = scene.daemon.control();
    let mut set = |mode: &str| control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}));
    let (stricter, looser) = (set("LOCKDOWN"), set("RECOVERY"));
    assert_eq!(stricter["result"]["mode"], "LOCKDOWN", "{stricter}");
    assert_eq!(stricter["result"]["recorded"], false, "{stricter}");
    assert!(looser["error"].is_object(), "{looser}");
    strace.stop();
    let ways = |home: &Home| {
        let records = home.complete_records().into_iter().filter(|record| record["kind"] == "mode");
        records.map(|record| record["to"].clone()).collect::<Vec<_>>()
    };
    wait_until("it is recorded now that it can be", || ways(scene.daemon.home()) == ["LOCKDOWN"]);
    let daemon = Daemon::start_in(scene.daemon.crash());
    let mode = daemon.control().request("control/mode.get", &json!({}));
    assert_eq!(mode["result"]["mode"], "LOCKDOWN", "{mode}");
}

#[test]
fn daemon_recovers_from_a_read_only_state_folder() {
    let mut scene = Scene::new(Reads::Answered);
    let (folder, first) = (scene.ledger(), segments(&scene.ledger()).remove(0));
    // As with a file system that remounts itself read-only: open files take no more writes, and no file can
    // be created.
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o500)).unwrap();
    let strace = scene.fail(At::SegmentWrites, "EROFS");
    if let Some(strace) = strace {
        scene.check_down(Reads::Answered, "Read-only file system");
        strace.stop();
        scene.check_down(Reads::Answered, "Read-only file system");
    }
    let length = std::fs::metadata(&first).unwrap().len();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    if scene.status()["rejected_entries"] != 0 {
        scene.check_back(&first, length, "Read-only file system");
    }
}

#[test]
fn read_only_state_folder_stops_the_start_with_a_reason() {
    let home = Home::initialised();
    home.file("a.txt", "x");
    let home = Daemon::start_in(home).stop();
    let before = home.records();
    let state = home.root().join("state").display().to_string();
    let binary = sinew().get_program().to_owned();
    // A user namespace of its own lets any user mount, and the mount is visible in it only.
    let script =
        "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\" && exec \"$2\" serve --allow-root";
    let mut command = std::process::Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script, "sh", &state]).arg(binary);
    command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("SINEW_HOME", home.root()).env("HOME", home.user_home());
    let output = command.output();
    let Some(output) = output.ok().filter(|output| output.status.code() == Some(7)) else {
        return tests::left_out("no mount namespace can be made here");
    };
    let reported = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(reported.contains("Read-only file system") && reported.contains(&state), "{reported}");
    assert_eq!(home.records(), before, "nothing was touched");
    drop(Daemon::start_in(home).stop());
}

#[test]
fn full_disk_refuses_changes_and_recovers_by_itself() {
    let Some(home) = Home::on_small_disk(4 << 20) else {
        tests::left_out("only root can make a small disk");
        return;
    };
    let home = home.without_automatic_modes();
    home.file("a.txt", "x");
    let daemon = Daemon::start_in(home);
    let mut agent = daemon.agent();
    let write = json!({"path": "b.txt", "content": "y"});
    assert_eq!(agent.execute("write_file", &write)["success"], true);

    let filler = daemon.home().root().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    let gone = || drop(std::fs::remove_file(daemon.home().workspace().join("b.txt")));
    gone();
    // The ledger has space for some more records, and the reserve takes the final ones; after them nothing
    // more fits. Until then the tool itself finds no space and reports it.
    let mut results = (0..2000).map(|_| agent.execute("write_file", &write));
    let is_refused = |result: &Value| result["metadata"]["refusal"]["code"] == "ledger_unavailable";
    let refused = results.find(|result| {
        let failed = result["success"] == false && !is_refused(result);
        assert!(
            !failed || result["error"].as_str().is_some_and(|error| error.contains("No space left")),
            "{result}"
        );
        is_refused(result)
    });
    assert!(refused.is_some(), "a full disk must refuse");
    drop(results);
    let status = agent.request("sinew/status", &json!({}));
    assert_eq!(status["result"]["ledger"]["state"], "unavailable", "the state is visible: {status}");
    gone();
    assert_eq!(agent.execute("write_file", &write)["success"], false);
    assert!(!daemon.home().workspace().join("b.txt").exists(), "nothing runs unrecorded");

    drop(file);
    std::fs::remove_file(filler).unwrap();
    wait_until("it recovers now that there is room", || {
        agent.execute("write_file", &write)["success"] == true
    });
    let home = daemon.stop();
    let report = verify(&home);
    assert_eq!(report["intact"], true, "{report}");
}
