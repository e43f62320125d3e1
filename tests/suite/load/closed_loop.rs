//! Many connections in a closed loop; every fifth of their calls is refused. No refused call is delayed, and
//! a caller that loops does not slow another one down. Each of these two callers is a process of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::{Bridge, Campaign, Daemon, Home};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// One call in this many is refused.
const REFUSED_EVERY: usize = 5;
/// Longest wait of a refused call.
const LONGEST_REFUSAL: Duration = Duration::from_secs(1);
/// Limit of a phase on a machine that is too busy to serve the looping caller in time.
const LONGEST_PHASE: Duration = Duration::from_secs(30);
/// Requests that the looping caller keeps open.
const WINDOW: usize = 32;
/// Times below this are the scheduler's.
const MIN_LATENCY: Duration = Duration::from_millis(if cfg!(debug_assertions) { 20 } else { 5 });

/// Size of the crowd and duration of the load.
struct CrowdProfile {
    connections: usize,
    /// Phases without and with the looping caller, in turn.
    phases: u32,
    phase: Duration,
}

impl CrowdProfile {
    fn of(campaign: &Campaign) -> Self {
        match campaign.is_long() {
            true => CrowdProfile { connections: 1_000, phases: 12, phase: Duration::from_secs(5) },
            false => CrowdProfile { connections: 100, phases: 2, phase: Duration::from_secs(1) },
        }
    }
}

/// Times of the crowd's calls.
#[derive(Default)]
struct CrowdTimes {
    done: Vec<Duration>,
    refused: Vec<Duration>,
}

impl CrowdTimes {
    fn add(mut self, other: CrowdTimes) -> CrowdTimes {
        self.done.extend(other.done);
        self.refused.extend(other.refused);
        self
    }
}

fn daemon(profile: &CrowdProfile) -> Daemon {
    // The refusals are under test, not the mode that they would cause.
    let home = Home::initialised().without_automatic_modes().without_rate_limits();
    home.file("kib.txt", &"x".repeat(1024));
    let settings = std::fs::read_to_string(home.root().join("config/sinew.yaml")).expect("shipped");
    let wanted = format!("max_connections: {}", profile.connections + 20);
    assert!(settings.contains("max_connections: 256"));
    home.configure("sinew.yaml", &settings.replace("max_connections: 256", &wanted));
    Daemon::start_in(home)
}

/// Sends one call after another on one connection.
async fn closed_loop(stream: UnixStream, number: usize, over: Arc<AtomicBool>) -> CrowdTimes {
    let (read, mut write) = stream.into_split();
    let (mut read, mut line, mut times) = (BufReader::new(read), String::new(), CrowdTimes::default());
    for call in number.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let is_refused = call % REFUSED_EVERY == 0;
        let path = if is_refused { "/etc/shadow" } else { "kib.txt" };
        let params = json!({"tool_name": "read_file", "arguments": {"path": path}});
        let message = json!({"jsonrpc": "2.0", "id": call, "method": "sinew/execute", "params": params});
        let began = Instant::now();
        write.write_all(format!("{message}\n").as_bytes()).await.expect("it is read");
        line.clear();
        read.read_line(&mut line).await.expect("an answer");
        let elapsed = began.elapsed();
        let is_done = line.contains("\"success\":true");
        assert_eq!(is_done, !is_refused, "{line:.300}");
        if is_refused { &mut times.refused } else { &mut times.done }.push(elapsed);
    }
    times
}

/// Runs the crowd until `over` is set.
fn run_crowd(daemon: &Daemon, connections: usize, over: &Arc<AtomicBool>) -> CrowdTimes {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let socket = daemon.home().socket("agent.sock");
    runtime.block_on(async {
        let mut loops = Vec::new();
        for number in 0..connections {
            let stream = UnixStream::connect(&socket).await.expect("a place");
            loops.push(tokio::spawn(closed_loop(stream, number, Arc::clone(over))));
        }
        let mut times = CrowdTimes::default();
        for running in loops {
            times = times.add(running.await.expect("every call is answered"));
        }
        times
    })
}

