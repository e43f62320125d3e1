//! Probe: this program in the sandbox, where it attempts what no confined program may do and reports each
//! result. The attempts are harmless even if a layer is missing.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::backend;

/// Name under which the probe is started.
pub(crate) const PROBE_NAME: &str = "sinew-probe";
/// Result code of an attempt that succeeded.
const SUCCEEDED: i32 = 0;

/// Action that must not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeAttempt {
    Read,
    Write,
    Stat,
    Chmod,
    Signal,
    Connect,
    Trace,
    Fork,
}

impl ProbeAttempt {
    pub(crate) const ALL: [ProbeAttempt; 8] = [
        ProbeAttempt::Read,
        ProbeAttempt::Write,
        ProbeAttempt::Stat,
        ProbeAttempt::Chmod,
        ProbeAttempt::Signal,
        ProbeAttempt::Connect,
        ProbeAttempt::Trace,
        ProbeAttempt::Fork,
    ];

    /// Describes the action.
    pub(crate) fn description(self) -> &'static str {
        match self {
            ProbeAttempt::Read => "read a file it was not granted",
            ProbeAttempt::Write => "write a file outside the sandbox",
            ProbeAttempt::Stat => "see that a file outside the sandbox exists",
            ProbeAttempt::Chmod => "change the mode of a file outside the sandbox",
            ProbeAttempt::Signal => "signal another process",
            ProbeAttempt::Connect => "connect to the network",
            ProbeAttempt::Trace => "trace a process",
            ProbeAttempt::Fork => "start more processes than it was granted",
        }
    }

    /// Returns what the operator can do if the action was not blocked.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            ProbeAttempt::Read | ProbeAttempt::Write => {
                "the kernel must enforce Landlock: `landlock` in /sys/kernel/security/lsm"
            }
            ProbeAttempt::Stat | ProbeAttempt::Chmod | ProbeAttempt::Signal => {
                "user namespaces must be allowed: see `missing`"
            }
            ProbeAttempt::Connect | ProbeAttempt::Trace => {
                "the kernel must filter system calls: CONFIG_SECCOMP_FILTER"
            }
            ProbeAttempt::Fork => {
                "process limits must apply to this user, and root has none: run Sinew as yourself"
            }
        }
    }
}

/// Targets of the attempts.
#[derive(Clone, Debug)]
pub(crate) struct ProbeTargets {
    pub(crate) file: PathBuf,
    pub(crate) process: u32,
    pub(crate) address: SocketAddr,
    pub(crate) processes: u64,
}

impl ProbeTargets {
    pub(crate) fn arguments(&self) -> Vec<String> {
        let (file, address) = (self.file.display().to_string(), self.address.to_string());
        vec![PROBE_NAME.to_owned(), file, self.process.to_string(), address, self.processes.to_string()]
    }

    fn parse(mut arguments: impl Iterator<Item = String>) -> Option<ProbeTargets> {
        Some(ProbeTargets {
            file: arguments.next()?.into(),
            process: arguments.next()?.parse().ok()?,
            address: arguments.next()?.parse().ok()?,
            processes: arguments.next()?.parse().ok()?,
        })
    }
}

/// Runs inside the sandbox: makes all attempts and prints the `errno` of each, 0 for success.
pub(crate) fn run(arguments: impl Iterator<Item = String>) -> ExitCode {
    let Some(targets) = ProbeTargets::parse(arguments) else { return ExitCode::FAILURE };
    let mut text = String::new();
    for push in ProbeAttempt::ALL {
        if push == ProbeAttempt::Fork && targets.processes == 0 {
            continue;
        }
        let errno =
            attempt(push, &targets).map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| SUCCEEDED);
        let _ = writeln!(text, "{push:?} {errno}");
    }
    match io::Write::write_all(&mut io::stdout(), text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Parses the output outside the sandbox; returns the result of one attempt, if there is one.
pub(crate) fn result_of(text: &str, push: ProbeAttempt) -> Option<i32> {
    let name = format!("{push:?} ");
    text.lines().find_map(|line| line.strip_prefix(&name)).and_then(|errno| errno.parse().ok())
}

fn attempt(push: ProbeAttempt, targets: &ProbeTargets) -> io::Result<()> {
    match push {
        ProbeAttempt::Read => std::fs::read(&targets.file).map(drop),
        ProbeAttempt::Write => OpenOptions::new().append(true).open(&targets.file).map(drop),
        ProbeAttempt::Stat => std::fs::symlink_metadata(&targets.file).map(drop),
        ProbeAttempt::Chmod => chmod(&targets.file),
        ProbeAttempt::Signal => {
            let process = Pid::from_raw(i32::try_from(targets.process).unwrap_or(i32::MAX));
            Ok(kill(process, None)?)
        }
        ProbeAttempt::Connect => {
            TcpStream::connect_timeout(&targets.address, Duration::from_secs(2)).map(drop)
        }
        ProbeAttempt::Trace => backend::request_trace(),
        ProbeAttempt::Fork => fork_past(targets.processes),
    }
}

/// Sets the mode that the file already has.
fn chmod(file: &Path) -> io::Result<()> {
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600))
}

/// Starts threads, which count as processes and end with this one.
fn fork_past(limit: u64) -> io::Result<()> {
    for _ in 0..limit + 1 {
        std::thread::Builder::new().stack_size(64 * 1024).spawn(std::thread::park)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_succeed_outside_the_sandbox() {
        let file = std::env::temp_dir().join(format!("sinew-probe-{}", std::process::id()));
        std::fs::write(&file, "").unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let targets = ProbeTargets { file: file.clone(), process: std::process::id(), address, processes: 2 };
        let again = ProbeTargets::parse(targets.arguments().into_iter().skip(1)).unwrap();
        assert_eq!(again.arguments(), targets.arguments());
        for push in ProbeAttempt::ALL.into_iter().filter(|push| *push != ProbeAttempt::Trace) {
            attempt(push, &targets).unwrap_or_else(|error| panic!("{push:?}: {error}"));
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(result_of("Read 13\nWrite 0\n", ProbeAttempt::Write), Some(SUCCEEDED));
        assert_eq!(result_of("Read 13\n", ProbeAttempt::Fork), None);
    }
}
