//! The daemon killed under load, repeatedly: calls, approvals, undo and reloads. Every answer has its record,
//! every effect its decision, every decision its outcome, and the chain is intact.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Campaign, Client, Daemon, Home, Random};

use super::verify;

/// Longest allowed recovery after a crash. It is independent of the number of crashes, because recovery reads
/// one segment. Without optimisation the same work takes many times as long.
const LONGEST_RECOVERY: Duration = Duration::from_secs(if cfg!(debug_assertions) { 5 } else { 1 });
/// Number of crashes in the ordinary run.
const FEW: u64 = 12;
/// Clients that call tools, beside one operator.
const AGENTS: u64 = 4;

/// Answers that were received before the daemon died, each of which must be in the ledger.
#[derive(Default)]
struct Acknowledged {
    /// Calls whose answer says that they are recorded.
    calls: Vec<String>,
    /// Decided approvals, by id.
    approvals: Vec<String>,
    /// Calls whose changes were undone.
    undone: Vec<String>,
}

/// Load on one daemon.
struct Load {
    socket: PathBuf,
    control: PathBuf,
    stop: AtomicBool,
    answers: AtomicU64,
    acknowledged: Mutex<Acknowledged>,
    /// Calls that changed a file, for the operator to undo.
    changes: Mutex<Vec<String>>,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn connect(socket: &Path) -> Option<Client> {
        std::os::unix::net::UnixStream::connect(socket).ok().map(Client::from_stream)
    }

    /// Calls tools until the daemon goes away. Each change has a file name of its own.
    fn run_agent(&self, name: u64, mut random: Random) {
        let Some(mut client) = Load::connect(&self.socket) else { return };
        let mut pending: Vec<Value> = Vec::new();
        for round in 0.. {
            let file = format!("w{name}-{round}.txt");
            let mut call = match random.below(8) {
                0..=2 => ("write_file", json!({"path": file, "content": format!("{round}")})),
                3 | 4 => ("read_file", json!({"path": "seed.txt"})),
                // Refused, but no violation of policy: enough of those would raise an alarm.
                5 => ("read_file", json!({})),
                // The name never repeats: a request that was denied is denied again without a question.
                _ => ("create_directory", json!({"path": format!("d{name}-{:x}", random.number())})),
            };
            let mut params = json!({"approval": "async"});
            if call.0 == "create_directory" && !pending.is_empty() && random.below(2) == 0 {
                let earlier = pending.remove(0);
                call.1 = earlier["arguments"].clone();
                params["approval_id"] = earlier["id"].clone();
            }
            (params["tool_name"], params["arguments"]) = (json!(call.0), call.1.clone());
            if !self.goes_on() {
                return;
            }
            let Some(response) = client.try_request("sinew/execute", &params) else { return };
            let result = &response["result"];
            let id = result["metadata"]["call_id"].as_str().expect("a call id").to_owned();
            let refusal = &result["metadata"]["refusal"];
            if refusal["code"] == "approval_pending" && params["approval_id"].is_null() {
                pending.push(json!({"arguments": call.1, "id": refusal["approval_id"]}));
            }
            if call.0 == "write_file" && result["success"] == true {
                self.changes.lock().expect("a list").push(id.clone());
            }
            if result["metadata"]["recorded"] == true {
                self.acknowledged.lock().expect("a list").calls.push(id);
            }
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Decides approvals, takes changes back and reloads the configuration until the daemon goes away.
    fn run_operator(&self, mut random: Random) {
        let Some(mut control) = Load::connect(&self.control) else { return };
        while self.goes_on() {
            let done = match random.below(8) {
                0..=4 => self.decide(&mut control, &mut random),
                5 | 6 => self.undo(&mut control, &mut random),
                _ => control.try_request("control/reload", &json!({})).map(drop),
            };
            if done.is_none() {
                return;
            }
        }
    }

    fn decide(&self, control: &mut Client, random: &mut Random) -> Option<()> {
        let open = control.try_request("control/approvals.list", &json!({}))?;
        for request in open["result"]["approvals"].as_array().expect("a list") {
            let answer = *random.pick(&["approve", "approve", "deny"]);
            let params = json!({"id": request["id"], "answer": answer});
            let response = control.try_request("control/approvals.decide", &params)?;
            if response["result"]["decided"] == true {
                let id = request["id"].as_str().expect("an id").to_owned();
                self.acknowledged.lock().expect("a list").approvals.push(id);
            }
        }
        Some(())
    }

    fn undo(&self, control: &mut Client, random: &mut Random) -> Option<()> {
        let chosen = {
            let mut changes = self.changes.lock().expect("a list");
            let count = changes.len() as u64;
            (count > 0).then(|| changes.swap_remove(usize::try_from(random.below(count)).expect("an index")))
        };
        let Some(call) = chosen else { return Some(()) };
        let response = control.try_request("control/undo", &json!({"call_id": call}))?;
        if response["result"]["undo_id"].is_string() {
            self.acknowledged.lock().expect("a list").undone.push(call);
        }
        Some(())
    }
}

/// Reads the records added since the last read. Thousands of crashes make a long ledger.
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

/// Loads the daemon, kills it after so many answers, and returns what it acknowledged.
fn kill_under_load(daemon: &Daemon, mut random: Random) -> (u64, Acknowledged) {
    let moment = 1 + random.below(97);
    let home = daemon.home();
    let load = Load {
        socket: home.socket("agent.sock"),
        control: home.socket("control.sock"),
        stop: AtomicBool::new(false),
        answers: AtomicU64::new(0),
        acknowledged: Mutex::default(),
        changes: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for name in 0..AGENTS {
            let (load, random) = (&load, random.fork());
            scope.spawn(move || load.run_agent(name, random));
        }
        let operator = random.fork();
        scope.spawn(|| load.run_operator(operator));
        let deadline = Instant::now() + Duration::from_secs(20);
        while load.answers.load(Ordering::Relaxed) < moment && Instant::now() < deadline {
            std::thread::sleep(Duration::from_micros(300));
        }
        daemon.signal(nix::sys::signal::Signal::SIGKILL);
        load.stop.store(true, Ordering::Relaxed);
    });
    (load.answers.into_inner(), load.acknowledged.into_inner().expect("a list"))
}

/// Checks the ledger against the answers and the workspace, and empties the workspace.
fn check_records(home: &Home, records: &[Value], acknowledged: &Acknowledged) {
    let ids = |wanted: fn(&Value) -> bool, key: &str| -> HashSet<String> {
        let of_kind = records.iter().filter(|record| wanted(record));
        of_kind.filter_map(|record| record[key].as_str().map(str::to_owned)).collect()
    };
    let ended = ids(|record| tests::holds(record, "outcome") || record["kind"] == "refusal", "call_id");
    let decided = ids(|record| record["kind"] == "approval" && record["event"] != "requested", "id");
    let undone = ids(|record| record["kind"] == "undo" && record["event"] == "restored", "call_id");
    for id in &acknowledged.calls {
        assert!(ended.contains(id), "an answer without its record: {id}");
    }
    for id in &acknowledged.approvals {
        assert!(decided.contains(id), "a decision of the operator without its record: {id}");
    }
    for id in &acknowledged.undone {
        assert!(undone.contains(id), "an undo without its record: {id}");
    }
    let decisions = records.iter().filter(|record| tests::holds(record, "decision"));
    let paths = decisions.flat_map(|record| record["facts"]["paths"].as_array().into_iter().flatten());
    let judged: HashSet<&str> = paths.filter_map(|path| path["canonical"].as_str()).collect();
    for entry in std::fs::read_dir(home.workspace()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name == "seed.txt" {
            continue;
        }
        // A temporary file is removed by the next start.
        assert!(
            name.starts_with(".sinew-tmp-") || judged.contains(path.to_str().unwrap()),
            "an effect without a record: {}",
            path.display()
        );
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir(&path));
    }
}

