//! Identity of the process at the other end of a connection, and of the host that started a hook.
//!
//! Linux only: the start time of a process comes from `/proc`. Elsewhere a process is identified by its id alone.

use std::path::{Path, PathBuf};

use tokio::net::UnixStream;
use tool::caller::ProcessIdentity;

use crate::connection_state::PeerCredentials;

/// Ancestors of a hook that are examined to find its host.
const MAX_ANCESTORS: usize = 8;
/// Programs that a host may start a hook through.
const HOOK_WRAPPERS: [&str; 9] = ["sh", "bash", "dash", "zsh", "fish", "ksh", "ash", "env", "timeout"];

/// Returns the credentials of the peer; `None` if it has already disconnected.
pub(crate) fn peer_credentials(stream: &UnixStream) -> Option<PeerCredentials> {
    let credentials = stream.peer_cred().ok()?;
    // Processes in another PID namespace have the id 0.
    let pid = credentials.pid().filter(|pid| *pid > 0);
    let process = pid.map(|pid| ProcessIdentity { pid, started: start_time_of_peer(stream, pid) });
    Some(PeerCredentials { uid: credentials.uid(), process })
}

/// Returns the host that started this hook: the nearest ancestor that is not a shell. Limits count by it, because a host
/// starts a process for each call. `None` if the peer is not a hook, or if there is no host of the same user.
pub(crate) fn host_of(peer: ProcessIdentity) -> Option<ProcessIdentity> {
    // Any other child of a host, such as a server that it started, would use up the limits of the host.
    if is_hook(peer.pid) { nearest_host(peer) } else { None }
}

/// Returns true if the process runs `sinew hook` from the file of this program, or from the file that took its path in
/// an upgrade.
fn is_hook(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;

    let file = |path: &Path| std::fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
    let Some(program) = file(Path::new(&format!("/proc/{pid}/exe"))) else { return false };
    let is_own = || file(Path::new("/proc/self/exe")) == Some(program);
    let is_upgrade = || own_path().is_some_and(|path| file(&path) == Some(program));
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    // A bridge is the same program, and forwards the calls of others.
    words.split(|byte| *byte == 0).skip(1).any(|word| word == b"hook") && (is_own() || is_upgrade())
}

/// Path that this program was started from.
fn own_path() -> Option<PathBuf> {
    let link = std::fs::read_link("/proc/self/exe").ok()?;
    // The kernel marks a file that was removed or replaced.
    let path = link.to_str()?;
    Some(path.strip_suffix(" (deleted)").unwrap_or(path).into())
}

fn nearest_host(hook: ProcessIdentity) -> Option<ProcessIdentity> {
    let mut pid = stat_of(hook.pid).filter(|stat| Some(stat.started) == hook.started)?.parent;
    for _ in 0..MAX_ANCESTORS {
        let stat = stat_of(pid).filter(|_| pid > 1 && is_own_process(pid))?;
        if !HOOK_WRAPPERS.contains(&stat.name.as_str()) {
            return Some(ProcessIdentity { pid, started: Some(stat.started) });
        }
        pid = stat.parent;
    }
    None
}

/// Returns true if the process has not ended.
pub(crate) fn is_running(process: ProcessIdentity) -> bool {
    match process.started {
        Some(started) => stat_of(process.pid).is_some_and(|stat| stat.started == started),
        None => nix::sys::signal::kill(nix::unistd::Pid::from_raw(process.pid), None).is_ok(),
    }
}

/// Start time of the peer. A process that has ended has none: its id may belong to another process by now.
#[cfg(target_os = "linux")]
fn start_time_of_peer(stream: &UnixStream, pid: i32) -> Option<u64> {
    use std::os::fd::AsFd;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use nix::sys::socket::{getsockopt, sockopt};

    // Kernels before 6.5 have no such option. There, the id could have been reused since the peer connected.
    let handle = getsockopt(stream, sockopt::PeerPidfd).ok();
    let started = stat_of(pid)?.started;
    let Some(handle) = handle else { return Some(started) };
    // The handle is readable once the process has ended. If it has not ended by now, its id was not reused before.
    let mut watched = [PollFd::new(handle.as_fd(), PollFlags::POLLIN)];
    let is_alive = poll(&mut watched, PollTimeout::ZERO) == Ok(0);
    is_alive.then_some(started)
}

#[cfg(not(target_os = "linux"))]
fn start_time_of_peer(_: &UnixStream, _: i32) -> Option<u64> {
    None
}

/// Fields of `/proc/PID/stat`.
#[derive(Debug, PartialEq, Eq)]
struct PeerStat {
    name: String,
    parent: i32,
    started: u64,
}

fn stat_of(pid: i32) -> Option<PeerStat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/PID/stat`. The process chooses its name, which may contain blanks and parentheses, so the fields are
/// counted from the last parenthesis.
fn parse_stat(text: &str) -> Option<PeerStat> {
    let (start, rest) = text.rsplit_once(')')?;
    let (_, name) = start.split_once('(')?;
    let mut fields = rest.split_ascii_whitespace();
    let parent = fields.nth(1)?.parse().ok()?;
    // Field 22 of the line; `parent` is field 4.
    let started = fields.nth(17)?.parse().ok()?;
    Some(PeerStat { name: name.to_owned(), parent, started })
}

/// Returns true if the process belongs to the user of the daemon, the only user whose connections are accepted.
fn is_own_process(pid: i32) -> bool {
    use std::os::unix::fs::MetadataExt;

    std::fs::metadata(format!("/proc/{pid}"))
        .is_ok_and(|facts| facts.uid() == crate::private_folder::own_uid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_cannot_forge_its_start_time() {
        let line = |name: &str| {
            format!(
                "7 ({name}) S 5 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 20 18446744073709551615"
            )
        };
        for name in ["sh", "a b", "x) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 1 (y", ") R 1", ""] {
            let expect = PeerStat { name: name.to_owned(), parent: 5, started: 987_654 };
            assert_eq!(parse_stat(&line(name)), Some(expect), "{name}");
        }
        for broken in ["", "7 (sh", "7 (sh) S", "7 (sh) S x 1"] {
            assert_eq!(parse_stat(broken), None, "{broken}");
        }
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn peer_is_identified_by_pid_and_start_time() {
        let (one, other) = UnixStream::pair().unwrap();
        let [own, peer] = [&one, &other].map(|stream| peer_credentials(stream).unwrap().process.unwrap());
        let pid = i32::try_from(std::process::id()).unwrap();
        assert_eq!((own, own.pid, own.started), (peer, pid, Some(stat_of(pid).unwrap().started)));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn host_of_a_hook_is_found_behind_shells() {
        let own = stat_of(i32::try_from(std::process::id()).unwrap()).unwrap();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sh -c 'echo $$; read line; :' sh hook; :"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut pid = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut pid)
            .unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let hook = ProcessIdentity { pid, started: Some(stat_of(pid).unwrap().started) };
        let found = nearest_host(hook);
        let other_program = host_of(hook);
        let recycled = nearest_host(ProcessIdentity { started: Some(1), ..hook });
        drop(child.stdin.take());
        child.wait().unwrap();
        let expect =
            ProcessIdentity { pid: i32::try_from(std::process::id()).unwrap(), started: Some(own.started) };
        assert_eq!(found, Some(expect));
        assert_eq!(other_program, None, "it has the words of a hook, and runs another program");
        assert_eq!(recycled, None, "another process with the same id");
        assert!(is_running(expect) && !is_running(hook), "the hook has ended");
        assert!(
            !is_running(ProcessIdentity { started: Some(1), ..expect }),
            "an earlier process with this id"
        );
    }
}
