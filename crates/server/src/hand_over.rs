//! Restart in place: the daemon drains and closes its state, then replaces its program in the same process. The
//! listening sockets stay open, so a client that connects meanwhile waits in the backlog and is served by the new
//! program.
//!
//! The sockets are passed as standard input and output, which needs no raw descriptor numbers.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::socket::{BoundSocket, SocketFileOwner};

/// Variable that announces the sockets, as `PID:OWNER`. A process with another pid inherited only the variable.
const VARIABLE: &str = "SINEW_HANDED_OVER";
/// Variables by which a service manager announces its sockets; they are not valid for the new program.
const SERVICE_MANAGER_VARIABLES: [&str; 3] = ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"];

/// Check that the installed program can replace this one. Returns the version of that program, or the reason why it
/// cannot. Blocking.
pub type RestartCheck = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// Handle that stops or restarts a daemon in this process. Clones belong to the same daemon.
#[derive(Clone, Default)]
pub struct StopHandle {
    stop: CancellationToken,
    restart_requested: Arc<AtomicBool>,
    restart_check: Option<RestartCheck>,
}

impl StopHandle {
    /// Creates a handle of a daemon that can be restarted in place.
    pub fn with_restart(check: RestartCheck) -> Self {
        StopHandle { restart_check: Some(check), ..StopHandle::default() }
    }

    /// Requests the stop; a second request has no effect.
    pub fn request(&self) {
        self.stop.cancel();
    }

    /// Requests a restart in place, unless a stop was requested before.
    pub(crate) fn request_restart(&self) {
        if !self.is_requested() {
            self.restart_requested.store(true, Ordering::Release);
            self.stop.cancel();
        }
    }

    /// Returns true if a stop or a restart was requested.
    pub fn is_requested(&self) -> bool {
        self.stop.is_cancelled()
    }

    pub(crate) fn is_restart(&self) -> bool {
        self.restart_requested.load(Ordering::Acquire)
    }

    pub(crate) fn restart_check(&self) -> Option<RestartCheck> {
        self.restart_check.clone()
    }

    pub(crate) async fn requested(&self) {
        self.stop.cancelled().await;
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (requested, restart) = (self.is_requested(), self.is_restart());
        f.debug_struct("StopHandle").field("requested", &requested).field("restart", &restart).finish()
    }
}

/// Listening sockets of a daemon that restarts. If they are dropped, their files are removed as at a stop.
#[derive(Debug)]
pub struct ListeningSockets {
    pub(crate) agent: BoundSocket,
    pub(crate) control: BoundSocket,
}

impl ListeningSockets {
    /// Replaces this process by `program`, which takes over the sockets. Returns only on failure.
    pub fn exec(self, program: &mut Command) -> io::Error {
        let stdio = |socket: &BoundSocket| socket.listener().as_fd().try_clone_to_owned().map(Stdio::from);
        let (agent, control) = match (stdio(&self.agent), stdio(&self.control)) {
            (Ok(agent), Ok(control)) => (agent, control),
            (Err(error), _) | (_, Err(error)) => return error,
        };
        for name in SERVICE_MANAGER_VARIABLES {
            program.env_remove(name);
        }
        program.env(VARIABLE, announcement(std::process::id(), self.agent.owner()));
        program.stdin(agent).stdout(control).exec()
    }
}

fn announcement(pid: u32, owner: &SocketFileOwner) -> String {
    let owner = match owner {
        SocketFileOwner::Daemon { .. } => "daemon",
        SocketFileOwner::ServiceManager => "manager",
    };
    format!("{pid}:{owner}")
}

/// Owner of the sockets that an earlier program handed over to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandedOverOwner {
    Daemon,
    ServiceManager,
}

/// Takes the sockets that the earlier program of this process handed over, and frees standard input and output. A
/// second call returns nothing that listens.
pub(crate) fn take_sockets() -> Option<(HandedOverOwner, Vec<OwnedFd>)> {
    let owner = owner_announced_to(std::process::id(), &std::env::var(VARIABLE).ok()?)?;
    let (stdin, stdout) = (io::stdin(), io::stdout());
    let given = [stdin.as_fd(), stdout.as_fd()].into_iter().filter_map(take_descriptor).collect();
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").ok()?;
    rustix::stdio::dup2_stdin(&null).ok()?;
    rustix::stdio::dup2_stdout(&null).ok()?;
    Some((owner, given))
}

/// Duplicates a descriptor that listens. The duplicate is closed when a program is executed.
fn take_descriptor(descriptor: BorrowedFd<'_>) -> Option<OwnedFd> {
    let listens = nix::sys::socket::getsockopt(&descriptor, nix::sys::socket::sockopt::AcceptConn);
    listens.unwrap_or(false).then(|| descriptor.try_clone_to_owned().ok()).flatten()
}

fn owner_announced_to(pid: u32, text: &str) -> Option<HandedOverOwner> {
    let owner = text.strip_prefix(&format!("{pid}:"))?;
    match owner {
        "daemon" => Some(HandedOverOwner::Daemon),
        "manager" => Some(HandedOverOwner::ServiceManager),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_announced_process_takes_the_sockets() {
        let daemon = SocketFileOwner::Daemon { device: 1, inode: 2 };
        assert_eq!(owner_announced_to(7, &announcement(7, &daemon)), Some(HandedOverOwner::Daemon));
        let manager = announcement(7, &SocketFileOwner::ServiceManager);
        assert_eq!(owner_announced_to(7, &manager), Some(HandedOverOwner::ServiceManager));
        for foreign in ["", "7", "7:", "8:daemon", "77:daemon", "7:stranger"] {
            assert_eq!(owner_announced_to(7, foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_stop_is_not_turned_into_a_restart() {
        let stop = StopHandle::default();
        stop.request();
        stop.request_restart();
        assert!(stop.is_requested() && !stop.is_restart());
        let restart = StopHandle::default();
        restart.request_restart();
        assert!(restart.is_requested() && restart.is_restart());
    }
}
