//! Memory use of a run, summed over all of its processes.

use std::path::PathBuf;

use crate::layers::{self, Guard};
use crate::linux::watch::descendants;

/// Returns the processes of a run in its own namespaces: all that `/proc` lists. If `/proc` is the machine's,
/// which lists this process too, returns the descendants of this process instead.
pub(crate) fn processes_here() -> Vec<i32> {
    if std::fs::read_link("/proc/self").is_ok() {
        return descendants::descendants(|_| false).processes;
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// Memory that belongs to no file on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Private pages, and the page tables.
    pub(crate) own: u64,
    /// Pages of files in memory, which other processes may map as well. In a run these are files of its
    /// scratch space.
    pub(crate) shared: u64,
}

impl Pages {
    /// Returns the total together with the scratch space, whose mapped pages count only once.
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

/// Returns the resident memory of a process. Pages that a fork left shared count in full for each process.
pub(crate) fn quick(process: i32) -> Pages {
    let status = |folder: PathBuf| std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    let mut text = status(folder_of(process));
    // A dead process has no such line, unless only its first thread has ended.
    if kilobytes(&text, "RssAnon:").is_none() && !text.contains("\nThreads:\t1\n") {
        text = alive(process).map(status).unwrap_or_default();
    }
    let bytes = |name| kilobytes(&text, name).unwrap_or(0);
    Pages { own: bytes("RssAnon:") + tables(&text), shared: bytes("RssShmem:") }
}

/// Returns the proportional share of resident memory; `None` if the kernel does not report it.
pub(crate) fn share(process: i32) -> Option<Pages> {
    let folder = alive(process)?;
    let text = std::fs::read_to_string(folder.join("smaps_rollup")).ok()?;
    let tables = tables(&std::fs::read_to_string(folder.join("status")).ok()?);
    Some(Pages { own: kilobytes(&text, "Pss_Anon:")? + tables, shared: kilobytes(&text, "Pss_Shmem:")? })
}

/// Returns the size of the page tables. Reading memory that was never written maps the zero page at no cost,
/// but the page tables for it do use memory.
fn tables(status: &str) -> u64 {
    layers::held(Guard::PageTables, kilobytes(status, "VmPTE:").unwrap_or(0))
}

fn folder_of(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

/// Returns the `/proc` folder of a process that has memory: that of another thread if the first one has ended
/// before it.
pub(crate) fn alive(process: i32) -> Option<PathBuf> {
    let has_memory = |folder: &PathBuf| {
        let text = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
        text.split(' ').next().is_some_and(|pages| !matches!(pages, "" | "0"))
    };
    let folder = folder_of(process);
    if has_memory(&folder) || !layers::stands(Guard::EveryThread) {
        return Some(folder);
    }
    let threads = std::fs::read_dir(folder.join("task")).ok()?.flatten().map(|entry| entry.path());
    threads.into_iter().find(has_memory)
}

/// Returns the value of a named line, converted to bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Memory use of the scratch space of a run.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Devices at these paths before the run mounted its own.
    before: [Option<u64>; 2],
}

impl Scratch {
    const NAMES: [&str; 2] = ["/tmp", "/dev/shm"];

    /// Records the devices before a run can have its own scratch space.
    pub(crate) fn before() -> Scratch {
        Scratch { before: Scratch::NAMES.map(device) }
    }

    /// Returns the bytes in use; 0 while a path still leads to the machine's file system.
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
