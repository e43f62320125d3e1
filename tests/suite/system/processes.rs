//! `check_process_health` on processes that the test starts itself.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tests::Daemon;

fn ask(daemon: &Daemon, arguments: &Value) -> Value {
    let result = daemon.agent().execute("check_process_health", arguments);
    assert_eq!(result["success"], true, "{result}");
    result["output"].clone()
}

/// Process that ends with the test.
struct Sleeper(Child);

impl Sleeper {
    fn start(program: &str) -> Sleeper {
        Sleeper(Command::new(program).arg("60").stdin(Stdio::null()).spawn().expect("a process"))
    }

    fn pid(&self) -> i64 {
        i64::from(self.0.id())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), signal).unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Repeats the call until it has this outcome, because another process takes time to change.
fn until(daemon: &Daemon, arguments: &Value, outcome: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(15);
    loop {
        let found = ask(daemon, arguments);
        if found["outcome"] == outcome {
            return found;
        }
        assert!(Instant::now() < deadline, "{found}");
    }
}

#[test]
fn process_is_found_by_pid_and_invalid_pids_are_named() {
    let daemon = Daemon::start();
    let sleeper = Sleeper::start("/bin/sleep");
    let found = ask(&daemon, &json!({"pid": sleeper.pid()}));
    let facts = &found["processes"][0];
    assert_eq!((&found["outcome"], &facts["name"]), (&json!("running"), &json!("sleep")), "{found}");
    assert_eq!(facts["parent_pid"], std::process::id());
    assert!(facts["memory_bytes"].as_u64().unwrap() > 0 && facts["cpu_percent"].is_number(), "{facts}");
    assert!(facts["uptime_seconds"].as_f64().unwrap() < 60.0, "{facts}");
    assert_eq!(facts["is_sinew"], false);

    let own = ask(&daemon, &json!({"pid": daemon.pid().as_raw()}));
    assert_eq!(own["processes"][0]["is_sinew"], true, "{own}");
    let init = ask(&daemon, &json!({"pid": 1}));
    assert_eq!(init["outcome"], "running");
    assert!(init["processes"][0]["open_files"].is_null(), "of another user nothing is guessed: {init}");
    assert!(init["processes"][0]["unavailable"]["open_files"].is_string(), "{init}");
    for (pid, outcome) in [
        (0, "invalid_pid"),
        (-1, "invalid_pid"),
        (1 - (1_i64 << 53), "invalid_pid"),
        ((1 << 53) - 1, "not_running"),
        (4_194_305, "not_running"),
    ] {
        assert_eq!(ask(&daemon, &json!({"pid": pid}))["outcome"], outcome, "{pid}");
    }
    for pid in [i64::MIN, i64::MAX] {
        let far = daemon.agent().execute("check_process_health", &json!({"pid": pid}));
        assert_eq!(far["metadata"]["refusal"]["code"], "invalid_arguments", "{far}");
    }
    let huge = daemon.agent().execute("check_process_health", &json!({"pid": 1e30}));
    assert_eq!(huge["success"], false, "{huge}");
    assert!(
        sleeper.pid() > 0 && ask(&daemon, &json!({"pid": sleeper.pid()}))["outcome"] == "running",
        "no signal"
    );
}

#[test]
fn reused_pid_is_another_process() {
    let daemon = Daemon::start();
    let sleeper = Sleeper::start("/bin/sleep");
    let began = ask(&daemon, &json!({"pid": sleeper.pid()}))["processes"][0]["started_at"].clone();
    let same = ask(&daemon, &json!({"pid": sleeper.pid(), "started_at": began}));
    assert_eq!(same["outcome"], "running", "{same}");
    let other = ask(&daemon, &json!({"pid": sleeper.pid(), "started_at": "2020-01-01T00:00:00.00Z"}));
    assert_eq!(other["outcome"], "another_process", "{other}");
}

#[test]
fn process_states_are_distinguished() {
    let daemon = Daemon::start();
    let sleeper = Sleeper::start("/bin/sleep");
    let pid = json!({"pid": sleeper.pid()});
    sleeper.signal(Signal::SIGSTOP);
    until(&daemon, &pid, "stopped");
    sleeper.signal(Signal::SIGKILL);
    let gone = until(&daemon, &pid, "zombie");
    assert!(gone["processes"][0]["memory_bytes"].is_null(), "{gone}");
    drop(sleeper);
    until(&daemon, &pid, "not_running");
}

#[test]
fn processes_are_found_by_name_and_port() {
    let daemon = Daemon::start();
    let folder = tempfile::tempdir().unwrap();
    let name = format!("sinew-nap-{}", std::process::id() % 10_000);
    let program = folder.path().join(&name);
    std::fs::copy("/bin/sleep", &program).unwrap();
    let (one, two) = (Sleeper::start(program.to_str().unwrap()), Sleeper::start(program.to_str().unwrap()));
    let found = ask(&daemon, &json!({"name": name}));
    let pids: Vec<i64> =
        found["processes"].as_array().unwrap().iter().map(|one| one["pid"].as_i64().unwrap()).collect();
    assert_eq!(pids.len(), 2, "{found}");
    assert!(pids.contains(&one.pid()) && pids.contains(&two.pid()));
    assert_eq!(ask(&daemon, &json!({"name": "no-such-name"}))["outcome"], "not_running");

    for kind in ["STREAM", "DGRAM"] {
        let code = format!(
            "import socket, time\ns = socket.socket(socket.AF_INET, socket.SOCK_{kind})\ns.bind(('127.0.0.1', 0))\n\
             s.listen() if '{kind}' == 'STREAM' else None\nprint(s.getsockname()[1], flush=True)\ntime.sleep(60)"
        );
        let mut listener = Sleeper(
            Command::new("/usr/bin/python3")
                .args(["-c", &code])
                .stdout(Stdio::piped())
                .spawn()
                .expect("python"),
        );
        let mut port = String::new();
        BufReader::new(listener.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let port: u16 = port.trim().parse().unwrap();
        let found = ask(&daemon, &json!({"port": port}));
        assert_eq!(found["processes"][0]["pid"], listener.pid(), "{kind}: {found}");
        drop(listener);
        assert_eq!(until(&daemon, &json!({"port": port}), "not_running")["processes"], json!([]));
    }
    // A process that gave up root, as this one did, does not show its descriptors to others.
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let found = ask(&daemon, &json!({"port": tcp.local_addr().unwrap().port()}));
    assert!(["listening", "running"].contains(&found["outcome"].as_str().unwrap()), "{found}");
}

#[test]
fn check_takes_one_target_and_no_option_words() {
    let daemon = Daemon::start();
    let call = |arguments: Value| daemon.agent().execute("check_process_health", &arguments);
    assert_eq!(call(json!({}))["metadata"]["refusal"]["code"], "invalid_arguments");
    let two = call(json!({"pid": 1, "name": "x"}));
    assert_eq!(two["metadata"]["failure"]["kind"], "wrong_kind", "{two}");
    for label in ["--output=x", "-H", "*", "a/b", "a b", ""] {
        let refused = call(json!({"label": label}));
        assert_eq!(refused["metadata"]["refusal"]["code"], "invalid_arguments", "{label}: {refused}");
    }
    // A machine without a service manager reports that; one with a manager reports that the unit does not
    // exist.
    let unit = call(json!({"label": "sinew-no-such-unit.service"}));
    let reported = match unit["success"].as_bool().unwrap() {
        true => unit["output"]["outcome"].clone(),
        false => unit["metadata"]["failure"]["kind"].clone(),
    };
    assert!(["not_running", "not_found"].contains(&reported.as_str().unwrap()), "{unit}");
}
