//! Soak test: a steady load with injected faults. Every call is answered, memory and descriptors do not grow,
//! and the ledger stays intact. The ordinary run injects each quick fault once; `cargo xtask soak` runs for
//! minutes.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tests::{Campaign, Client, Daemon, Home};

/// Timeout for tasks that the daemon runs three times a minute; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Allowed growth of memory and descriptors after the daemon has settled.
const TOLERANCE_PERCENT: u64 = 5;
/// Descriptors that come and go with active connections.
const TRANSIENT_DESCRIPTORS: u64 = 4;
/// Threads of the blocking pool, which end when they were idle for a while.
const TRANSIENT_THREADS: u64 = 8;
/// Disk sizes for a ledger of twenty minutes, and for a single round.
const DISK: u64 = 768 << 20;
const SMALL_DISK: u64 = 16 << 20;

/// Duration of the test.
enum SoakDuration {
    /// Every quick fault once.
    Once,
    /// One fault per second for this long, with an optional counter of descriptors.
    For(Duration, Option<DescriptorCounter>),
}

fn soak_duration() -> SoakDuration {
    match std::env::var("SINEW_SOAK_MINUTES") {
        Ok(minutes) => {
            let minutes: f64 = minutes.parse().expect("a number of minutes");
            SoakDuration::For(Duration::from_secs_f64(minutes * 60.0), DescriptorCounter::start())
        }
        Err(_) => SoakDuration::Once,
    }
}

/// Returns a home with the shipped rules, in which neither the load nor the faults raise the mode or reach a
/// rate limit.
fn home(span: &SoakDuration) -> Home {
    let disk = if matches!(span, SoakDuration::For(..)) { DISK } else { SMALL_DISK };
    let home = Home::on_small_disk(disk).unwrap_or_else(Home::initialised).without_automatic_modes();
    let file = home.root().join("config/governance/safety.yaml");
    let safety = std::fs::read_to_string(file).expect("the shipped limits");
    let unlimited: Vec<String> = safety
        .lines()
        .filter(|line| !line.contains("tool_calls_per_minute"))
        .map(|line| if line == "rate_limits:" { "rate_limits: {}".to_owned() } else { line.to_owned() })
        .collect();
    home.configure("governance/safety.yaml", &(unlimited.join("\n") + "\n"));
    home.file("seed.txt", &"seed\n".repeat(200));
    home
}

/// Counters shared by the clients of the load.
#[derive(Default)]
struct LoadCounts {
    asked: AtomicU64,
    answered: AtomicU64,
    done: AtomicU64,
}

/// Runs one client of the load on a single connection.
fn run_client(daemon: &Daemon, name: usize, counts: &LoadCounts, over: &AtomicBool) {
    let mut client = daemon.agent();
    for round in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let (tool, arguments) = match round % 10 {
            0 | 5 => {
                ("write_file", json!({"path": format!("w{name}.txt"), "content": format!("round {round}\n")}))
            }
            1 => ("list_directory", json!({"path": "."})),
            2 => ("read_file", json!({"path": "/etc/hostname"})),
            3 => ("read_file", json!({})),
            4 if name == 0 => ("run_command", json!({"command": ["cat", "seed.txt"]})),
            _ => ("read_file", json!({"path": "seed.txt"})),
        };
        counts.asked.fetch_add(1, Ordering::Relaxed);
        let result = client.execute_with(tool, &arguments, &json!({"approval": "async"}));
        assert!(result["metadata"]["call_id"].is_string(), "{result}");
        counts.answered.fetch_add(1, Ordering::Relaxed);
        counts.done.fetch_add(u64::from(result["success"] == true), Ordering::Relaxed);
        // A steady load of forty calls per second, more than the agents of one person make.
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Name and injection of a fault. The function returns once the daemon has handled the fault.
type Fault = (&'static str, fn(&Daemon));

/// All faults in order.
const FAULTS: [Fault; 6] = [
    ("confined processes are killed", kill_confined),
    ("the mode changes", change_mode),
    ("the configuration is read again", reload),
    ("clients vanish", disconnect_early),
    ("the disk is full", fill_disk),
    ("a socket's file is removed", unlink),
];
/// The last fault takes long to be detected, so only the long run injects it.
const QUICK_FAULTS: usize = FAULTS.len() - 1;

/// Returns all descendant processes.
fn descendants(of: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").expect("/proc").filter_map(|entry| entry.ok());
    let parents: Vec<(i32, i32)> = processes
        .filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
            Some((entry.file_name().to_str()?.parse().ok()?, parent))
        })
        .collect();
    let mut found = vec![of.as_raw()];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, its)| *its == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

fn kill_confined(daemon: &Daemon) {
    for pid in descendants(daemon.pid()) {
        // The process may have exited already.
        let _ = kill(pid, Signal::SIGKILL);
    }
}

