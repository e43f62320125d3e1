//! A system call of a starting daemon fails. The daemon starts and enforces what it enforced before, or it exits and
//! says why; it never serves with less. The next start without a fault works, and nothing that was acknowledged is lost.
//!
//! `strace` runs the daemon and injects the error at the nth such call of each thread.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Client, Daemon, FailedStart, Home, Strace};

use super::syscalls::{Fault, faults, positions_in};

/// Positions of one call that are tried: a start opens many files, one after the other.
const MOST_POSITIONS: u64 = 400;
const QUICK_CASES: u64 = 4;
/// Cases in one home, whose ledger would become long.
const CASES_PER_HOME: u64 = 30;
/// Answer time that counts as none at all; below the timeout of the client.
const HANG: Duration = Duration::from_secs(18);
const PIN: &str = "correct horse";

/// Accepted rules. The ones that wait for acceptance lack the words in `LOOSENED`.
const RULES: &str = "forbidden_paths: [\"**/closed.txt\", \"**/waiting.txt\"]\ntools:\n  \
    read_file: {allowed_in_modes: [NORMAL]}\n  write_file: {allowed_in_modes: [NORMAL]}\n  \
    create_directory: {requires_approval: true, allowed_in_modes: [NORMAL]}\n";
const PROJECT_RULES: &str = "forbidden_paths: [closed-here.txt, waiting-here.txt]\n";
const LOOSENED: [&str; 2] = [", \"**/waiting.txt\"", ", waiting-here.txt"];
/// Files that no call may read: forbidden by the rules of the home or the project, or open only by a change that the
/// operator has not accepted.
const CLOSED: [&str; 4] = ["closed.txt", "waiting.txt", "closed-here.txt", "waiting-here.txt"];

/// State that a start must not forget.
struct Expected {
    /// True if the operator set LOCKDOWN.
    is_locked: bool,
    /// Used approval, and one that waits for the operator.
    used: String,
    pending: String,
    /// Calls that were answered as done.
    done: Vec<String>,
}

fn make_directory(agent: &mut Client, path: &str, approval: Option<&str>) -> Option<Value> {
    let mut params =
        json!({"tool_name": "create_directory", "arguments": {"path": path}, "approval": "async"});
    if let Some(id) = approval {
        params["approval_id"] = json!(id);
    }
    agent.try_request("sinew/execute", &params).map(|response| response["result"].clone())
}

fn write_keyed(agent: &mut Client) -> Option<Value> {
    let params = json!({"tool_name": "write_file", "arguments": {"path": "keyed.txt", "content": "x"},
        "idempotency_key": "once"});
    agent.try_request("sinew/execute", &params).map(|response| response["result"].clone())
}

fn set_pin(home: &Home) {
    let mut command = tests::sinew();
    command
        .args(["init", "--pin", "--pin-stdin"])
        .env("SINEW_HOME", home.root())
        .env("HOME", home.user_home());
    command.current_dir(home.workspace()).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().expect("run sinew");
    child.stdin.take().expect("its input").write_all(format!("{PIN}\n").as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success(), "the PIN is set");
}

/// Makes a home with calls, approvals, a mode and a PIN that a start must not forget, and with changes that wait for the
/// operator.
fn prepare(is_locked: bool) -> (Home, Expected) {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    CLOSED.iter().for_each(|name| drop(home.file(name, "secret")));
    std::fs::create_dir(home.workspace().join(".sinew")).expect("a folder");
    home.file(".sinew/policy.yaml", PROJECT_RULES);
    home.configure("governance/tools.yaml", RULES);
    let daemon = Daemon::start_in(home);
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let keyed = write_keyed(&mut agent).expect("an answer");
    let asked = make_directory(&mut agent, "used", None).expect("an answer");
    let used = asked["metadata"]["refusal"]["approval_id"].as_str().expect("an id").to_owned();
    let approved = json!({"id": used, "answer": "approve"});
    assert_eq!(control.request("control/approvals.decide", &approved)["result"]["decided"], true);
    let made = make_directory(&mut agent, "used", Some(&used)).expect("an answer");
    let done = [&keyed, &made].map(|result| {
        assert_eq!(result["success"], true, "{result}");
        result["metadata"]["call_id"].as_str().expect("an id").to_owned()
    });
    let asked = make_directory(&mut agent, "pending", None).expect("an answer");
    let pending = asked["metadata"]["refusal"]["approval_id"].as_str().expect("an id").to_owned();
    for name in CLOSED {
        assert_eq!(agent.execute("read_file", &json!({"path": name}))["success"], false, "{name}");
    }
    if is_locked {
        let set = control.request("control/mode.set", &json!({"mode": "LOCKDOWN", "reason": "test"}));
        assert!(set["result"].is_object(), "{set}");
    }
    drop((agent, control));
    let home = daemon.stop();
    std::fs::remove_file(home.workspace().join("keyed.txt")).expect("it was written");
    std::fs::remove_dir(home.workspace().join("used")).expect("it was made");
    home.configure("governance/tools.yaml", &RULES.replace(LOOSENED[0], ""));
    home.file(".sinew/policy.yaml", &PROJECT_RULES.replace(LOOSENED[1], ""));
    set_pin(&home);
    (home, Expected { is_locked, used, pending, done: done.into() })
}

