//! An ordinary client beside hostile ones: many that send a byte now and then, one that pipelines thousands
//! of requests, one that never reads its responses. Every client that reads is answered, and no client waits
//! for another.

mod closed_loop;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Bridge, Campaign, Client, Daemon, Home};

/// Intensity of the load.
struct LoadProfile {
    slow: usize,
    /// The time between two bytes of a slow client.
    between_bytes: Duration,
    pipelined: usize,
    calls: usize,
    /// True if the latencies are checked, which needs an otherwise idle machine.
    timed: bool,
}

/// Returns a heavy load in `cargo xtask soak`, and a light one in the ordinary run.
fn load_profile() -> LoadProfile {
    match std::env::var_os("SINEW_SOAK_MINUTES") {
        Some(_) => LoadProfile {
            slow: 1_000,
            between_bytes: Duration::from_secs(10),
            pipelined: 10_000,
            calls: 3_000,
            timed: true,
        },
        None => LoadProfile {
            slow: 60,
            between_bytes: Duration::from_millis(50),
            pipelined: 400,
            calls: 40,
            timed: false,
        },
    }
}

/// Starts a daemon with enough connections for all clients and without a rate limit, which would be measured
/// instead.
fn daemon(weather: &LoadProfile) -> Daemon {
    let home = Home::initialised();
    home.file("kib.txt", &"x".repeat(1024));
    let edit = |name: &str, from: &str, to: &str| {
        let text = std::fs::read_to_string(home.root().join("config").join(name)).expect("it is shipped");
        assert!(text.contains(from), "{from}");
        home.configure(name, &text.replace(from, to));
    };
    edit("sinew.yaml", "max_connections: 256", &format!("max_connections: {}", weather.slow + 20));
    edit("governance/safety.yaml", "tool_calls_per_minute: 600", "tool_calls_per_minute: 100000000");
    Daemon::start_in(home)
}

fn read(id: usize) -> String {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "method": "sinew/execute", "params": params}))
}

/// Returns the resident memory of the daemon, in bytes.
fn resident(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid())).expect("statm");
    let pages: u64 = text.split(' ').nth(1).expect("resident").parse().expect("a number");
    pages * 4096
}

/// Many connections that each send one request byte by byte.
struct SlowClients {
    streams: Vec<UnixStream>,
    line: Vec<u8>,
    sent: usize,
}

impl SlowClients {
    fn connect(daemon: &Daemon, count: usize) -> SlowClients {
        let connect = |_| UnixStream::connect(daemon.home().socket("agent.sock")).expect("a place");
        let line =
            format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/status", "params": {}}));
        SlowClients { streams: (0..count).map(connect).collect(), line: line.into_bytes(), sent: 0 }
    }

    /// Sends one more byte on each connection, and never the last one.
    fn send_byte(&mut self) {
        if self.sent + 1 < self.line.len() {
            let byte = [self.line[self.sent]];
            self.streams.iter_mut().for_each(|stream| stream.write_all(&byte).expect("it is let in"));
            self.sent += 1;
        }
    }

    /// Sends the rest of each request and checks the responses.
    fn finish(mut self) {
        let rest = self.line.split_off(self.sent);
        for stream in &mut self.streams {
            stream.write_all(&rest).expect("it is still let in");
        }
        for stream in self.streams {
            let answer = Client::from_stream(stream).receive().expect("slow is not forgotten");
            assert!(answer["result"].is_object(), "{answer}");
        }
    }
}