/// Repeats one call without a pause while `looping` is set, and counts the answers in `looped`.
fn run_looping_caller(mut bridge: Bridge, looping: &AtomicBool, over: &AtomicBool, looped: &AtomicUsize) {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
    let (mut open, mut answered) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let window = if looping.load(Ordering::Relaxed) { WINDOW } else { 0 };
        while open < window {
            bridge.send(
                &json!({"jsonrpc": "2.0", "id": open + answered, "method": "sinew/execute", "params": params})
                    .to_string(),
            );
            open += 1;
        }
        if open == 0 {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        bridge.receive();
        (open, answered) = (open - 1, answered + 1);
        looped.store(answered, Ordering::Relaxed);
    }
}

/// Returns the times of consecutive calls of a caller for a time, and longer until `is_complete`.
fn run_measured_caller(
    bridge: &mut Bridge,
    duration: Duration,
    is_complete: impl Fn() -> bool,
) -> Vec<Duration> {
    let (began, mut times) = (Instant::now(), Vec::new());
    while began.elapsed() < duration || !is_complete() && began.elapsed() < LONGEST_PHASE {
        let call = Instant::now();
        let params = json!({"tool_name": "read_file", "arguments": {"path": "kib.txt"}});
        let answer = bridge.request("sinew/execute", &params);
        times.push(call.elapsed());
        assert_eq!(answer["result"]["success"], true, "{answer}");
    }
    times
}

fn share(times: &mut [Duration], permille: usize) -> Duration {
    times.sort_unstable();
    times[(times.len() * permille / 1000).min(times.len() - 1)]
}

#[test]
fn refused_calls_and_neighbours_of_a_loop_do_not_wait() {
    let campaign = Campaign::start(1);
    let profile = CrowdProfile::of(&campaign);
    let daemon = daemon(&profile);
    let (over, looping, looped) =
        (Arc::new(AtomicBool::new(false)), AtomicBool::new(false), AtomicUsize::new(0));
    let mut measured = Bridge::start(daemon.home(), &["--no-start"]);
    let looper = Bridge::start(daemon.home(), &["--no-start"]);
    let (mut crowd, mut quiet, mut beside) = std::thread::scope(|scope| {
        let crowd = scope.spawn(|| run_crowd(&daemon, profile.connections, &over));
        scope.spawn(|| run_looping_caller(looper, &looping, &over, &looped));
        let (mut quiet, mut beside) = (Vec::new(), Vec::new());
        for phase in 0..profile.phases {
            let loops = phase % 2 == 1;
            looping.store(loops, Ordering::Relaxed);
            let is_served = || !loops || looped.load(Ordering::Relaxed) > WINDOW;
            let times = run_measured_caller(&mut measured, profile.phase, is_served);
            if loops { &mut beside } else { &mut quiet }.extend(times);
        }
        over.store(true, Ordering::Relaxed);
        (crowd.join().expect("the crowd"), quiet, beside)
    });
    let looped = looped.load(Ordering::Relaxed);
    let (refused, done) = (crowd.refused.len(), crowd.done.len());
    let longest_refusal = share(&mut crowd.refused, 1000);
    let [alone, disturbed] = [share(&mut quiet, 990), share(&mut beside, 990)];
    let factor = disturbed.max(MIN_LATENCY).as_secs_f64() / alone.max(MIN_LATENCY).as_secs_f64();
    let notes = format!(
        "{} connections, {done} calls done, {refused} refused; longest refusal {longest_refusal:.0?}; p99 of another caller \
         {alone:.1?} alone, {disturbed:.1?} beside a loop of {looped} calls: {factor:.2} times",
        profile.connections
    );
    println!("{notes}");
    assert!(looped > WINDOW, "the looping caller was served: {looped}");
    if campaign.is_long() {
        assert!(longest_refusal <= LONGEST_REFUSAL, "{notes}");
        assert!(factor <= 2.0, "{notes}");
    }
    // A refusal is sent like any other reply, without a delay.
    let [refused_median, done_median] = [share(&mut crowd.refused, 500), share(&mut crowd.done, 500)];
    assert!(
        refused_median <= done_median.max(MIN_LATENCY) * 3,
        "{refused_median:?} and {done_median:?}: {notes}"
    );
    let seconds = profile.phase.as_secs() * u64::from(profile.phases);
    campaign.finish(seconds, &notes);
}
