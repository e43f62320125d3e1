//! Which processes of a run have the same memory: a child has its parent's from `vfork` until it has a program of its own.
//! Counted for each, a program of half its limit would be ended for starting another.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, openat};
use rustix::process::getpid;

use super::raw;

/// The machine's list of processes: there those of a run have the numbers by which the kernel compares them.
#[derive(Debug)]
pub(crate) struct Spaces {
    list: OwnedFd,
}

impl Spaces {
    /// Asked before the mounts, which show another list.
    pub(crate) fn open() -> io::Result<Spaces> {
        Ok(Spaces { list: OwnedFd::from(File::open("/proc")?) })
    }

    /// Those below this process that have the memory of another one, by their numbers in their own list. Nobody is among
    /// them of whom the kernel does not say so.
    pub(crate) fn doubles(&self) -> HashSet<i32> {
        let mut doubles = HashSet::new();
        // In the kernel's order, so that not everybody is compared with everybody.
        let mut apart: Vec<i32> = Vec::new();
        let below = self.below(getpid().as_raw_nonzero().get());
        // The first process of the namespaces lets nobody look into it, and has nothing that counts.
        for process in below.into_iter().filter(|process| raw::compare_memory(*process, *process).is_ok()) {
            let mut failed = false;
            let found = apart.binary_search_by(|other| {
                raw::compare_memory(*other, process).unwrap_or_else(|_| {
                    failed = true;
                    std::cmp::Ordering::Less
                })
            });
            match found {
                _ if failed => {}
                Ok(_) => doubles.extend(self.number_inside(process)),
                Err(place) => apart.insert(place, process),
            }
        }
        doubles
    }

    /// Everybody below a process.
    fn below(&self, process: i32) -> Vec<i32> {
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

    /// The number that a process has in the innermost namespace it is in.
    fn number_inside(&self, process: i32) -> Option<i32> {
        let text = self.text(&format!("{process}/status"));
        text.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_whitespace().last()?.parse().ok()
    }

    /// Nothing of what has gone meanwhile.
    fn text(&self, name: &str) -> String {
        let mut text = String::new();
        if let Some(opened) = self.open_at(name) {
            let _ = File::from(opened).read_to_string(&mut text);
        }
        text
    }

    fn open_at(&self, name: &str) -> Option<OwnedFd> {
        openat(&self.list, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()
    }
}