fn change_mode(daemon: &Daemon) {
    let mut control = daemon.control();
    for mode in ["LOCKDOWN", "RECOVERY", "NORMAL"] {
        let set = control.request("control/mode.set", &json!({"mode": mode, "reason": "a fault"}));
        assert!(set["result"].is_object(), "{set}");
    }
    // Decides the requests that were created meanwhile, as the operator would.
    let open = control.request("control/approvals.list", &json!({}));
    for question in open["result"]["approvals"].as_array().expect("a list") {
        control.request("control/approvals.decide", &json!({"id": question["id"], "answer": "deny"}));
    }
}

fn reload(daemon: &Daemon) {
    let file = daemon.home().root().join("config/governance/tools.yaml");
    let text = std::fs::read_to_string(file).expect("the policy");
    let other = match text.strip_suffix("# a comment\n") {
        Some(without) => without.to_owned(),
        None => format!("{text}# a comment\n"),
    };
    daemon.home().configure("governance/tools.yaml", &other);
    daemon.signal(Signal::SIGHUP);
    let answer = daemon.control().request("control/reload", &json!({}));
    assert!(answer["result"].is_object(), "{answer}");
}

fn disconnect_early(daemon: &Daemon) {
    let params = json!({"tool_name": "read_file", "arguments": {"path": "seed.txt"}});
    let line =
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "sinew/execute", "params": params}));
    for cut in [0, 1, line.len() / 2, line.len(), line.len()] {
        let mut stream = UnixStream::connect(daemon.home().socket("agent.sock")).expect("a place");
        let _ = stream.write_all(&line.as_bytes()[..cut]);
    }
}

fn unlink(daemon: &Daemon) {
    let socket = daemon.home().socket("agent.sock");
    std::fs::remove_file(&socket).expect("it is there");
    wait_until("the socket is bound again", || UnixStream::connect(&socket).is_ok());
}

/// Fills the disk, if the home has a disk of its own.
fn fill_disk(daemon: &Daemon) {
    let root = daemon.home().root();
    if !has_own_disk(&root) {
        return;
    }
    let filler = root.join("filler");
    let mut file = std::fs::File::create(&filler).expect("a file");
    let zeros = vec![0_u8; 1 << 20];
    while file.write_all(&zeros).is_ok() {}
    while file.write_all(b"0").is_ok() {}
    let write =
        |client: &mut Client| client.execute("write_file", &json!({"path": "full.txt", "content": "x\n"}));
    let mut client = daemon.agent();
    // Any result is accepted while the disk is full; after that, writes must work again.
    assert!(write(&mut client)["metadata"]["call_id"].is_string());
    drop(file);
    std::fs::remove_file(filler).expect("it goes");
    wait_until("calls run again", || write(&mut daemon.agent())["success"] == true);
}

fn has_own_disk(root: &std::path::Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let device = |path: &std::path::Path| path.metadata().expect("it is there").dev();
    device(root) != device(root.parent().expect("a parent"))
}

/// Polls until the condition holds; only a failing test reaches the timeout.
fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Root shell that counts the daemon's descriptors. Only root can read them, and this process drops root.
struct DescriptorCounter(Mutex<(Child, BufReader<ChildStdout>)>);

impl DescriptorCounter {
    fn start() -> Option<DescriptorCounter> {
        if !nix::unistd::geteuid().is_root() {
            tests::left_out("only root can count the descriptors of the daemon");
            return None;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "while read -r pid; do ls /proc/$pid/fd | wc -l; done"]);
        let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let answers = BufReader::new(shell.stdout.take().expect("its output"));
        Some(DescriptorCounter(Mutex::new((shell, answers))))
    }

    fn descriptors(&self, of: Pid) -> u64 {
        let mut onlooker = self.0.lock().expect("one at a time");
        writeln!(onlooker.0.stdin.as_mut().expect("its input"), "{of}").expect("it listens");
        let mut count = String::new();
        onlooker.1.read_line(&mut count).expect("it answers");
        count.trim().parse().expect("a number")
    }
}

impl Drop for DescriptorCounter {
    fn drop(&mut self) {
        if let Ok(onlooker) = self.0.get_mut() {
            // The shell exits when its input closes; this process can no longer signal a process of root.
            drop(onlooker.0.stdin.take());
            let _ = onlooker.0.wait();
        }
    }
}

/// Resource usage of the daemon.
#[derive(Clone, Copy, Debug)]
struct ResourceUsage {
    resident: u64,
    /// Zero if this process cannot count them.
    descriptors: u64,
    threads: u64,
}

