//! A real daemon in a child process, ended when the test is over.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Client, Home, sinew};

/// Long enough for a loaded machine; only a failure ever waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// A running `sinew serve`.
pub struct Daemon {
    process: Process,
    home: Home,
}

/// A child that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    /// A daemon in an initialised home.
    pub fn start() -> Daemon {
        Daemon::start_in(Home::initialised())
    }

    /// A daemon in this home. Returns once it answers.
    pub fn start_in(home: Home) -> Daemon {
        Daemon::start_with(home, &[])
    }

    /// A daemon in this home that can be traced.
    pub fn start_debuggable(home: Home) -> Daemon {
        Daemon::spawn(home, &["--debuggable"], &[])
    }

    /// A daemon in this home, with these variables in its environment.
    pub fn start_with(home: Home, variables: &[(&str, &str)]) -> Daemon {
        Daemon::spawn(home, &[], variables)
    }

    fn spawn(home: Home, words: &[&str], variables: &[(&str, &str)]) -> Daemon {
        let log = File::create(home.workspace().with_file_name("serve.log")).expect("a log file");
        let mut command = sinew();
        command
            .arg("serve")
            .args(words)
            .env("SINEW_HOME", home.root())
            .env("HOME", home.user())
            .current_dir("/")
            .stdin(Stdio::null());
        command.envs(variables.iter().copied());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let process = Process(command.spawn().expect("start the daemon"));
        let mut daemon = Daemon { process, home };
        daemon.wait_until_it_answers();
        daemon
    }

    fn wait_until_it_answers(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while !self.listens_at("control.sock") || !self.listens_at("agent.sock") {
            if let Some(status) = self.process.0.try_wait().expect("ask for the child") {
                panic!("the daemon ended with {status}: {}", self.log());
            }
            assert!(Instant::now() < deadline, "the daemon does not answer: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether this very process listens there. A predecessor that was killed while it started another process leaves its
    /// sockets open in that one for a moment.
    fn listens_at(&self, socket: &str) -> bool {
        let Ok(stream) = UnixStream::connect(self.home.socket(socket)) else { return false };
        listener(&stream).is_none_or(|listener| listener == self.pid())
    }

    /// What it wrote to its terminal.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.workspace().with_file_name("serve.log")).unwrap_or_default()
    }

    /// Where it lives.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// A connection to the agents' door.
    pub fn agent(&self) -> Client {
        Client::connect(&self.home.socket("agent.sock"))
    }

    /// A connection to the human's door.
    pub fn control(&self) -> Client {
        Client::connect(&self.home.socket("control.sock"))
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.0.id()).expect("a process id"))
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the daemon is ours");
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.process.0.try_wait().expect("ask for the child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the daemon does not end: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it without warning and keeps its home.
    pub fn crash(mut self) -> Home {
        self.signal(Signal::SIGKILL);
        self.wait();
        self.home
    }

    /// Ends it politely and keeps its home.
    pub fn stop(mut self) -> Home {
        self.signal(Signal::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
        self.home
    }
}

/// Who listens at the other end, where the system tells.
#[cfg(target_os = "linux")]
fn listener(stream: &UnixStream) -> Option<Pid> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    getsockopt(stream, PeerCredentials).ok().map(|peer| Pid::from_raw(peer.pid()))
}

#[cfg(not(target_os = "linux"))]
fn listener(_stream: &UnixStream) -> Option<Pid> {
    None
}
