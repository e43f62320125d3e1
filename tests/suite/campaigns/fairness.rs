//! One hostile caller against ten good ones, on every method of the agent socket: the good ones are served, and the
//! ledger grows by a bounded amount. The hostile caller is a process of its own: this test binary, started again.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home};

const GOOD: usize = 10;
/// Calls of each good caller against one method.
const CALLS: usize = if cfg!(debug_assertions) { 20 } else { 60 };
/// Times below this are the scheduler's and not the hostile caller's.
const MIN_LATENCY: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 7 });
/// Measurements of one attack before it counts as an exception.
const TRIES: u32 = 3;
/// Bytes that one request may add to the ledger. Rate limits bound the requests, and this campaign lifts them.
const LEDGER_BYTES_PER_REQUEST: u64 = 2 << 10;
/// Connections of the hostile caller, and requests that it writes at a time.
const CONNECTIONS: usize = 4;
const BURST: u64 = 64;
/// Variables of the process of the hostile caller: the socket, the method and its parameters.
const ATTACK: [&str; 3] = ["SINEW_ATTACK_SOCKET", "SINEW_ATTACK_METHOD", "SINEW_ATTACK_PARAMS"];
const TEST: &str = "campaigns::fairness::soak_one_hostile_caller_does_not_stop_ten_good_ones";

/// Requests of the hostile caller: every method, and calls that are refused, invalid or expensive to check.
fn attacks() -> Vec<(&'static str, Value)> {
    let execute = |tool: &str, arguments: Value| json!({"tool_name": tool, "arguments": arguments});
    let client = json!({"name": "x", "version": "1"});
    let host = |more: Value| {
        let mut params = json!({"host": "claude-code", "tool_name": "Read"});
        params.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        params
    };
    vec![
        ("sinew/execute", execute("read_file", json!({"path": "seed.txt"}))),
        ("sinew/execute", execute("read_file", json!({"path": "/etc/shadow"}))),
        ("sinew/execute", execute("read_file", json!({"pth": 1}))),
        ("sinew/execute", execute("no_such_tool", json!({}))),
        ("sinew/execute", execute("run_command", json!({"command": ["sleep", "1"]}))),
        ("sinew/execute", execute("search_files", json!({"path": ".", "query": "x"}))),
        ("sinew/explain", execute("write_file", json!({"path": "seed.txt", "content": "x"}))),
        ("sinew/judge_host", host(json!({"tool_input": {"file_path": "/etc/passwd"}, "session_id": "x"}))),
        ("sinew/review_host", host(json!({"tool_response": "text"}))),
        ("sinew/session.open", json!({"allowlist": ["read_file"]})),
        ("sinew/session.close", json!({"session_id": "x"})),
        ("sinew/session.spend", json!({"session_id": "x", "cost": 1})),
        ("sinew/session.turn", json!({"session_id": "x"})),
        ("sinew/status", json!({})),
        ("sinew/tools", json!({})),
        ("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})),
        ("server/discover", json!({})),
        ("subscriptions/listen", json!({})),
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "read_file", "arguments": {"path": "seed.txt"}})),
        ("tasks/get", json!({"taskId": "x"})),
        ("tasks/result", json!({"taskId": "x"})),
        ("tasks/list", json!({})),
        ("tasks/update", json!({"taskId": "x", "inputResponses": {}})),
        ("tasks/cancel", json!({"taskId": "x"})),
        ("no/such.method", json!({})),
    ]
}

#[test]
fn every_method_of_the_agent_socket_is_attacked() {
    let protocol: Value =
        serde_json::from_str(include_str!("../../../crates/server/protocol.json")).expect("JSON");
    let socket =
        protocol["sockets"].as_array().expect("sockets").iter().find(|one| one["socket"] == "agent.sock");
    let methods = socket.expect("the agent socket")["methods"].as_array().expect("methods");
    // A notification has no reply, and costs as much as a request.
    let names = methods
        .iter()
        .filter_map(|method| method["name"].as_str())
        .filter(|name| !name.starts_with("notifications/"));
    let attacked: Vec<&str> = attacks().iter().map(|(method, _)| *method).collect();
    let missing: Vec<&str> = names.filter(|name| !attacked.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// Process of the hostile caller.
struct HostileCaller(Child);

impl HostileCaller {
    fn start(daemon: &Daemon, (method, params): &(&str, Value)) -> HostileCaller {
        let mut command = Command::new(std::env::current_exe().expect("this test binary has a path"));
        let socket = daemon.home().socket("agent.sock");
        command.args([TEST, "--exact", "--nocapture"]).env(ATTACK[0], socket).env(ATTACK[1], method);
        command.env(ATTACK[2], params.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        HostileCaller(command.spawn().expect("start the hostile caller"))
    }

    /// Ends the attack. Returns the number of requests.
    fn stop(mut self) -> u64 {
        drop(self.0.stdin.take());
        let mut text = String::new();
        self.0.stdout.take().expect("its output").read_to_string(&mut text).expect("text");
        self.0.wait().expect("it ends");
        let counted =
            text.lines().find_map(|line| line.split_once("attack: ")?.1.split(' ').next()?.parse().ok());
        counted.unwrap_or_else(|| panic!("the hostile caller reports its requests: {text}"))
    }
}

/// Runs as the hostile caller until the standard input ends.
fn run_as_hostile_caller(socket: &str) {
    let [method, params] = [ATTACK[1], ATTACK[2]].map(|name| std::env::var(name).expect("a variable"));
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| attack(socket, (&method, &params), &over, &sent));
        }
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        over.store(true, Ordering::Relaxed);
    });
    println!("attack: {} requests", sent.into_inner());
}

