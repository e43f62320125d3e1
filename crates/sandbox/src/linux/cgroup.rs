//! Control group of one run: the kernel counts memory and processes of the run as a whole, enforces their
//! limits, and kills all of them at once. The launcher creates it before its namespaces, whose mounts are not
//! writable. The child that becomes the program joins it before it has a run request. The launcher removes
//! it, killing any process left in it.

pub(crate) mod delegation;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::launch::spec::RunLimits;
use crate::launch::status::{SetupFailure, SetupStep};
use crate::layers::{self, SandboxLayer};

/// Name prefix of a run's group, followed by the process id of its launcher.
const RUN_PREFIX: &str = "sinew-run-";
/// Longest time for a group to become empty after all its processes were killed. Most are empty at once.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Cgroup controllers that limit a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupController {
    Memory,
    Processes,
}

impl CgroupController {
    const ALL: [CgroupController; 2] = [CgroupController::Memory, CgroupController::Processes];

    /// Returns the kernel's name of the controller.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            CgroupController::Memory => "memory",
            CgroupController::Processes => "pids",
        }
    }

    /// Returns the known controllers in a list from the kernel.
    pub(crate) fn parse_list(list: &str) -> Vec<CgroupController> {
        let is_there = |one: &CgroupController| list.split([' ', ',', '\n']).any(|word| word == one.as_str());
        CgroupController::ALL.into_iter().filter(is_there).collect()
    }
}

/// Builds the launcher argument: the controllers and the folder in which to create the group.
pub(crate) fn launcher_argument(controllers: &[CgroupController], base: &Path) -> OsString {
    let names: Vec<&str> = controllers.iter().map(|one| one.as_str()).collect();
    let mut word = OsString::from(names.join(","));
    word.push(":");
    word.push(base);
    word
}

/// Returns the process id of the launcher that owns a group of this name.
pub(crate) fn launcher_of(name: &OsStr) -> Option<i32> {
    name.to_str()?.strip_prefix(RUN_PREFIX)?.parse().ok().filter(|launcher| *launcher > 0)
}

/// Control group of a run.
#[derive(Debug)]
pub(crate) struct RunCgroup {
    base: OwnedFd,
    folder: OwnedFd,
    name: String,
    controllers: Vec<CgroupController>,
}

/// Final figures of a run's control group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CgroupUsage {
    /// True if the kernel killed the run because it exceeded its memory limit.
    pub(crate) is_out_of_memory: bool,
    /// Highest memory use, if the run was out of memory.
    pub(crate) peak_memory: u64,
    /// Processor time of all processes that were ever in the group.
    pub(crate) cpu: Duration,
}

impl RunCgroup {
    /// Creates a group for this launcher from its argument.
    pub(crate) fn create(reported: &OsStr) -> Result<RunCgroup, SetupFailure> {
        let invalid = || cgroup_failure("launcher argument", &io::ErrorKind::InvalidInput.into());
        let (controllers, base) =
            reported.to_str().and_then(|word| word.split_once(':')).ok_or_else(invalid)?;
        let name = format!("{RUN_PREFIX}{}", std::process::id());
        let base = open(CWD, base).map_err(|cause| cgroup_failure(base, &cause))?;
        let made = match mkdirat(&base, &name, Mode::RWXU) {
            // The group of an earlier launcher that had the same process id.
            Err(Errno::EXIST) => {
                remove(&base, &name);
                mkdirat(&base, &name, Mode::RWXU)
            }
            made => made,
        };
        made.map_err(|cause| cgroup_failure(&name, &cause.into()))?;
        let folder = open(&base, &name).map_err(|cause| cgroup_failure(&name, &cause))?;
        let group = RunCgroup { base, folder, name, controllers: CgroupController::parse_list(controllers) };
        group.prepare()?;
        Ok(group)
    }