fn log_file(home: &Home) -> PathBuf {
    home.workspace().with_file_name("strace.log")
}

/// Starts the daemon with a fault. Returns the home and the number of injected errors.
fn run_with(home: Home, expected: &Expected, fault: &Fault) -> Option<(Home, u64)> {
    let Fault { call, position, error } = fault;
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:error={error}:when={position}"));
    let (log, context) = (log_file(&home), format!("{fault:?}"));
    let command = Strace::command(&tests::sinew(), &["-e", &trace, "-e", &inject], &log)?;
    let home = match Daemon::try_start(home, command) {
        Ok(daemon) => {
            expected.check(&daemon, &context);
            daemon.terminate()
        }
        Err(FailedStart { home, status, log }) => {
            assert!(!status.success(), "{context}: {status} without a daemon: {log}");
            assert!(!log.contains("panicked"), "{context}: {log}");
            home
        }
    };
    let text = std::fs::read_to_string(log).unwrap_or_default();
    Some((home, text.lines().filter(|line| line.contains("(INJECTED)")).count() as u64))
}

/// Asks a client. The answer, or the end of the connection, must come in time.
fn ask<T>(client: &mut Client, context: &str, request: impl FnOnce(&mut Client) -> T) -> T {
    let began = Instant::now();
    let answer = request(client);
    assert!(began.elapsed() < HANG, "{context}: no answer");
    answer
}

impl Expected {
    /// Checks that the daemon allows nothing that was not allowed before. Any answer may be missing or an error.
    fn check(&self, daemon: &Daemon, context: &str) {
        let home = daemon.home();
        let exists = |name: &str| home.workspace().join(name).exists();
        let connect = |socket: &str| UnixStream::connect(home.socket(socket)).ok().map(Client::from_stream);
        for name in ["agent.sock", "control.sock"] {
            let mode = std::fs::metadata(home.socket(name)).map_or(0, |facts| facts.permissions().mode());
            assert_eq!(mode & 0o077, 0, "{context}: {name} is open to others");
        }
        let folder = std::fs::metadata(home.socket("")).map_or(0, |facts| facts.permissions().mode());
        assert_eq!(folder & 0o077, 0, "{context}: the folder of the sockets is open to others");
        if let Some(mut control) = connect("control.sock") {
            let params = json!({"id": self.pending, "answer": "approve"});
            let decided = ask(&mut control, context, |control| {
                control.try_request("control/approvals.decide", &params).unwrap_or_default()
            });
            assert_ne!(decided["result"]["decided"], true, "{context}: approved without the PIN: {decided}");
            if self.is_locked {
                for mode in ["NORMAL", "RECOVERY"] {
                    let params = json!({"mode": mode, "reason": "test"});
                    drop(control.try_request("control/mode.set", &params));
                }
                let mode = control.try_request("control/mode.get", &json!({})).unwrap_or_default();
                let mode = &mode["result"]["mode"];
                assert!(mode.is_null() || mode == "LOCKDOWN", "{context}: the mode is {mode}");
            }
        }
        let secret = home.root().join("config/sinew.yaml").display().to_string();
        for path in CLOSED.into_iter().chain([secret.as_str(), "/etc/passwd"]) {
            let Some(mut agent) = connect("agent.sock") else { continue };
            let read = ask(&mut agent, context, |agent| {
                agent.try_execute("read_file", &json!({"path": path})).unwrap_or_default()
            });
            assert_ne!(read["result"]["success"], true, "{context}: {path} was read: {read}");
        }
        let Some(mut agent) = connect("agent.sock") else { return };
        ask(&mut agent, context, write_keyed);
        assert!(!exists("keyed.txt"), "{context}: a call with a used key ran again");
        let Some(mut agent) = connect("agent.sock") else { return };
        for (name, id) in [("used", &self.used), ("pending", &self.pending)] {
            ask(&mut agent, context, |agent| make_directory(agent, name, Some(id)));
        }
        assert!(!exists("used"), "{context}: a used approval was used again");
        assert!(!exists("pending"), "{context}: a call ran without its approval");
        let Some(mut agent) = connect("agent.sock") else { return };
        let (name, path) = ("new.txt", home.workspace().join("new.txt"));
        drop(std::fs::remove_file(&path));
        let write = json!({"path": name, "content": context});
        ask(&mut agent, context, |agent| agent.try_execute("write_file", &write));
        let is_recorded = super::judged_paths(&home.complete_records()).contains(&path);
        assert!(!path.exists() || is_recorded, "{context}: {name} was written without a record");
        assert!(!path.exists() || !self.is_locked, "{context}: {name} was written in LOCKDOWN");
    }