#[test]
fn soak_every_answer_has_its_record_after_each_kill() {
    let mut home = Home::initialised().without_rate_limits().without_automatic_modes();
    let tools = "tools:\n  read_file: {allowed_in_modes: [NORMAL]}\n  write_file: {allowed_in_modes: [NORMAL]}\n  \
        create_directory: {requires_approval: true, allowed_in_modes: [NORMAL]}\n";
    home.configure("governance/tools.yaml", tools);
    home.file("seed.txt", "x");
    let (mut campaign, mut follower) = (Campaign::start(FEW), Follower::default());
    let (mut kills, mut counts, mut slowest) = (0, [0_usize; 4], Duration::ZERO);
    while let Some(round) = campaign.next_round() {
        let started = Instant::now();
        let daemon = Daemon::start_in(home);
        slowest = slowest.max(started.elapsed());
        let (answers, acknowledged) = kill_under_load(&daemon, campaign.random(round));
        home = daemon.crash();
        assert!(answers > 0, "no call was answered before the crash");
        let records = follower.new_records(&home);
        check_records(&home, &records, &acknowledged);
        let Acknowledged { calls, approvals, undone } = acknowledged;
        let more = [records.len(), calls.len(), approvals.len(), undone.len()];
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        kills = round + 1;
        if kills.is_multiple_of(50) {
            println!("{kills} crashes: records, calls, approvals, undo {counts:?}");
        }
    }
    let segments = follower.0.len();
    check_at_the_end(home, kills);
    let [records, calls, approvals, undone] = counts;
    assert!(campaign.is_long() || approvals + undone > 0, "no approval and no undo in {kills} rounds");
    let notes = format!(
        "records: {records}, segments: {segments}; {calls} calls, {approvals} approvals and {undone} undos \
         acknowledged, none lost; slowest start {slowest:.1?}"
    );
    campaign.finish(kills, &notes);
}

/// Checks the whole ledger after the last crash.
fn check_at_the_end(home: Home, kills: u64) {
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
    assert_eq!(recoveries.len() as u64, kills + 1, "each start says how long it took");
    let longest = recoveries.into_iter().max().unwrap_or_default();
    assert!(longest < LONGEST_RECOVERY, "picking up after a crash took {longest:?}");
    let report = verify(&home);
    assert_eq!(report["intact"], true, "{report}");
}