    /// Applies the settings that do not depend on the request: the kernel kills a run as a whole, and a run
    /// has no swap.
    fn prepare(&self) -> Result<(), SetupFailure> {
        if !self.has(CgroupController::Memory) {
            return Ok(());
        }
        self.set("memory.oom.group", "1")?;
        match self.write("memory.swap.max", "0") {
            // A kernel without swap does not have this file.
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                Err(cgroup_failure("memory.swap.max", &cause))
            }
            _ => Ok(()),
        }
    }

    /// Moves this process and all its future children into the group.
    pub(crate) fn join(&self) -> Result<(), SetupFailure> {
        self.set("cgroup.procs", "0")
    }

    /// Sets the run's limits in the kernel.
    pub(crate) fn limit(&self, limits: &RunLimits) -> Result<(), SetupFailure> {
        if self.has(CgroupController::Memory) && layers::is_enabled(SandboxLayer::CgroupMemory) {
            self.set("memory.max", &limits.memory_bytes.to_string())?;
        }
        if self.has(CgroupController::Processes) && layers::is_enabled(SandboxLayer::CgroupProcesses) {
            self.set("pids.max", &limits.processes.to_string())?;
        }
        Ok(())
    }

    /// Kills all processes in the group at once. A kernel without `cgroup.kill` leaves that to the other
    /// mechanisms.
    pub(crate) fn kill(&self) {
        kill(&self.folder);
    }

    /// Reads the final figures.
    pub(crate) fn usage(&self) -> CgroupUsage {
        let events = self.read("memory.events");
        // `oom_kill` alone can also be caused by the whole machine running out of memory, which is not the
        // run's fault.
        let is_out_of_memory = number(&events, "oom ") > 0 && number(&events, "oom_kill ") > 0;
        let most_memory = if is_out_of_memory { number(&self.read("memory.peak"), "") } else { 0 };
        let cpu = Duration::from_micros(number(&self.read("cpu.stat"), "usage_usec "));
        CgroupUsage { is_out_of_memory, peak_memory: most_memory, cpu }
    }

    /// Removes the group and kills the processes still in it.
    pub(crate) fn remove(self) {
        remove(&self.base, &self.name);
    }

    fn has(&self, controller: CgroupController) -> bool {
        self.controllers.contains(&controller)
    }

    fn set(&self, name: &str, text: &str) -> Result<(), SetupFailure> {
        self.write(name, text).map_err(|cause| cgroup_failure(name, &cause))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write(&self.folder, name, text)
    }

    /// Reads a file of the group; returns an empty text if this kernel does not have it.
    fn read(&self, name: &str) -> String {
        let mut text = String::new();
        if let Ok(file) = openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = File::from(file).read_to_string(&mut text);
        }
        text
    }
}

/// Removes a group whose launcher has ended. Processes left in it may take a while to end, and the start of a
/// new launcher does not wait for that: the next start tries again.
pub(crate) fn discard(base: &Path, name: &OsStr) {
    let Ok(base) = open(CWD, base) else { return };
    kill_in(&base, name);
    let _ = unlinkat(&base, name, AtFlags::REMOVEDIR);
}

/// Kills the processes in a group, waits for their end and removes the group.
fn remove(base: &OwnedFd, name: &str) {
    let begun = Instant::now();
    while unlinkat(base, name, AtFlags::REMOVEDIR) == Err(Errno::BUSY) {
        if begun.elapsed() > EMPTY_TIMEOUT {
            return;
        }
        kill_in(base, name.as_ref());
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn kill_in(base: &OwnedFd, name: &OsStr) {
    if let Ok(folder) = open(base, name) {
        kill(&folder);
    }
}

fn kill(folder: &OwnedFd) {
    let _ = write(folder, "cgroup.kill", "1");
}

fn write(folder: &OwnedFd, name: &str, text: &str) -> io::Result<()> {
    let file = openat(folder, name, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    File::from(file).write_all(text.as_bytes())
}

fn open(base: impl std::os::fd::AsFd, path: impl rustix::path::Arg) -> io::Result<OwnedFd> {
    Ok(openat(base, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the number on the line that starts with this name.
fn number(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn cgroup_failure(what: &str, cause: &io::Error) -> SetupFailure {
    SetupFailure::new(SetupStep::Limits, format!("control group: {what}"), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(base: &Path) -> Result<RunCgroup, SetupFailure> {
        RunCgroup::create(&launcher_argument(&[CgroupController::Processes], base))
    }

    fn own() -> String {
        format!("{RUN_PREFIX}{}", std::process::id())
    }

    #[test]
    fn stale_group_is_replaced_and_a_busy_one_is_an_error() {
        let base = tempfile::tempdir().unwrap();
        let old = base.path().join(own());
        std::fs::create_dir(&old).unwrap();
        assert_eq!(make(base.path()).unwrap().name, own());
        std::fs::write(old.join("cgroup.kill"), "").unwrap();
        assert_eq!(make(base.path()).unwrap_err().code, libc::EEXIST);
    }

    /// Uses a file system that does not allow new folders and has no folder of that name.
    #[test]
    fn failure_to_create_a_group_is_reported() {
        let problem = make(Path::new("/sys")).unwrap_err();
        assert!([libc::EPERM, libc::EACCES, libc::EROFS].contains(&problem.code), "{problem:?}");
    }

    #[test]
    fn discard_kills_remaining_processes_and_removes_empty_groups() {
        let base = tempfile::tempdir().unwrap();
        let (left, empty) = (base.path().join("left"), base.path().join("empty"));
        [&left, &empty].into_iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
        std::fs::write(left.join("cgroup.kill"), "").unwrap();
        for folder in [&left, &empty] {
            discard(base.path(), folder.file_name().unwrap());
        }
        assert_eq!(std::fs::read_to_string(left.join("cgroup.kill")).unwrap(), "1");
        assert!(!empty.exists());
    }
}
