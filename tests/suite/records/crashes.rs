//! The daemon killed under load, repeatedly: every answer has its record, every decision has its outcome, and
//! the chain is intact.

use std::collections::HashMap;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Client, Daemon, Home};

use super::verify;

/// Longest allowed recovery after a crash. It is independent of the number of crashes, because recovery reads
/// one segment. Without optimisation the same work takes many times as long.
const LONGEST_RECOVERY: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });

/// Number of crashes: a few in the ordinary run, many in `cargo xtask soak`.
fn crashes() -> u32 {
    std::env::var("SINEW_SOAK_CRASHES").map_or(12, |count| count.parse().expect("a number"))
}

/// Sends calls until the daemon goes away and returns the ids of the answered ones.
fn load(socket: &std::path::Path, name: &str, stop: &AtomicBool, progress: &AtomicUsize) -> Vec<String> {
    let mut answered = Vec::new();
    let Ok(stream) = std::os::unix::net::UnixStream::connect(socket) else { return answered };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut client = Client::from_stream(stream);
    for round in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (tool, arguments) = match round % 3 {
            0 => ("write_file", json!({"path": format!("{name}.txt"), "content": format!("{round}")})),
            1 => ("read_file", json!({"path": "seed.txt"})),
            // Refused, but no violation of policy: enough of those would raise an alarm, and writes would
            // need approval.
            _ => ("read_file", json!({})),
        };
        let Some(response) = client.try_execute(tool, &arguments) else { break };
        answered.push(response["result"]["metadata"]["call_id"].as_str().expect("a call id").to_owned());
        progress.fetch_add(1, Ordering::Relaxed);
    }
    answered
}

/// Reads the records added since the last read. A thousand crashes make a long ledger.
#[derive(Default)]
struct Follower(HashMap<PathBuf, u64>);

impl Follower {
    fn new_records(&mut self, home: &Home) -> Vec<Value> {
        let folder = std::fs::read_dir(home.root().join("state/ledger")).unwrap();
        let files = folder.map(|entry| entry.unwrap().path());
        let segments = files.filter(|path| path.extension().is_some_and(|extension| extension == "ndjson"));
        segments.flat_map(|path| self.new_lines(path)).collect()
    }

    fn new_lines(&mut self, path: PathBuf) -> Vec<Value> {
        let mut file = std::fs::File::open(&path).unwrap();
        let seen = self.0.entry(path).or_default();
        let mut text = String::new();
        file.seek(SeekFrom::Start(*seen)).unwrap();
        file.read_to_string(&mut text).unwrap();
        // The next start removes an incomplete last line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        *seen += whole as u64;
        text[..whole].lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
    }
}

/// Loads the daemon with calls, kills it after so many answers, and returns the calls it answered.
fn kill_under_load(daemon: &Daemon, moment: usize) -> Vec<String> {
    let (socket, stop) = (daemon.home().socket("agent.sock"), AtomicBool::new(false));
    let progress = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let worker = |n: u32| {
            let (socket, stop, progress) = (&socket, &stop, &progress);
            scope.spawn(move || load(socket, &format!("w{n}"), stop, progress))
        };
        let workers: Vec<_> = (0..4).map(worker).collect();
        let deadline = Instant::now() + Duration::from_secs(20);
        while progress.load(Ordering::Relaxed) < moment && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(300));
        }
        daemon.signal(nix::sys::signal::Signal::SIGKILL);
        stop.store(true, Ordering::Relaxed);
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker")).collect()
    })
}

#[test]
fn soak_every_answer_has_its_record_after_each_kill() {
    let mut home = Home::initialised();
    home.file("seed.txt", "x");
    let (mut follower, mut slowest, begun) = (Follower::default(), Duration::ZERO, Instant::now());
    // The number of answers differs in each round, so that the kill hits another moment of the calls in
    // progress.
    let mut moment = 7;
    for round in 1..=crashes() {
        let started = Instant::now();
        let daemon = Daemon::start_in(home);
        slowest = slowest.max(started.elapsed());
        moment = moment * 31 % 97;
        let answered = kill_under_load(&daemon, moment);
        home = daemon.crash();
        assert!(!answered.is_empty(), "no call was answered before the crash");
        let records = follower.new_records(&home);
        let ends = records.iter().filter(|record| record["kind"] == "outcome" || record["kind"] == "refusal");
        let ended: Vec<&Value> = ends.map(|record| &record["call_id"]).collect();
        for id in &answered {
            assert!(ended.iter().any(|end| **end == **id), "an answer without its record: {id}");
        }
        if round.is_multiple_of(50) {
            println!("{round} of {} crashes after {:?}", crashes(), begun.elapsed());
        }
    }
    let home = Daemon::start_in(home).stop();
    let records = home.records();
    let count = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!(
        count("decision"),
        count("outcome"),
        "every intent has its end, `unknown` where the outcome was lost"
    );
    let starts = records.iter().filter(|record| record["kind"] == "start");
    let recoveries: Vec<Duration> = starts
        .map(|start| {
            Duration::from_micros(start["data"]["recovered_in_us"].as_u64().expect("how long it took"))
        })
        .collect();
    assert_eq!(recoveries.len() as u32, crashes() + 1, "each start says how long it took");
    let longest = recoveries.into_iter().max().unwrap_or_default();
    assert!(longest < LONGEST_RECOVERY, "picking up after a crash took {longest:?}");
    let report = verify(&home);
    assert_eq!(report["intact"], true, "{report}");
    println!(
        "{} crashes, {} records in {:?}; the slowest recovery {longest:?}, the slowest start seen from outside {slowest:?}",
        crashes(),
        records.len(),
        begun.elapsed()
    );
}
