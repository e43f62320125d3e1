//! Automatic mode changes: the daemon changes the mode for real causes, and every change is recorded.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Bridge, Client, Daemon, Home};

/// Waits for a mode, polling the control socket as an operator would.
fn wait_for(control: &mut Client, mode: &str) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let now = control.request("control/mode.get", &json!({}));
        if now["result"]["mode"] == mode {
            return;
        }
        assert!(Instant::now() < deadline, "it is not {mode}: {now}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn set(control: &mut Client, mode: &str) -> Value {
    control.request("control/mode.set", &json!({"mode": mode, "reason": "test"}))
}

/// Makes a call as another process. Refusals of one caller alone suspend that caller; those of two change the mode.
fn execute_as_other(other: &mut Bridge, tool: &str, arguments: &Value) -> Value {
    other.request("sinew/execute", &json!({"tool_name": tool, "arguments": arguments}))["result"].clone()
}

fn history(home: &Home) -> Vec<Value> {
    let reported = home.run(&["mode", "history", "--json"]).must_exit(0).json();
    reported["changes"].as_array().expect("a list").clone()
}

#[test]
fn refused_calls_raise_the_alarm_and_the_operator_ends_it() {
    let daemon = Daemon::start();
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let mut other = Bridge::start(daemon.home(), &[]);
    other.handshake();
    let folder = daemon.home().user_home().join(".ssh");
    let forbidden = |name: &str| json!({"path": folder.join(name), "content": "x"});
    // The same refused call counts once, however often it is repeated.
    for _ in 0..30 {
        agent.execute("write_file", &forbidden("authorized_keys"));
    }
    for (number, name) in
        ["authorized_keys", "config", "id_rsa", "id_rsa.pub", "known_hosts", "rc", "a", "b", "c", "d"]
            .into_iter()
            .enumerate()
    {
        assert_eq!(daemon.agent().request("sinew/status", &json!({}))["result"]["mode"], "NORMAL", "{name}");
        let refused = match number % 2 {
            0 => agent.execute("write_file", &forbidden(name)),
            _ => execute_as_other(&mut other, "write_file", &forbidden(name)),
        };
        assert_eq!(refused["metadata"]["refused"], Value::Null);
        assert_eq!(refused["metadata"]["refusal"]["refused"], true, "{refused}");
    }
    wait_for(&mut control, "ALERT");
    let status = daemon.home().run(&["status"]).must_exit(0).stdout();
    for part in [
        "by transition_rules.NORMAL_to_ALERT",
        "refused_high_risk_calls 10 > 9 in 60 s",
        "`sinew mode set NORMAL` leaves it",
    ] {
        assert!(status.contains(part), "{part}: {status}");
    }
    let asks = agent.execute_with(
        "write_file",
        &json!({"path": "a.txt", "content": "x"}),
        &json!({"approval": "async"}),
    );
    assert_eq!(asks["metadata"]["mode"], "ALERT", "{asks}");
    assert_eq!(asks["success"], false, "what changes the machine needs a human now: {asks}");

    let daemon = Daemon::start_in(daemon.stop());
    let mut control = daemon.control();
    wait_for(&mut control, "ALERT");
    let refused = set(&mut control, "RECOVERY");
    let reported = refused["error"]["message"].as_str().expect("an error");
    assert!(reported.contains("NORMAL or DEGRADED or LOCKDOWN"), "the ways are named: {reported}");
    assert_eq!(set(&mut control, "NORMAL")["result"]["previous"], "ALERT");
    assert_eq!(
        daemon.agent().execute("write_file", &json!({"path": "a.txt", "content": "x"}))["success"],
        true
    );

    let home = daemon.stop();
    let [alarm, calm] = history(&home).try_into().expect("two changes");
    assert_eq!((&alarm["from"], &alarm["to"]), (&json!("NORMAL"), &json!("ALERT")));
    assert_eq!(alarm["by"], "transition_rules.NORMAL_to_ALERT");
    let sensors = alarm["data"]["sensors"].as_array().expect("what was measured");
    let counted = sensors.iter().find(|reading| reading["metric"] == "refused_high_risk_calls").unwrap();
    assert_eq!(
        (&counted["value"], &counted["limit"]),
        (&json!(10.0), &json!(9.0)),
        "past the value, not at it"
    );
    assert_eq!((&calm["to"], &calm["data"]["human"]), (&json!("NORMAL"), &json!(true)), "{calm}");
    let shown = home.run(&["mode", "history"]).must_exit(0).stdout();
    assert!(
        shown.contains("NORMAL → ALERT") && shown.contains("refused_high_risk_calls 10 > 9 in 60 s"),
        "{shown}"
    );
    let log = home.run(&["logs", "--json"]).must_exit(0).stdout();
    let event = log.lines().find(|line| line.contains("\"mode_transition\"")).expect("an event");
    assert!(event.contains("refused_high_risk_calls"), "with what was measured: {event}");
}