/// Sends a byte on each connection at intervals until `over` is set, then completes the requests.
fn run_slow_clients(daemon: &Daemon, weather: &LoadProfile, over: &AtomicBool) {
    let mut slow = SlowClients::connect(daemon, weather.slow);
    while !over.load(Ordering::Relaxed) {
        slow.send_byte();
        let pause = Instant::now() + weather.between_bytes;
        while Instant::now() < pause && !over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    slow.finish();
}

/// Pipelines `count` requests repeatedly; returns the number of responses.
fn run_pipelining_client(daemon: &Daemon, count: usize, over: &AtomicBool) -> usize {
    let mut answered = 0;
    while !over.load(Ordering::Relaxed) || answered == 0 {
        let stream = UnixStream::connect(daemon.home().socket("agent.sock")).expect("a place");
        let mut sender = stream.try_clone().expect("a second handle");
        let lines: String = (0..count).map(read).collect();
        let sending = std::thread::spawn(move || sender.write_all(lines.as_bytes()).expect("it is read"));
        let mut seen = vec![false; count];
        for line in BufReader::new(stream).lines().take(count) {
            let answer: Value = serde_json::from_str(&line.expect("an answer")).expect("JSON");
            assert_eq!(answer["result"]["success"], true, "{answer}");
            let id = usize::try_from(answer["id"].as_u64().expect("an id")).expect("a small one");
            assert!(!std::mem::replace(&mut seen[id], true), "answered twice: {id}");
        }
        sending.join().expect("sent");
        assert!(seen.iter().all(|seen| *seen), "not everything was answered");
        answered += count;
    }
    answered
}

/// Sends requests without reading the responses, and reconnects when the daemon closes the connection.
fn run_client_that_never_reads(daemon: &Daemon, over: &AtomicBool) {
    let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/tools", "params": {}}));
    let burst = line.repeat(100);
    while !over.load(Ordering::Relaxed) {
        let mut deaf = UnixStream::connect(daemon.home().socket("agent.sock")).expect("a place");
        deaf.set_write_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        let mut blocked = 0;
        while blocked < 200 && !over.load(Ordering::Relaxed) {
            match deaf.write_all(burst.as_bytes()) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => blocked += 1,
                Err(_) => break,
            }
        }
    }
}

/// Returns the sorted latencies of an ordinary client's consecutive calls. It is another process than the hostile
/// clients: one process is one caller, which shares its slots.
fn run_ordinary_client(daemon: &Daemon, calls: usize) -> Vec<Duration> {
    let mut client = Bridge::start(daemon.home(), &["--no-start"]);
    client.handshake();
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let mut times = Vec::with_capacity(calls);
    for _ in 0..calls {
        let began = Instant::now();
        let answer = client.request("sinew/execute", &params);
        times.push(began.elapsed());
        assert_eq!(answer["result"]["success"], true, "{answer}");
        // The pause of a real client; it also spreads the calls over the whole load.
        std::thread::sleep(Duration::from_millis(2));
    }
    times.sort_unstable();
    times
}

#[test]
fn soak_ordinary_client_is_served_beside_hostile_ones() {
    let weather = load_profile();
    let daemon = daemon(&weather);
    let quiet = run_ordinary_client(&daemon, weather.calls / 10);
    let (before, over) = (resident(&daemon), AtomicBool::new(false));
    let (times, gushed, during) = std::thread::scope(|scope| {
        let slow = scope.spawn(|| run_slow_clients(&daemon, &weather, &over));
        let gushing = scope.spawn(|| run_pipelining_client(&daemon, weather.pipelined, &over));
        let deaf = scope.spawn(|| run_client_that_never_reads(&daemon, &over));
        let times = run_ordinary_client(&daemon, weather.calls);
        let during = resident(&daemon);
        over.store(true, Ordering::Relaxed);
        slow.join().expect("the slow are answered");
        deaf.join().expect("the deaf");
        (times, gushing.join().expect("the pipelined are answered"), during)
    });
    let at = |times: &[Duration], share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    println!(
        "an ordinary client: p50 {:?}, p99 {:?}, the longest {:?}; in quiet p50 {:?}, p99 {:?}. Beside it {} connections at a byte \
         every {:?}, {gushed} pipelined calls, and one that never reads. Memory {} KiB before, {} KiB during.",
        at(&times, 50),
        at(&times, 99),
        at(&times, 100),
        at(&quiet, 50),
        at(&quiet, 99),
        weather.slow,
        weather.between_bytes,
        before / 1024,
        during / 1024,
    );
    let grown = during.saturating_sub(before);
    assert!(grown < 96 << 20, "{grown} bytes more than before");
    if weather.timed {
        assert!(at(&times, 99) < Duration::from_millis(10), "p99 is {:?}", at(&times, 99));
    }
    daemon.home().run(&["status"]).must_exit(0);
    let notes = format!("p99 {:?}, without the others {:?}", at(&times, 99), at(&quiet, 99));
    Campaign::start(1).finish(times.len() as u64, &notes);
}
