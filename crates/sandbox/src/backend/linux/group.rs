//! The control group of one run: the kernel counts its memory and its processes as a whole, refuses what is too much, and
//! ends all of them at once. Made by the launcher before its namespaces, whose mounts cannot be written to; entered by who
//! becomes the program before it has an order; removed by the launcher, which ends whoever is left in it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::guard::{self, Guard};
use crate::spec::Limits;
use crate::status::{Problem, Step};

/// What a run's group is called, before the number of its launcher.
const RUN: &str = "sinew-run-";
/// How long a group may take to be empty once everybody in it was killed. Most are by the time it is asked.
const TIME_TO_EMPTY: Duration = Duration::from_secs(2);
const GLANCE: Duration = Duration::from_millis(2);

/// What a group can hold a run to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
}

impl Controller {
    const ALL: [Controller; 2] = [Controller::Memory, Controller::Processes];

    /// As the kernel calls it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Processes => "pids",
        }
    }

    /// Those in a list of the kernel's.
    pub(crate) fn among(list: &str) -> Vec<Controller> {
        let is_there = |one: &Controller| list.split([' ', ',', '\n']).any(|word| word == one.as_str());
        Controller::ALL.into_iter().filter(is_there).collect()
    }
}

/// How a launcher is told where to make a group, and what for.
pub(crate) fn word(controllers: &[Controller], base: &Path) -> OsString {
    let names: Vec<&str> = controllers.iter().map(|one| one.as_str()).collect();
    let mut word = OsString::from(names.join(","));
    word.push(":");
    word.push(base);
    word
}

/// Whose group has this name.
pub(crate) fn launcher_of(name: &OsStr) -> Option<i32> {
    name.to_str()?.strip_prefix(RUN)?.parse().ok().filter(|launcher| *launcher > 0)
}

/// A group that was made.
#[derive(Debug)]
pub(crate) struct Group {
    base: OwnedFd,
    folder: OwnedFd,
    name: String,
    controllers: Vec<Controller>,
}

/// What the kernel says of a run after its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Account {
    /// Whether the kernel ended it for its memory.
    pub(crate) is_out_of_memory: bool,
    /// The most it had, if it did.
    pub(crate) most_memory: u64,
    /// On a processor, of everybody who was ever in it.
    pub(crate) cpu: Duration,
}

impl Group {
    /// Makes one for this launcher, from what it was told.
    pub(crate) fn make(told: &OsStr) -> Result<Group, Problem> {
        let invalid = || failed("word", &io::ErrorKind::InvalidInput.into());
        let (controllers, base) = told.to_str().and_then(|word| word.split_once(':')).ok_or_else(invalid)?;
        let name = format!("{RUN}{}", std::process::id());
        let base = open(CWD, base).map_err(|cause| failed(base, &cause))?;
        let made = match mkdirat(&base, &name, Mode::RWXU) {
            // It was of a launcher that had the same number.
            Err(Errno::EXIST) => {
                remove(&base, &name);
                mkdirat(&base, &name, Mode::RWXU)
            }
            made => made,
        };
        made.map_err(|cause| failed(&name, &cause.into()))?;
        let folder = open(&base, &name).map_err(|cause| failed(&name, &cause))?;
        let group = Group { base, folder, name, controllers: Controller::among(controllers) };
        group.prepare()?;
        Ok(group)
    }

    /// What needs no order: a run ends as a whole, and has no memory elsewhere.
    fn prepare(&self) -> Result<(), Problem> {
        if !self.holds(Controller::Memory) {
            return Ok(());
        }
        self.set("memory.oom.group", "1")?;
        match self.write("memory.swap.max", "0") {
            // A kernel without swap has no bound for it.
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(failed("memory.swap.max", &cause)),
            _ => Ok(()),
        }
    }

    /// Moves this process into it, and everybody it will start.
    pub(crate) fn join(&self) -> Result<(), Problem> {
        self.set("cgroup.procs", "0")
    }

