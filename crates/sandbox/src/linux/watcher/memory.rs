//! Memory use of a run, summed over all of its processes.

use std::path::PathBuf;

use crate::layers::{self, SandboxLayer};
use crate::linux::watcher::descendants;

/// Returns the processes of a run in its own namespaces: all that `/proc` lists. If `/proc` is the machine's,
/// which lists this process too, returns the descendants of this process instead.
pub(crate) fn namespace_processes() -> Vec<i32> {
    if std::fs::read_link("/proc/self").is_ok() {
        return descendants::descendants(|_| false).processes;
    }
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).collect()
}

/// Memory that belongs to no file on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MemoryPages {
    /// Private pages, and the page tables.
    pub(crate) own: u64,
    /// Pages of files in memory, which other processes may map as well. In a run these are files of its
    /// scratch space.
    pub(crate) shared: u64,
}

impl MemoryPages {
    /// Returns the total together with the scratch space, whose mapped pages count only once.
    pub(crate) fn with_scratch(self, scratch: u64) -> u64 {
        self.own.saturating_add(self.shared.max(scratch))
    }
}

impl std::ops::AddAssign for MemoryPages {
    fn add_assign(&mut self, other: MemoryPages) {
        self.own += other.own;
        self.shared += other.shared;
    }
}

/// Returns the resident memory of a process. Pages that a fork left shared count in full for each process.
pub(crate) fn resident(process: i32) -> MemoryPages {
    let status = |folder: PathBuf| std::fs::read_to_string(folder.join("status")).unwrap_or_default();
    let mut text = status(folder_of(process));
    // A dead process has no such line, unless only its first thread has ended.
    if line_bytes(&text, "RssAnon:").is_none() && !text.contains("\nThreads:\t1\n") {
        text = live_folder(process).map(status).unwrap_or_default();
    }
    let bytes = |name| line_bytes(&text, name).unwrap_or(0);
    MemoryPages { own: bytes("RssAnon:") + page_tables(&text), shared: bytes("RssShmem:") }
}

/// Returns the proportional share of resident memory; `None` if the kernel does not report it.
pub(crate) fn proportional(process: i32) -> Option<MemoryPages> {
    let folder = live_folder(process)?;
    let text = std::fs::read_to_string(folder.join("smaps_rollup")).ok()?;
    let tables = page_tables(&std::fs::read_to_string(folder.join("status")).ok()?);
    Some(MemoryPages {
        own: line_bytes(&text, "Pss_Anon:")? + tables,
        shared: line_bytes(&text, "Pss_Shmem:")?,
    })
}

/// Returns the size of the page tables. Reading memory that was never written maps the zero page at no cost,
/// but the page tables for it do use memory.
fn page_tables(status: &str) -> u64 {
    layers::if_enabled(SandboxLayer::PageTableCount, line_bytes(status, "VmPTE:").unwrap_or(0))
}

fn folder_of(process: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{process}"))
}

/// Returns the `/proc` folder of a process that has memory: that of another thread if the first one has ended
/// before it.
pub(crate) fn live_folder(process: i32) -> Option<PathBuf> {
    let has_memory = |folder: &PathBuf| {
        let text = std::fs::read_to_string(folder.join("statm")).unwrap_or_default();
        text.split(' ').next().is_some_and(|pages| !matches!(pages, "" | "0"))
    };
    let folder = folder_of(process);
    if has_memory(&folder) || !layers::is_enabled(SandboxLayer::ThreadLiveness) {
        return Some(folder);
    }
    let threads = std::fs::read_dir(folder.join("task")).ok()?.flatten().map(|entry| entry.path());
    threads.into_iter().find(has_memory)
}

/// Returns the value of a named line, converted to bytes.
fn line_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Memory use of the scratch space of a run.
#[derive(Debug)]
pub(crate) struct ScratchUsage {
    /// Devices at these paths before the run mounted its own.
    devices_before: [Option<u64>; 2],
}

impl ScratchUsage {
    const NAMES: [&str; 2] = ["/tmp", "/dev/shm"];

    /// Records the devices before a run can have its own scratch space.
    pub(crate) fn capture() -> ScratchUsage {
        ScratchUsage { devices_before: ScratchUsage::NAMES.map(device) }
    }

    /// Returns the bytes in use; 0 while a path still leads to the machine's file system.
    pub(crate) fn used(&self) -> u64 {
        let names = ScratchUsage::NAMES.into_iter().zip(self.devices_before);
        names.filter(|(name, before)| device(name) != *before).filter_map(|(name, _)| used_bytes(name)).sum()
    }
}

fn device(path: &str) -> Option<u64> {
    rustix::fs::stat(path).ok().map(|facts| facts.st_dev)
}

fn used_bytes(path: &str) -> Option<u64> {
    let space = rustix::fs::statvfs(path).ok()?;
    Some(space.f_blocks.saturating_sub(space.f_bfree) * space.f_frsize)
}
