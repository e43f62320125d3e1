//! One hostile caller against ten good ones, on every method of the agent socket: the good ones are served, and the
//! ledger grows by a bounded amount.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home};

const GOOD: usize = 10;
/// Calls of each good caller against one method.
const CALLS: usize = if cfg!(debug_assertions) { 20 } else { 60 };
/// Times below this are the scheduler's and not the hostile caller's.
const FLOOR: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 7 });
/// Measurements of one attack before it counts as an exception.
const TRIES: u32 = 3;
/// Bytes that one hostile caller may add to the ledger in a second.
const LEDGER_BYTES_PER_SECOND: u64 = 2 << 20;

/// Requests of the hostile caller: every method, and calls that are refused, invalid or expensive to check.
fn attacks() -> Vec<(&'static str, Value)> {
    let execute = |tool: &str, arguments: Value| json!({"tool_name": tool, "arguments": arguments});
    let client = json!({"name": "x", "version": "1"});
    vec![
        ("sinew/execute", execute("read_file", json!({"path": "seed.txt"}))),
        ("sinew/execute", execute("read_file", json!({"path": "/etc/shadow"}))),
        ("sinew/execute", execute("read_file", json!({"pth": 1}))),
        ("sinew/execute", execute("no_such_tool", json!({}))),
        ("sinew/execute", execute("run_command", json!({"command": ["sleep", "1"]}))),
        ("sinew/execute", execute("search_files", json!({"path": ".", "query": "x"}))),
        ("sinew/explain", execute("write_file", json!({"path": "seed.txt", "content": "x"}))),
        ("sinew/judge_host", json!({"url": "https://example.org/"})),
        ("sinew/review_host", json!({"host": "claude-code", "tool": "Bash"})),
        ("sinew/session.open", json!({})),
        ("sinew/session.close", json!({"session": "x"})),
        ("sinew/session.spend", json!({"session": "x"})),
        ("sinew/session.turn", json!({"session": "x"})),
        ("sinew/status", json!({})),
        ("sinew/tools", json!({})),
        ("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})),
        ("ping", json!({})),
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "read_file", "arguments": {"path": "seed.txt"}})),
        ("no/such.method", json!({})),
    ]
}

/// Sends one request over and over on several connections without waiting for responses.
fn attack(daemon: &Daemon, (method, params): &(&str, Value), over: &AtomicBool, sent: &AtomicU64) {
    let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    let burst = line.repeat(20);
    let mut sink = [0_u8; 1 << 16];
    while !over.load(Ordering::Relaxed) {
        let Ok(mut stream) = UnixStream::connect(daemon.home().socket("agent.sock")) else { continue };
        let pause = Some(Duration::from_millis(20));
        stream.set_write_timeout(pause).and_then(|()| stream.set_read_timeout(pause)).expect("a timeout");
        while !over.load(Ordering::Relaxed) && stream.write_all(burst.as_bytes()).is_ok() {
            sent.fetch_add(20, Ordering::Relaxed);
            let _ = stream.read(&mut sink);
        }
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
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    let (before, began) = (ledger_bytes(daemon.home()), Instant::now());
    let busy = std::thread::scope(|scope| {
        let hostile: Vec<_> =
            (0..4).map(|_| scope.spawn(|| attack(daemon, attacked, &over, &sent))).collect();
        let busy = scope.spawn(|| p99_of_good(daemon, &name)).join();
        over.store(true, Ordering::Relaxed);
        hostile.into_iter().for_each(|one| one.join().expect("the hostile caller ends"));
        busy.expect("the good callers are served")
    });
    let (seconds, grown) = (began.elapsed().as_secs() + 1, ledger_bytes(daemon.home()) - before);
    assert!(grown / seconds < LEDGER_BYTES_PER_SECOND, "{name}: {grown} bytes in {seconds} s");
    println!(
        "{name}: p99 {idle:?} alone, {busy:?} beside {} requests, ledger {grown} bytes",
        sent.into_inner()
    );
    busy.max(FLOOR).as_secs_f64() / idle.max(FLOOR).as_secs_f64()
}

#[test]
fn soak_one_hostile_caller_does_not_stop_ten_good_ones() {
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