    /// Has the kernel hold the run to its limits.
    pub(crate) fn limit(&self, limits: &Limits) -> Result<(), Problem> {
        if self.holds(Controller::Memory) && guard::stands(Guard::MemoryGroup) {
            self.set("memory.max", &limits.memory_bytes.to_string())?;
        }
        if self.holds(Controller::Processes) && guard::stands(Guard::ProcessGroup) {
            self.set("pids.max", &limits.processes.to_string())?;
        }
        Ok(())
    }

    /// Ends everybody in it at once. A kernel that cannot leaves it to who would otherwise do it.
    pub(crate) fn kill(&self) {
        kill(&self.folder);
    }

    /// What it came to.
    pub(crate) fn account(&self) -> Account {
        let events = self.read("memory.events");
        // The machine may have run out of memory as well, which is no fault of the run's.
        let is_out_of_memory = number(&events, "oom ") > 0 && number(&events, "oom_kill ") > 0;
        let most_memory = if is_out_of_memory { number(&self.read("memory.peak"), "") } else { 0 };
        let cpu = Duration::from_micros(number(&self.read("cpu.stat"), "usage_usec "));
        Account { is_out_of_memory, most_memory, cpu }
    }

    /// Takes it away, with whoever is still in it.
    pub(crate) fn remove(self) {
        remove(&self.base, &self.name);
    }

    fn holds(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    fn set(&self, name: &str, text: &str) -> Result<(), Problem> {
        self.write(name, text).map_err(|cause| failed(name, &cause))
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        write(&self.folder, name, text)
    }

    /// Nothing of what this kernel does not have.
    fn read(&self, name: &str) -> String {
        let mut text = String::new();
        if let Ok(file) = openat(&self.folder, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            let _ = File::from(file).read_to_string(&mut text);
        }
        text
    }
}

/// Removes a group whose launcher is gone. Who is left in it may take a while to end, and whoever starts a launcher does not
/// wait for that: the next one tries again.
pub(crate) fn discard(base: &Path, name: &OsStr) {
    let Ok(base) = open(CWD, base) else { return };
    kill_in(&base, name);
    let _ = unlinkat(&base, name, AtFlags::REMOVEDIR);
}

/// Removes a group with whoever is in it, and waits for their end.
fn remove(base: &OwnedFd, name: &str) {
    let begun = Instant::now();
    while unlinkat(base, name, AtFlags::REMOVEDIR) == Err(Errno::BUSY) {
        if begun.elapsed() > TIME_TO_EMPTY {
            return;
        }
        kill_in(base, name.as_ref());
        std::thread::sleep(GLANCE);
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

/// The number on a line of the kernel's that begins so.
fn number(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn failed(what: &str, cause: &io::Error) -> Problem {
    Problem::new(Step::Limits, format!("control group: {what}"), cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(base: &Path) -> Result<Group, Problem> {
        Group::make(&word(&[Controller::Processes], base))
    }

    fn own() -> String {
        format!("{RUN}{}", std::process::id())
    }

    #[test]
    fn one_of_the_same_name_gives_way_and_one_that_cannot_is_told() {
        let base = tempfile::tempdir().unwrap();
        let old = base.path().join(own());
        std::fs::create_dir(&old).unwrap();
        assert_eq!(make(base.path()).unwrap().name, own());
        std::fs::write(old.join("cgroup.kill"), "").unwrap();
        assert_eq!(make(base.path()).unwrap_err().code, libc::EEXIST);
    }

    /// In a file system where nobody makes folders, and none of that name is.
    #[test]
    fn why_none_can_be_made_is_told() {
        let problem = make(Path::new("/sys")).unwrap_err();
        assert!([libc::EPERM, libc::EACCES, libc::EROFS].contains(&problem.code), "{problem:?}");
    }

    #[test]
    fn who_is_left_in_a_group_to_discard_is_killed_and_an_empty_one_goes() {
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
