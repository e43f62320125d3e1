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
pub(crate) const NAME: &str = "sinew-probe";
/// Result code of an attempt that succeeded.
const WORKED: i32 = 0;

/// Action that must not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Push {
    Read,
    Write,
    Chmod,
    Signal,
    Connect,
    Trace,
    Fork,
}

impl Push {
    pub(crate) const ALL: [Push; 7] =
        [Push::Read, Push::Write, Push::Chmod, Push::Signal, Push::Connect, Push::Trace, Push::Fork];

    /// Describes the action.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Push::Read => "read a file it was not granted",
            Push::Write => "write a file outside the sandbox",
            Push::Chmod => "change the mode of a file outside the sandbox",
            Push::Signal => "signal another process",
            Push::Connect => "connect to the network",
            Push::Trace => "trace a process",
            Push::Fork => "start more processes than it was granted",
        }
    }

    /// Returns what the operator can do if the action was not blocked.
    pub(crate) fn remedy(self) -> &'static str {
        match self {
            Push::Read | Push::Write => {
                "the kernel must enforce Landlock: `landlock` in /sys/kernel/security/lsm"
            }
            Push::Chmod | Push::Signal => "user namespaces must be allowed: see `missing`",
            Push::Connect | Push::Trace => "the kernel must filter system calls: CONFIG_SECCOMP_FILTER",
            Push::Fork => "process limits must apply to this user, and root has none: run Sinew as yourself",
        }
    }
}

/// Targets of the attempts.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    pub(crate) file: PathBuf,
    pub(crate) process: u32,
    pub(crate) address: SocketAddr,
    pub(crate) processes: u64,
}

impl Targets {
    pub(crate) fn words(&self) -> Vec<String> {
        let (file, address) = (self.file.display().to_string(), self.address.to_string());
        vec![NAME.to_owned(), file, self.process.to_string(), address, self.processes.to_string()]
    }

    fn read(mut words: impl Iterator<Item = String>) -> Option<Targets> {
        Some(Targets {
            file: words.next()?.into(),
            process: words.next()?.parse().ok()?,
            address: words.next()?.parse().ok()?,
            processes: words.next()?.parse().ok()?,
        })
    }
}

/// Runs inside the sandbox: makes all attempts and prints the `errno` of each, 0 for success.
pub(crate) fn run(words: impl Iterator<Item = String>) -> ExitCode {
    let Some(targets) = Targets::read(words) else { return ExitCode::FAILURE };
    let mut said = String::new();
    for push in Push::ALL {
        if push == Push::Fork && targets.processes == 0 {
            continue;
        }
        let answer =
            attempt(push, &targets).map_or_else(|error| error.raw_os_error().unwrap_or(-1), |()| WORKED);
        let _ = writeln!(said, "{push:?} {answer}");
    }
    match io::Write::write_all(&mut io::stdout(), said.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Parses the output outside the sandbox; returns the result of one attempt, if there is one.
pub(crate) fn answer(said: &str, push: Push) -> Option<i32> {
    let name = format!("{push:?} ");
    said.lines().find_map(|line| line.strip_prefix(&name)).and_then(|answer| answer.parse().ok())
}

fn attempt(push: Push, targets: &Targets) -> io::Result<()> {
    match push {
        Push::Read => std::fs::read(&targets.file).map(drop),
        Push::Write => OpenOptions::new().append(true).open(&targets.file).map(drop),
        Push::Chmod => chmod(&targets.file),
        Push::Signal => {
            let process = Pid::from_raw(i32::try_from(targets.process).unwrap_or(i32::MAX));
            Ok(kill(process, None)?)
        }
        Push::Connect => TcpStream::connect_timeout(&targets.address, Duration::from_secs(2)).map(drop),
        Push::Trace => backend::ask_to_be_traced(),
        Push::Fork => fork_past(targets.processes),
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
        let targets = Targets { file: file.clone(), process: std::process::id(), address, processes: 2 };
        let again = Targets::read(targets.words().into_iter().skip(1)).unwrap();
        assert_eq!(again.words(), targets.words());
        for push in Push::ALL.into_iter().filter(|push| *push != Push::Trace) {
            attempt(push, &targets).unwrap_or_else(|error| panic!("{push:?}: {error}"));
        }
        std::fs::remove_file(&file).unwrap();
        assert_eq!(answer("Read 13\nWrite 0\n", Push::Write), Some(WORKED));
        assert_eq!(answer("Read 13\n", Push::Fork), None);
    }
}
