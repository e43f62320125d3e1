//! Clients that vanish at every stage of a call: inside the request, before the decision, while the operator is
//! asked, while the tool runs, and before the response is read. The daemon goes on, no call stays behind, and
//! each decision has its outcome.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home, Random};

use super::check_ledger;

const QUICK: u64 = 60;

/// Returns a home in which creating a folder needs approval and a command may run for long.
fn home() -> Home {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    let tools = "tools:\n  read_file: {allowed_in_modes: [NORMAL]}\n  write_file: {allowed_in_modes: [NORMAL]}\n  \
        create_directory: {requires_approval: true, allowed_in_modes: [NORMAL]}\n  \
        run_command: {allowed_in_modes: [NORMAL], allowed_commands: [\"*\"], timeout_seconds: 60}\n";
    home.configure("governance/tools.yaml", tools);
    home.file("seed.txt", &"seed\n".repeat(20_000));
    home
}

fn request(round: u64, random: &mut Random) -> String {
    let (tool, arguments) = match random.below(5) {
        0 => ("write_file", json!({"path": format!("w{round}.txt"), "content": "x".repeat(5000)})),
        1 => ("read_file", json!({"path": "seed.txt"})),
        2 => ("create_directory", json!({"path": format!("d{round}")})),
        3 => ("run_command", json!({"command": ["sleep", "30"]})),
        _ => ("read_file", json!({"path": "/etc/hostname"})),
    };
    let params = json!({"tool_name": tool, "arguments": arguments});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": round, "method": "sinew/execute", "params": params}))
}

/// Sends a request, or a part of it, and vanishes after a random time.
fn vanish(daemon: &Daemon, round: u64, random: &mut Random) {
    let line = request(round, random);
    let mut stream = UnixStream::connect(daemon.home().socket("agent.sock")).expect("a place");
    let length = line.len() as u64;
    let sent = if random.below(4) == 0 { random.below(length) } else { length };
    let _ = stream.write_all(&line.as_bytes()[..usize::try_from(sent).expect("a length")]);
    // The time is the choice under test: it decides the stage at which the client vanishes.
    std::thread::sleep(Duration::from_micros(random.below(30_000)));
    if random.below(3) == 0 {
        let _ = stream.shutdown(std::net::Shutdown::Write);
    }
}

/// Calls that are in progress, and approval requests whose caller waits.
fn open_calls(daemon: &Daemon) -> Vec<Value> {
    let mut control = daemon.control();
    let mut open = control.request("control/calls.list", &json!({}))["result"]["calls"].take();
    let mut requests = control.request("control/approvals.list", &json!({}))["result"]["approvals"].take();
    let requests = requests.as_array_mut().expect("a list");
    requests.retain(|request| request["waiting"] == true);
    let open = open.as_array_mut().expect("a list");
    open.append(requests);
    open.clone()
}

/// Approves every request that is left: its caller vanished, so nothing may run.
fn approve_all(daemon: &Daemon) -> usize {
    let mut control = daemon.control();
    let requests = control.request("control/approvals.list", &json!({}))["result"]["approvals"].take();
    let open = requests.as_array().expect("a list").iter().filter(|request| request["state"] == "pending");
    let open: Vec<&Value> = open.collect();
    for request in &open {
        control.request("control/approvals.decide", &json!({"id": request["id"], "answer": "approve"}));
    }
    open.len()
}

fn check_no_open_calls(daemon: &Daemon) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let open = open_calls(daemon);
        if open.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "calls of vanished clients do not end: {open:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn soak_vanished_clients_leave_no_call_behind() {
    let (mut campaign, daemon) = (Campaign::start(QUICK), Daemon::start_in(home()));
    let (mut deaths, mut approved) = (0, 0);
    while let Some(round) = campaign.next_round() {
        vanish(&daemon, round, &mut campaign.random(round));
        deaths = round + 1;
        if deaths.is_multiple_of(20) {
            check_no_open_calls(&daemon);
            approved += approve_all(&daemon);
            let result = daemon.agent().execute("read_file", &json!({"path": "seed.txt"}));
            assert_eq!(result["success"], true, "{result}");
        }
    }
    check_no_open_calls(&daemon);
    let home = daemon.stop();
    check_ledger(&home, "after all clients");
    let records = home.records();
    let gone = records.iter().filter(|record| record["failure"] == "client_gone").count();
    assert!(gone > 0, "no call was ended because its client vanished");
    let folders = std::fs::read_dir(home.workspace()).expect("a workspace").flatten();
    let created: Vec<_> = folders.filter(|entry| entry.path().is_dir()).map(|entry| entry.path()).collect();
    assert!(created.is_empty(), "approved after the caller vanished, and ran: {created:?}");
    campaign.finish(
        deaths,
        &format!("{gone} running calls ended, {approved} approved too late, none of these ran"),
    );
}
