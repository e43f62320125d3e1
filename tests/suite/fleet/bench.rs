//! Harness: one nats-server, the folder of the operator of a fleet, and homes that join it.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tests::{Daemon, Home, SinewRun, left_out, sinew, wait_for, wait_until};

/// A running nats-server, killed when dropped.
pub(super) struct NatsServer {
    process: Child,
    port: u16,
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl NatsServer {
    fn start(program: &Path, folder: &Path, port: u16) -> NatsServer {
        let log =
            File::options().create(true).append(true).open(folder.join("nats.log")).expect("a log file");
        let mut command = Command::new(program);
        command.arg("-c").arg(folder.join("nats.conf")).stdin(Stdio::null());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let server = NatsServer { process: command.spawn().expect("start nats-server"), port };
        wait_until("nats-server to listen", || server.answers());
        server
    }

    fn answers(&self) -> bool {
        std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the server is ours");
    }
}

/// A child process of the operator, killed when dropped.
pub(super) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Fleet of a test.
pub(super) struct Fleet {
    program: PathBuf,
    /// Home of the operator, with fleet.yaml in its workspace.
    pub(super) operator: Home,
    port: u16,
    server: Option<NatsServer>,
}

impl Fleet {
    /// Starts a fleet without hosts. Returns `None`, and reports it, if there is no nats-server.
    pub(super) fn start() -> Option<Fleet> {
        let mut fleet = Fleet::without_server()?;
        fleet.sinew(&["fleet", "init"]).must_exit(6);
        fleet.start_server();
        fleet.sinew(&["fleet", "init"]).must_exit(0);
        Some(fleet)
    }

    /// Writes fleet.yaml, and starts no server.
    pub(super) fn without_server() -> Option<Fleet> {
        let Some(program) = std::env::var_os("SINEW_NATS_SERVER") else {
            left_out("no nats-server (`cargo xtask test` installs one)");
            return None;
        };
        let operator = Home::initialised();
        let port =
            TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
        let text = format!(
            "fleet: acme\nservers: [\"nats://127.0.0.1:{port}\"]\nlisten: 127.0.0.1:{port}\n\
             store: {{dir: store, max_bytes: 1073741824}}\n"
        );
        operator.file("fleet.yaml", &text);
        Some(Fleet { program: program.into(), operator, port, server: None })
    }

    pub(super) fn start_server(&mut self) {
        self.server = Some(NatsServer::start(&self.program, &self.operator.workspace(), self.port));
    }

    /// Kills the server as a power cut would.
    pub(super) fn kill_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.signal(Signal::SIGKILL);
        }
    }

    /// Makes the server read the permissions again.
    pub(super) fn reload_server(&self) {
        let log = self.operator.workspace().join("nats.log");
        let count = || {
            std::fs::read_to_string(&log).unwrap_or_default().matches("Reloaded server configuration").count()
        };
        let before = count();
        self.server.as_ref().expect("a server runs").signal(Signal::SIGHUP);
        wait_until("the server to reload", || count() > before);
    }

    /// Runs a command of the operator.
    pub(super) fn sinew(&self, words: &[&str]) -> SinewRun {
        self.operator.run(words)
    }

    /// Signs beacons until the value is dropped.
    pub(super) fn beacon(&self) -> Running {
        let mut command = sinew();
        command.args(["fleet", "beacon"]).current_dir(self.operator.workspace());
        command.env("SINEW_HOME", self.operator.root()).env("HOME", self.operator.user_home());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Running(command.spawn().expect("start the beacon"))
    }

    /// Invites a host and returns its token.
    pub(super) fn invite(&self, host: &str) -> String {
        let token = self.sinew(&["fleet", "invite", host]).must_exit(0).stdout().trim().to_owned();
        self.reload_server();
        token
    }

    /// Joins a home to the fleet and admits it.
    pub(super) fn enrol(&self, host: &str, home: &Home) {
        let token = self.invite(host);
        let joined = home.run(&["fleet", "join", &token]).must_exit(0);
        let fingerprint = joined.stdout().trim().trim_start_matches("fingerprint ").to_owned();
        self.sinew(&["fleet", "admit", host, "--fingerprint", &fingerprint]).must_exit(0);
        self.reload_server();
    }

    /// Enrols a new home and starts its daemon, which connects.
    pub(super) fn host(&self, host: &str) -> Daemon {
        let home = Home::initialised().without_automatic_modes();
        self.enrol(host, &home);
        let daemon = Daemon::start_in(home);
        wait_for_status(&daemon, "the host to connect", |status| status["connection"] == "connected");
        daemon
    }

    /// Verifies the mirrored ledger of a host and returns the number of its records.
    pub(super) fn verified_records(&self, host: &str) -> u64 {
        let report = self.sinew(&["fleet", "ledger", "verify", "--host", host, "--json"]).must_exit(0).json();
        report["hosts"][0]["records"].as_u64().expect("a number")
    }
}

/// Returns the status file of a host.
pub(super) fn status(daemon: &Daemon) -> Value {
    let path = daemon.home().root().join("state/fleet/status.json");
    std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Waits until the status of a host satisfies a condition.
pub(super) fn wait_for_status(daemon: &Daemon, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
    wait_for(what, || Some(status(daemon)).filter(&condition))
}

/// Returns the mode of a daemon.
pub(super) fn mode(daemon: &Daemon) -> String {
    let reply = daemon.home().run(&["mode", "get"]).must_exit(0);
    reply.stdout().trim().to_owned()
}
