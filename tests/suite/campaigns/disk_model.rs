//! Model of a disk under power failures: contents and names, each with what is durable and what is not yet.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tests::Random;

use super::strace_log::Event;

/// Bytes that a disk writes at once.
const SECTOR: u64 = 512;

/// File with its durable content and the later changes, each with the number of its event.
#[derive(Clone, Debug, Default)]
struct Inode {
    durable: Vec<u8>,
    pending: Vec<(usize, Change)>,
    /// Length with all changes.
    length: u64,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    Resize(u64),
}

impl Change {
    fn apply(&self, content: &mut Vec<u8>) {
        match self {
            Change::Write(offset, data) => {
                let (start, end) = (to_size(*offset), to_size(*offset) + data.len());
                if content.len() < end {
                    content.resize(end, 0);
                }
                content[start..end].copy_from_slice(data);
            }
            Change::Resize(length) => content.resize(to_size(*length), 0),
        }
    }
}

pub(super) fn to_size(number: u64) -> usize {
    usize::try_from(number).expect("a small file")
}

/// Entry of a folder: a file, or a folder.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Entry {
    File(usize),
    Folder,
}

/// Change of names that is not durable yet.
#[derive(Clone, Debug)]
struct NameChange {
    at: usize,
    folders: Vec<PathBuf>,
    put: Vec<(PathBuf, Entry)>,
    removed: Vec<PathBuf>,
}

/// Disk as the daemon wrote it: what is durable, and what is not yet.
#[derive(Clone, Default)]
pub(super) struct Disk {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, Entry>,
    durable_names: BTreeMap<PathBuf, Entry>,
    pending: Vec<NameChange>,
    offsets: BTreeMap<u64, u64>,
    roots: Vec<PathBuf>,
    now: usize,
}