/// A malformed URL is a mistake in the arguments. No number of them changes the mode.
#[test]
fn malformed_urls_do_not_change_the_mode() {
    let daemon = Daemon::start();
    let mut agent = daemon.agent();
    for attempt in 0..30 {
        let typo = json!({"url": format!("htttps//example{attempt}.org")});
        let refused = agent.execute("fetch_url", &typo);
        let refusal = &refused["metadata"]["refusal"];
        assert_eq!((&refusal["code"], &refusal["detail"]), (&json!("invalid_arguments"), &json!("bad_url")));
        assert_eq!((&refusal["retryable"], &refusal["rule"]["line"]), (&json!(true), &json!(0)), "{refused}");
        assert!(refusal["hint"].as_str().unwrap().contains("https://example.org/page"), "{refused}");
    }
    let status = daemon.home().run(&["status", "--json"]).must_exit(0).json();
    assert_eq!((&status["mode"], status.get("mode_cause")), (&json!("NORMAL"), None));
    // The alarm for other calls shows what was counted by then.
    let mut other = Bridge::start(daemon.home(), &[]);
    other.handshake();
    for names in [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"], ["i", "j"]] {
        let [own, others] = names
            .map(|name| json!({"path": daemon.home().user_home().join(".ssh").join(name), "content": "x"}));
        agent.execute("write_file", &own);
        execute_as_other(&mut other, "write_file", &others);
    }
    wait_for(&mut daemon.control(), "ALERT");
    let [alarm] = history(daemon.home()).try_into().expect("one change");
    let sensors = alarm["data"]["sensors"].as_array().expect("measured values");
    let counted = sensors.iter().find(|reading| reading["metric"] == "policy_violations").unwrap();
    assert_eq!(counted["value"], 10.0, "{alarm}");
}

#[test]
fn undefined_transition_is_refused_on_the_command_line() {
    let daemon = Daemon::start();
    let refused = daemon.home().run(&["mode", "set", "RECOVERY"]).must_exit(1);
    assert!(refused.stderr().contains("ALERT or DEGRADED or LOCKDOWN"), "{refused}");
    assert_eq!(history(daemon.home()), Vec::<Value>::new());
    let nothing = daemon.home().run(&["mode", "history"]).must_exit(0);
    assert!(nothing.stderr().contains("never changed"), "{nothing}");
    let reached = daemon.agent().request("control/mode.set", &json!({"mode": "ALERT", "reason": "x"}));
    assert!(reached["error"].is_object(), "an agent cannot set the mode: {reached}");
}

#[test]
#[cfg(target_os = "linux")]
fn full_disk_degrades_and_the_change_is_recorded_later() {
    let Some(home) = Home::on_small_disk(4 << 20) else {
        tests::left_out("only root can make a small disk");
        return;
    };
    let daemon = Daemon::start_in(home);
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    let write = json!({"path": "b.txt", "content": "y"});
    assert_eq!(agent.execute("write_file", &write)["success"], true);
    let filler = daemon.home().root().join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    let refused = (0..2000).map(|_| agent.execute("write_file", &write)).find(|end| end["success"] == false);
    assert!(refused.is_some(), "a full disk must refuse");
    wait_for(&mut control, "DEGRADED");
    // The last page of the segment may have space for some more records.
    let read = json!({"path": "b.txt"});
    let is_refused = |end: &Value| end["metadata"]["refusal"]["code"] == "ledger_unavailable";
    assert!(
        (0..2000).map(|_| agent.execute("read_file", &read)).any(|end| is_refused(&end)),
        "no room is left"
    );
    // A stricter mode is possible, in the reserve for final records; a looser one is not.
    let looser = set(&mut control, "NORMAL");
    assert!(looser["error"].is_object(), "{looser}");
    let stricter = set(&mut control, "LOCKDOWN");
    assert_eq!(stricter["result"]["mode"], "LOCKDOWN", "{stricter}");
    drop(file);
    std::fs::remove_file(filler).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while history(daemon.home()).len() < 2 {
        assert!(
            Instant::now() < deadline,
            "not recorded although there is room: {:?}",
            history(daemon.home())
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let home = daemon.crash();
    let ways: Vec<String> =
        history(&home).iter().map(|way| format!("{} {}", way["from"], way["to"])).collect();
    assert_eq!(ways, ["\"NORMAL\" \"DEGRADED\"", "\"DEGRADED\" \"LOCKDOWN\""]);
    let daemon = Daemon::start_in(home);
    wait_for(&mut daemon.control(), "LOCKDOWN");
}

#[test]
#[cfg(target_os = "linux")]
fn running_out_of_descriptors_degrades() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "x");
    let (mut agent, mut control) = (daemon.agent(), daemon.control());
    wait_for(&mut control, "NORMAL");
    // A connection that is not accepted before the limit drops could not be accepted after it.
    agent.request("sinew/status", &json!({}));
    let pid = Pid::from_raw(daemon.pid().as_raw());
    let maximum = getrlimit(Resource::Nofile).maximum;
    let limit = |most: u64| Rlimit { current: Some(most), maximum };
    // The limit is below the number of open descriptors, so no more can be opened.
    prlimit(pid, Resource::Nofile, limit(4)).expect("a lower limit");
    let failed = agent.execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(failed["success"], false, "{failed}");
    wait_for(&mut control, "DEGRADED");
    prlimit(pid, Resource::Nofile, limit(1024)).expect("the old limit");
    assert_eq!(agent.execute("read_file", &json!({"path": "a.txt"}))["success"], true, "it goes on");
    let change = history(daemon.home()).pop().expect("a change");
    assert!(change["reason"].as_str().unwrap().contains("resource_exhaustion"), "{change}");
}
