//! Finds processes of a run that share one address space: a child shares its parent's from `vfork` until it
//! executes a program. If such memory were counted for both, a program that uses half of its limit would be
//! ended for starting another one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::process::getpid;

use crate::linux::raw_syscalls;

/// The machine's `/proc`. There the processes of a run have the ids by which the kernel compares them.
#[derive(Debug)]
pub(crate) struct AddressSpaces {
    proc: OwnedFd,
}

impl AddressSpaces {
    /// Opens `/proc` before the mounts cover it.
    pub(crate) fn open() -> io::Result<AddressSpaces> {
        Ok(AddressSpaces { proc: OwnedFd::from(File::open("/proc")?) })
    }

    /// Returns the processes below this one that share the memory of another one, as process ids inside the
    /// namespace. A process is listed only if the kernel confirmed the comparison.
    pub(crate) fn duplicates(&self) -> HashSet<i32> {
        let mut duplicates = HashSet::new();
        // Sorted by the kernel's order of address spaces, so that a binary search replaces comparing all
        // pairs.
        let mut distinct: Vec<i32> = Vec::new();
        let descendants = self.descendants(getpid().as_raw_nonzero().get());
        // The init process is not dumpable, so comparing it fails. It has no memory that counts.
        for process in descendants
            .into_iter()
            .filter(|process| raw_syscalls::compare_address_spaces(*process, *process).is_ok())
        {
            let mut failed = false;
            let found = distinct.binary_search_by(|other| {
                raw_syscalls::compare_address_spaces(*other, process).unwrap_or_else(|_| {
                    failed = true;
                    std::cmp::Ordering::Less
                })
            });
            match found {
                _ if failed => {}
                Ok(_) => duplicates.extend(self.id_in_namespace(process)),
                Err(index) => distinct.insert(index, process),
            }
        }
        duplicates
    }

    /// Returns all descendants of a process.
    fn descendants(&self, process: i32) -> Vec<i32> {
        let mut found = self.children(process);
        let mut at = 0;
        while let Some(process) = found.get(at).copied() {
            found.extend(self.children(process));
            at += 1;
        }
        found
    }

    fn children(&self, process: i32) -> Vec<i32> {
        let tasks = self.open_at(&format!("{process}/task")).and_then(|tasks| Dir::read_from(tasks).ok());
        let tasks = tasks.into_iter().flatten().flatten();
        let tasks = tasks.filter_map(|task| task.file_name().to_str().ok()?.parse::<i32>().ok());
        let lists = tasks.map(|task| self.text(&format!("{process}/task/{task}/children")));
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
            .collect()
    }

    /// Returns the process id in the innermost PID namespace.
    fn id_in_namespace(&self, process: i32) -> Option<i32> {
        let text = self.text(&format!("{process}/status"));
        text.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
    }

    /// Reads a file below `/proc`; returns an empty text if the process has ended.
    fn text(&self, name: &str) -> String {
        let mut text = String::new();
        if let Some(opened) = self.open_at(name) {
            let _ = File::from(opened).read_to_string(&mut text);
        }
        text
    }

    fn open_at(&self, name: &str) -> Option<OwnedFd> {
        openat(&self.proc, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}
