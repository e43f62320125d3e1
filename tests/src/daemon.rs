//! A real daemon in a child process, killed when the test ends.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{Client, Home, sinew};

/// Timeout for a loaded machine; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running `sinew serve`.
pub struct Daemon {
    process: KillOnDrop,
    home: Home,
}

/// Daemon that exited before it served.
pub struct FailedStart {
    /// Its home.
    pub home: Home,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output and error.
    pub log: String,
}

/// Child process that is killed when dropped.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    /// Starts a daemon in an initialised home.
    pub fn start() -> Daemon {
        Daemon::start_in(Home::initialised())
    }

    /// Starts a daemon in this home. Returns once it answers.
    pub fn start_in(home: Home) -> Daemon {
        Daemon::start_with(home, &[])
    }

    /// Starts a daemon in this home that can be traced.
    pub fn start_debuggable(home: Home) -> Daemon {
        Daemon::spawn(home, &["--debuggable"], &[])
    }

    /// Starts a daemon in this home, with these environment variables.
    pub fn start_with(home: Home, variables: &[(&str, &str)]) -> Daemon {
        Daemon::spawn(home, &[], variables)
    }

    /// Starts a daemon in this home that finds the machine started again since the last one: it runs in a mount
    /// namespace with another boot id. Returns the home where no such namespace can be made.
    #[cfg(target_os = "linux")]
    pub fn start_after_reboot(home: Home, boot_id: &str) -> Result<Daemon, Home> {
        let script = "mount --bind \"$1\" /proc/sys/kernel/random/boot_id && shift && exec \"$@\"";
        let file = home.workspace().with_file_name("boot_id");
        std::fs::write(&file, format!("{boot_id}\n")).expect("a boot id");
        let wrapped = |program: &std::ffi::OsStr| {
            let mut command = Command::new("unshare");
            command.args(["-Urm", "sh", "-c", script, "sh"]).arg(&file).arg(program);
            command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
            command
        };
        if !wrapped("true".as_ref()).output().is_ok_and(|output| output.status.success()) {
            crate::left_out("no mount namespace can be made here");
            return Err(home);
        }
        let command = wrapped(sinew().get_program());
        Ok(Daemon::spawn_command(home, command, &["--allow-root"], &[]))
    }

    /// Starts a daemon in this home that may open this many files, as a shell with `ulimit -n` does.
    pub fn start_with_descriptor_limit(home: Home, limit: u32) -> Daemon {
        let program = sinew();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "ulimit -n \"$1\" && shift && exec \"$@\"", "sh", &limit.to_string()]);
        command.arg(program.get_program()).env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
        Daemon::spawn_command(home, command, &[], &[])
    }

    /// Starts a copy of the program, which can be replaced and inspected while the daemon runs.
    pub fn start_from(home: Home, program: &Path) -> Daemon {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("NO_COLOR", "1");
        Daemon::spawn_command(home, command, &["--debuggable"], &[])
    }

    fn spawn(home: Home, words: &[&str], variables: &[(&str, &str)]) -> Daemon {
        Daemon::spawn_command(home, sinew(), words, variables)
    }

    /// Starts a daemon in this home by a command that ends in the program. Returns the home if the daemon exits
    /// instead of serving; a daemon that does neither fails the test.
    pub fn try_start(home: Home, command: Command) -> Result<Daemon, FailedStart> {
        let mut daemon = Daemon::spawn_process(home, command, &[], &[]);
        match daemon.wait_for_sockets() {
            None => Ok(daemon),
            Some(status) => Err(FailedStart { status, log: daemon.log(), home: daemon.home }),
        }
    }

    fn spawn_command(home: Home, command: Command, words: &[&str], variables: &[(&str, &str)]) -> Daemon {
        let mut daemon = Daemon::spawn_process(home, command, words, variables);
        if let Some(status) = daemon.wait_for_sockets() {
            panic!("the daemon exited with {status}: {}", daemon.log());
        }
        daemon
    }

    fn spawn_process(home: Home, mut command: Command, words: &[&str], variables: &[(&str, &str)]) -> Daemon {
        let log = File::create(home.workspace().with_file_name("serve.log")).expect("a log file");
        command
            .arg("serve")
            .args(words)
            .env("SINEW_HOME", home.root())
            .env("HOME", home.user_home())
            .current_dir("/")
            .stdin(Stdio::null());
        command.envs(variables.iter().copied());
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let process = KillOnDrop(command.spawn().expect("start the daemon"));
        Daemon { process, home }
    }

    /// Waits until both sockets accept connections. Returns the status of a daemon that exited instead.
    fn wait_for_sockets(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + TIMEOUT;
        while !self.is_listening_at("control.sock") || !self.is_listening_at("agent.sock") {
            if let Some(status) = self.process.0.try_wait().expect("ask for the child") {
                return Some(status);
            }
            assert!(Instant::now() < deadline, "the daemon does not answer: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Returns true if this very process listens there. The sockets of a killed predecessor stay open for a
    /// moment in a child that it was starting.
    fn is_listening_at(&self, socket: &str) -> bool {
        let Ok(stream) = UnixStream::connect(self.home.socket(socket)) else { return false };
        listener_pid(&stream).is_none_or(|listener| listener == self.pid())
    }

    /// Returns the standard output and error of the daemon.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home.workspace().with_file_name("serve.log")).unwrap_or_default()
    }

    /// Returns the home of the daemon.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Connects to the agent socket.
    pub fn agent(&self) -> Client {
        Client::connect(&self.home.socket("agent.sock"))
    }

    /// Connects to the control socket.
    pub fn control(&self) -> Client {
        Client::connect(&self.home.socket("control.sock"))
    }

    /// Returns the process id.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.0.id()).expect("a process id"))
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("the daemon is ours");
    }

    /// Waits for the daemon to exit by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.process.0.try_wait().expect("ask for the child") {
                return status;
            }
            assert!(Instant::now() < deadline, "the daemon does not exit: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Kills the daemon and returns its home.
    pub fn crash(mut self) -> Home {
        self.signal(Signal::SIGKILL);
        self.wait();
        self.home
    }

    /// Stops the daemon with SIGTERM and returns its home, whatever the exit status.
    pub fn terminate(mut self) -> Home {
        self.signal(Signal::SIGTERM);
        self.wait();
        self.home
    }

    /// Stops the daemon with SIGTERM and returns its home.
    pub fn stop(mut self) -> Home {
        self.signal(Signal::SIGTERM);
        let status = self.wait();
        assert!(status.success(), "{status}: {}", self.log());
        self.home
    }
}

/// Returns the process that listens at the other end, if the system reports it.
#[cfg(target_os = "linux")]
fn listener_pid(stream: &UnixStream) -> Option<Pid> {
    use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
    getsockopt(stream, PeerCredentials).ok().map(|peer| Pid::from_raw(peer.pid()))
}

#[cfg(not(target_os = "linux"))]
fn listener_pid(_stream: &UnixStream) -> Option<Pid> {
    None
}