/// Pipelines requests on one connection at a time as fast as the daemon reads them, and reads all replies.
fn attack(socket: &str, (method, params): (&str, &str), over: &AtomicBool, sent: &AtomicU64) {
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = UnixStream::connect(socket) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let mut replies = stream.try_clone().expect("a second handle");
        replies.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sink = [0_u8; 1 << 16];
                // A timeout is an error too, and says nothing about the connection.
                while !over.load(Ordering::Relaxed) {
                    if matches!(replies.read(&mut sink), Ok(0)) {
                        break;
                    }
                }
                // Ends a write that waits for the daemon.
                let _ = replies.shutdown(Shutdown::Both);
            });
            let mut next_id = 0..;
            let mut burst = || -> String {
                let line = |id: u64| {
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#) + "\n"
                };
                next_id.by_ref().take(BURST as usize).map(line).collect()
            };
            while !over.load(Ordering::Relaxed) && stream.write_all(burst().as_bytes()).is_ok() {
                sent.fetch_add(BURST, Ordering::Relaxed);
            }
        });
    }
}

/// Returns the times of a good caller's reads, all of which succeed.
fn good_calls(daemon: &Daemon, attack: &str) -> Vec<Duration> {
    let mut client = daemon.agent();
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let began = Instant::now();
        let result = client.execute("read_file", &json!({"path": "seed.txt"}));
        times.push(began.elapsed());
        assert_eq!(result["success"], true, "beside {attack}: {result}");
        std::thread::sleep(Duration::from_millis(5));
    }
    times
}

fn p99_of_good(daemon: &Daemon, attack: &str) -> Duration {
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..GOOD).map(|_| scope.spawn(|| good_calls(daemon, attack))).collect();
        callers.into_iter().flat_map(|caller| caller.join().expect("a good caller is served")).collect()
    });
    times.sort_unstable();
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

fn ledger_bytes(home: &Home) -> u64 {
    let entries = std::fs::read_dir(home.root().join("state/ledger")).expect("a ledger").flatten();
    let segments = entries.filter(|entry| entry.path().extension().is_some_and(|end| end == "ndjson"));
    segments.map(|entry| entry.metadata().map_or(0, |facts| facts.len())).sum()
}

/// Returns the 99th percentile of the good callers beside an attack, as a multiple of the one without.
fn measure(daemon: &Daemon, attacked: &(&str, Value)) -> f64 {
    let name = format!("{} {}", attacked.0, attacked.1);
    let idle = p99_of_good(daemon, "nothing");
    let before = ledger_bytes(daemon.home());
    let hostile = HostileCaller::start(daemon, attacked);
    let busy = p99_of_good(daemon, &name);
    let requests = hostile.stop();
    let (most, grown) =
        ((requests + (GOOD * CALLS) as u64) * LEDGER_BYTES_PER_REQUEST, ledger_bytes(daemon.home()) - before);
    assert!(grown <= most, "{name}: {grown} bytes for {requests} requests");
    println!("{name}: p99 {idle:?} alone, {busy:?} beside {requests} requests, ledger {grown} bytes");
    busy.max(MIN_LATENCY).as_secs_f64() / idle.max(MIN_LATENCY).as_secs_f64()
}

#[test]
fn soak_one_hostile_caller_does_not_stop_ten_good_ones() {
    if let Ok(socket) = std::env::var(ATTACK[0]) {
        return run_as_hostile_caller(&socket);
    }
    let home = Home::initialised();
    let safety = std::fs::read_to_string(home.root().join("config/governance/safety.yaml")).expect("shipped");
    // The shares of callers are under test, not the number of calls in a minute.
    home.configure(
        "governance/safety.yaml",
        &safety.replace("tool_calls_per_minute: 600", "tool_calls_per_minute: 10000000"),
    );
    home.file("seed.txt", "x");
    let daemon = Daemon::start_in(home);
    let attacks = attacks();
    let mut campaign = Campaign::start(2);
    let (mut rounds, mut worst) = (0, (0.0, String::new()));
    while let Some(round) = campaign.next_round() {
        let attacked = &attacks[usize::try_from(round).expect("a small number") % attacks.len()];
        // Other work on the machine can only make a measurement worse, so the best of a few counts.
        let tries = if campaign.is_long() { TRIES } else { 1 };
        let mut factor = f64::INFINITY;
        for _ in 0..tries {
            factor = factor.min(measure(&daemon, attacked));
            if factor <= 3.0 {
                break;
            }
        }
        if campaign.is_long() {
            assert!(factor <= 3.0, "{attacked:?}: p99 is {factor:.1} times the idle one");
        }
        if factor > worst.0 {
            worst = (factor, attacked.0.to_owned());
        }
        rounds = round + 1;
    }
    drop(daemon.stop());
    campaign.finish(rounds, &format!("worst p99 {:.1} times the idle one, beside `{}`", worst.0, worst.1));
}