    /// Starts the daemon without a fault. Returns `None` if it found damage, which it answers with LOCKDOWN.
    fn recover(&self, home: Home, context: &str) -> Option<Home> {
        let daemon = Daemon::start_in(home);
        let mode = daemon.control().request("control/mode.get", &json!({}))["result"]["mode"].clone();
        self.check(&daemon, &format!("after {context}"));
        let home = daemon.stop();
        let records = home.complete_records();
        let outcomes = records.iter().filter(|record| tests::holds(record, "outcome"));
        let outcomes: Vec<&str> = outcomes.filter_map(|record| record["call_id"].as_str()).collect();
        let lost = self.done.iter().find(|id| !outcomes.contains(&id.as_str()));
        assert_eq!(lost, None, "{context}: its record is lost");
        if mode == "LOCKDOWN" && !self.is_locked {
            println!("{context}: LOCKDOWN");
            return None;
        }
        assert_eq!(mode, if self.is_locked { "LOCKDOWN" } else { "NORMAL" }, "{context}");
        let report = home.run(&["ledger", "verify", "--json"]).json();
        assert_eq!(report["intact"], true, "{context}: {report}");
        Some(home)
    }
}

/// System calls of a start, with the most that one thread makes.
fn positions(home: Home) -> Option<(Home, BTreeMap<String, u64>)> {
    let log = log_file(&home);
    let command = Strace::command(&tests::sinew(), &["-e", "trace=all"], &log)?;
    let Ok(daemon) = Daemon::try_start(home, command) else { panic!("it starts under strace") };
    let home = daemon.terminate();
    let found = positions_in(&std::fs::read_to_string(log).unwrap_or_default(), MOST_POSITIONS);
    Some((home, found))
}

#[test]
fn soak_failing_system_calls_of_a_start_weaken_nothing() {
    let mut campaign = Campaign::start(QUICK_CASES);
    let (home, mut expected) = prepare(false);
    let Some((mut home, positions)) = positions(home) else { return };
    let (mut injected, mut lockdowns, mut starts) = (0, 0, 0_u64);
    let mut pass: Vec<Fault> = Vec::new();
    while campaign.goes_on(injected)
        && let Some(round) = campaign.next_round()
    {
        let mut random = campaign.random(round);
        if pass.is_empty() {
            pass = faults(&positions, &mut random);
        }
        let Some(fault) = pass.pop() else { break };
        let Some((tried, count)) = run_with(home, &expected, &fault) else { return };
        (injected, starts) = (injected + count, starts + 1);
        let recovered = expected.recover(tried, &format!("{fault:?}"));
        lockdowns += u64::from(recovered.is_none());
        home = match recovered {
            Some(home) if !starts.is_multiple_of(CASES_PER_HOME) => home,
            _ => {
                println!("{injected} injected in {starts} starts, {} cases left in this pass", pass.len());
                let (home, fresh) = prepare(random.below(3) == 0);
                expected = fresh;
                home
            }
        };
    }
    let notes = format!("{starts} starts, {} system calls; {lockdowns} ended in LOCKDOWN", positions.len());
    campaign.finish(injected, &notes);
}