impl ResourceUsage {
    fn of(daemon: &Daemon, onlooker: &Option<DescriptorCounter>) -> ResourceUsage {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", daemon.pid())).expect("statm");
        let pages: u64 = statm.split(' ').nth(1).expect("resident").parse().expect("a number");
        let descriptors = onlooker.as_ref().map_or(0, |onlooker| onlooker.descriptors(daemon.pid()));
        let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("status");
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).expect("a count");
        let threads = threads.trim().parse().expect("a number");
        ResourceUsage { resident: pages * 4096, descriptors, threads }
    }

    /// Returns the median, because a single sample may fall into a fault.
    fn median(seen: &[ResourceUsage]) -> ResourceUsage {
        let middle = |of: fn(&ResourceUsage) -> u64| {
            let mut all: Vec<u64> = seen.iter().map(of).collect();
            all.sort_unstable();
            all.get(all.len() / 2).copied().expect("something was seen")
        };
        ResourceUsage {
            resident: middle(|size| size.resident),
            descriptors: middle(|size| size.descriptors),
            threads: middle(|size| size.threads),
        }
    }
}

/// Injects faults for the whole duration, and samples the resource usage of the daemon.
fn inject_faults(daemon: &Daemon, span: &SoakDuration) -> Vec<(Duration, ResourceUsage)> {
    let began = Instant::now();
    let mut seen = Vec::new();
    for (turn, (what, fault)) in FAULTS.iter().cycle().enumerate() {
        let over = match span {
            SoakDuration::Once => turn >= QUICK_FAULTS,
            SoakDuration::For(time, _) => began.elapsed() >= *time,
        };
        if over {
            break;
        }
        fault(daemon);
        if let SoakDuration::For(_, onlooker) = span {
            std::thread::sleep(Duration::from_secs(1));
            let size = ResourceUsage::of(daemon, onlooker);
            if turn % 30 == 0 {
                println!("{:>5.0} s: {size:?} after: {what}", began.elapsed().as_secs_f64());
            }
            seen.push((began.elapsed(), size));
        }
    }
    seen
}

#[test]
fn soak_with_faults_loses_nothing_and_does_not_grow() {
    let span = soak_duration();
    let daemon = Daemon::start_in(home(&span));
    let (counts, over) = (LoadCounts::default(), AtomicBool::new(false));
    let seen = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..4)
            .map(|name| {
                scope.spawn({
                    let (daemon, counts, over) = (&daemon, &counts, &over);
                    move || run_client(daemon, name, counts, over)
                })
            })
            .collect();
        // The join happens before `over` is set, so that a failing fault does not leave the clients running
        // for ever.
        let trouble = scope.spawn(|| inject_faults(&daemon, &span)).join();
        over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("every call was answered"));
        trouble.expect("every fault was taken")
    });
    let count = |which: &AtomicU64| which.load(Ordering::Relaxed);
    let (asked, answered, done) = (count(&counts.asked), count(&counts.answered), count(&counts.done));
    assert!(done > 0 && asked == answered, "{answered} of {asked} answered, {done} done");
    check_no_growth(&seen);
    let home = daemon.stop();
    let report = home.run(&["ledger", "verify", "--json"]).must_exit(0).json();
    assert_eq!(report["intact"], true, "{report}");
    let records = home.records();
    let of_kind = |kind: &str| records.iter().filter(|record| record["kind"] == kind).count();
    assert_eq!(of_kind("decision"), of_kind("outcome"), "every intent has its end");
    let minutes = seen.last().map_or(0, |(end, _)| end.as_secs() / 60);
    let notes =
        format!("{answered} calls answered, {done} done, {} faults, {} records", seen.len(), records.len());
    Campaign::start(1).finish(minutes, &notes);
}

/// Checks that memory and descriptors do not grow after a quarter of the time.
fn check_no_growth(seen: &[(Duration, ResourceUsage)]) {
    let Some((end, _)) = seen.last() else { return };
    let sizes = |from: f64, to: f64| -> Vec<ResourceUsage> {
        let within = |at: &Duration| (from..to).contains(&(at.as_secs_f64() / end.as_secs_f64()));
        seen.iter().filter(|(at, _)| within(at)).map(|(_, size)| *size).collect()
    };
    let (settled, last) =
        (ResourceUsage::median(&sizes(0.25, 0.4)), ResourceUsage::median(&sizes(0.85, 1.01)));
    println!("a quarter in: {settled:?}; at the end: {last:?}");
    let most = |before: u64| before + before * TOLERANCE_PERCENT / 100;
    assert!(last.resident <= most(settled.resident), "memory grew from {settled:?} to {last:?}");
    let descriptors = most(settled.descriptors) + TRANSIENT_DESCRIPTORS;
    assert!(last.descriptors <= descriptors, "descriptors grew from {settled:?} to {last:?}");
    let threads = most(settled.threads) + TRANSIENT_THREADS;
    assert!(last.threads <= threads, "threads grew from {settled:?} to {last:?}");
}
