//! How much memory a run uses, all of its processes together.

use std::path::PathBuf;

use super::reduced;
use crate::guard::{self, Guard};

/// The processes of a run in namespaces of its own: all that its list has. Where the list is the machine's, which this
/// process is on too, they are those below it.
pub(crate) fn processes_here() -> Vec<i32> {
    if std::fs::read_link("/proc/self").is_ok() {
        return reduced::descendants();
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// Memory that is no file's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Its own, and those that say where they are.
    pub(crate) own: u64,
    /// Those of files in memory, which others may have as well. A run's are those of its scratch space.
    pub(crate) shared: u64,
}

impl Pages {
    /// With what the scratch space holds, whoever has it mapped.
    pub(crate) fn beside(self, scratch: u64) -> u64 {
        self.own.saturating_add(self.shared.max(scratch))
    }
}

impl std::ops::AddAssign for Pages {
    fn add_assign(&mut self, other: Pages) {
        self.own += other.own;
        self.shared += other.shared;
    }
}

/// What is resident of a process. Pages that a fork left shared count for each who has them.
pub(crate) fn quick(process: i32) -> Pages {
    let status = |folder: PathBuf| std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    let mut text = status(folder_of(process));
    // One that is dead has none, unless it is only its first thread that is.
    if kilobytes(&text, "RssAnon:").is_none() && !text.contains("\nThreads:\t1\n") {
        text = alive(process).map(status).unwrap_or_default();
    }
    let bytes = |name| kilobytes(&text, name).unwrap_or(0);
    Pages { own: bytes("RssAnon:") + tables(&text), shared: bytes("RssShmem:") }
}

/// Its share of what is resident; nothing where the kernel does not say.
pub(crate) fn share(process: i32) -> Option<Pages> {
    let folder = alive(process)?;
    let text = std::fs::read_to_string(folder.join("smaps_rollup")).ok()?;
    let tables = tables(&std::fs::read_to_string(folder.join("status")).ok()?);
    Some(Pages { own: kilobytes(&text, "Pss_Anon:")? + tables, shared: kilobytes(&text, "Pss_Shmem:")? })
}

/// Pages can be had without end by reading what was never written; the tables for them cannot.
fn tables(status: &str) -> u64 {
    guard::held(Guard::PageTables, kilobytes(status, "VmPTE:").unwrap_or(0))
}

fn folder_of(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

/// Where the kernel tells of a process that has memory: a thread of it, where the first has ended before the others.
pub(crate) fn alive(process: i32) -> Option<PathBuf> {
    let has_memory = |folder: &PathBuf| {
        let text = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
        text.split(' ').next().is_some_and(|pages| !matches!(pages, "" | "0"))
    };
    let folder = folder_of(process);
    if has_memory(&folder) || !guard::stands(Guard::EveryThread) {
        return Some(folder);
    }
    let threads = std::fs::read_dir(folder.join("task")).ok()?.flatten().map(|entry| entry.path());
    threads.into_iter().find(has_memory)
}

/// The bytes on a line that names them.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// The scratch space of a run, which is memory too.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Which file systems had these names before the run got its own.
    before: [Option<u64>; 2],
}

impl Scratch {
    const NAMES: [&str; 2] = ["/tmp", "/dev/shm"];

    /// Asked before a run can have one.
    pub(crate) fn before() -> Scratch {
        Scratch { before: Scratch::NAMES.map(device) }
    }

    /// What it holds. As long as a name still leads to the machine's own, nothing.
    pub(crate) fn used(&self) -> u64 {
        let names = Scratch::NAMES.into_iter().zip(self.before);
        names.filter(|(name, before)| device(name) != *before).filter_map(|(name, _)| held(name)).sum()
    }
}

fn device(path: &str) -> Option<u64> {
    rustix::fs::stat(path).ok().map(|facts| facts.st_dev)
}

fn held(path: &str) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize)
}