impl Disk {
    /// Reads the files below the roots, all of them durable.
    pub(super) fn read(roots: &[PathBuf]) -> Disk {
        let mut disk = Disk { roots: roots.to_vec(), ..Disk::default() };
        let mut folders = roots.to_vec();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
                let path = entry.path();
                let entry = if path.is_dir() {
                    folders.push(path.clone());
                    Entry::Folder
                } else {
                    let durable = std::fs::read(&path).expect("a file");
                    let length = durable.len() as u64;
                    disk.inodes.push(Inode { durable, length, pending: Vec::new() });
                    Entry::File(disk.inodes.len() - 1)
                };
                disk.names.insert(path, entry);
            }
        }
        disk.durable_names = disk.names.clone();
        disk
    }

    fn covers(&self, path: &Path) -> bool {
        // The index is derived from the segments; it is dropped at each cut, and the next start builds it.
        let is_index =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("index.sqlite"));
        !is_index && self.roots.iter().any(|root| path.starts_with(root))
    }

    fn inode(&self, path: &Path) -> Option<usize> {
        match self.names.get(path)? {
            Entry::File(inode) => Some(*inode),
            Entry::Folder => None,
        }
    }

    fn change_names(&mut self, put: Vec<(PathBuf, Entry)>, removed: Vec<PathBuf>) {
        removed.iter().for_each(|path| {
            self.names.remove(path);
        });
        self.names.extend(put.iter().cloned());
        let touched = put.iter().map(|(path, _)| path).chain(&removed);
        let folders = touched.filter_map(|path| path.parent().map(Path::to_owned)).collect();
        self.pending.push(NameChange { at: self.now, folders, put, removed });
    }

    fn create(&mut self, path: &Path) -> usize {
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.change_names(vec![(path.to_owned(), Entry::File(inode))], Vec::new());
        inode
    }

    fn change(&mut self, path: &Path, change: Change) {
        let Some(inode) = self.inode(path) else { return };
        let now = self.now;
        let inode = &mut self.inodes[inode];
        inode.length = match &change {
            Change::Write(offset, data) => inode.length.max(offset + data.len() as u64),
            Change::Resize(length) => *length,
        };
        inode.pending.push((now, change));
    }

    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Open { path, descriptor, create, truncate, append } if self.covers(path) => {
                if *create && !self.names.contains_key(path) {
                    self.create(path);
                }
                if *truncate {
                    self.change(path, Change::Resize(0));
                }
                let length = self.inode(path).map_or(0, |inode| self.inodes[inode].length);
                self.offsets.insert(*descriptor, if *append { length } else { 0 });
            }
            Event::Write { path, descriptor, offset, data } if self.covers(path) => {
                let end = self.inode(path).map_or(0, |inode| self.inodes[inode].length);
                // A descriptor from before the trace belongs to a file that is only appended to.
                let position = self.offsets.get(descriptor).copied().unwrap_or(end);
                let at = offset.unwrap_or(position);
                if offset.is_none() {
                    self.offsets.insert(*descriptor, at + data.len() as u64);
                }
                self.change(path, Change::Write(at, data.clone()));
            }
            Event::Resize { path, length } if self.covers(path) => self.change(path, Change::Resize(*length)),
            Event::Sync { path, since } => self.sync(path, *since),
            Event::Rename { from, to, exchange } if self.covers(from) || self.covers(to) => {
                let (moved, other) = (self.names.get(from).copied(), self.names.get(to).copied());
                let Some(moved) = moved else { return };
                match (exchange, other) {
                    (true, Some(other)) => {
                        self.change_names(vec![(to.clone(), moved), (from.clone(), other)], Vec::new());
                    }
                    _ => self.change_names(vec![(to.clone(), moved)], vec![from.clone()]),
                }
            }
            Event::Link { from, to } if self.covers(to) => {
                if let Some(entry) = self.names.get(from).copied() {
                    self.change_names(vec![(to.clone(), entry)], Vec::new());
                }
            }
            Event::Remove { path } if self.covers(path) => self.change_names(Vec::new(), vec![path.clone()]),
            Event::CreateFolder { path } if self.covers(path) => {
                self.change_names(vec![(path.clone(), Entry::Folder)], Vec::new());
            }
            _ => {}
        }
        self.now += 1;
    }

    /// Makes durable what happened before `since`: the content of a file, or the names of a folder. A change
    /// that concerns two folders is durable with either, as in a journal.
    fn sync(&mut self, path: &Path, since: usize) {
        if let Some(inode) = self.inode(path) {
            let inode = &mut self.inodes[inode];
            let (done, open): (Vec<_>, Vec<_>) =
                std::mem::take(&mut inode.pending).into_iter().partition(|(at, _)| *at < since);
            done.iter().for_each(|(_, change)| change.apply(&mut inode.durable));
            inode.pending = open;
        }
        let covered = |change: &NameChange| change.at < since && change.folders.iter().any(|one| one == path);
        let Some(last) = self.pending.iter().rposition(covered) else { return };
        // A journal keeps the order of changes.
        for change in self.pending.drain(..=last) {
            change.removed.iter().for_each(|path| {
                self.durable_names.remove(path);
            });
            self.durable_names.extend(change.put);
        }
    }

    /// Writes a state that a power failure at this moment could leave.
    pub(super) fn write_cut(&self, random: &mut Random) {
        let mut names = self.durable_names.clone();
        let kept = random.below(self.pending.len() as u64 + 1);
        for change in self.pending.iter().take(to_size(kept)) {
            change.removed.iter().for_each(|path| {
                names.remove(path);
            });
            names.extend(change.put.clone());
        }
        for root in &self.roots {
            clear(root);
        }
        for (path, entry) in &names {
            // A file in a folder that is not durable is not reachable.
            let is_reachable = path.ancestors().skip(1).all(|above| {
                self.roots.iter().any(|root| !above.starts_with(root) || above == root)
                    || names.contains_key(above)
            });
            match entry {
                _ if !is_reachable || !self.covers(path) => {}
                Entry::Folder => {
                    std::fs::create_dir_all(path).expect("a folder");
                    clear(path);
                }
                Entry::File(inode) => self.write_file(path, &self.inodes[*inode], random),
            }
        }
    }

    fn write_file(&self, path: &Path, inode: &Inode, random: &mut Random) {
        let mut content = inode.durable.clone();
        for (_, change) in &inode.pending {
            match (random.below(4), change) {
                (0, _) => {}
                (1, Change::Write(offset, data)) => {
                    // A disk writes a sector whole or not at all.
                    let end = offset + random.below(data.len() as u64 + 1);
                    let torn = (end / SECTOR * SECTOR).saturating_sub(*offset);
                    Change::Write(*offset, data[..to_size(torn)].to_vec()).apply(&mut content);
                }
                _ => change.apply(&mut content),
            }
        }
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        std::fs::write(path, content).expect("a file");
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).expect("private");
    }
}

fn clear(folder: &Path) {
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).expect("private");
}
