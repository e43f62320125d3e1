//! Power failures: of everything that was written, only what was synced is certain to survive, and any part of the
//! rest may. After each such cut the daemon starts, no acknowledged change is without its record, and no change
//! in the workspace is without its decision.
//!
//! `strace` lists what the daemon writes, syncs, renames and answers. Each cut is a moment in that list; the files
//! are put into a state that a journaling file system could leave: contents as of the last sync, with any of
//! the later writes, a last one torn; names as of the last sync of a folder, with the first of the later changes.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tests::{Campaign, Daemon, Home, Random, Strace};

use super::judged_paths;
use super::strace_log::{self, Event};

const TRACED: &str = "trace=openat,openat2,write,pwrite64,ftruncate,fallocate,fsync,fdatasync,rename,renameat,\
    renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,sendto";
/// Cuts of one recorded session.
const CUTS: u64 = 12;
const QUICK_CUTS: u64 = 3;

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

fn to_size(number: u64) -> usize {
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
struct Disk {
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
    fn read(roots: &[PathBuf]) -> Disk {
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

    fn apply(&mut self, event: &Event) {
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
    fn write_cut(&self, random: &mut Random) {
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
        use std::os::unix::fs::PermissionsExt;
        let mut content = inode.durable.clone();
        for (_, change) in &inode.pending {
            match (random.below(4), change) {
                (0, _) => {}
                (1, Change::Write(offset, data)) if !data.is_empty() => {
                    let torn = to_size(random.below(data.len() as u64));
                    Change::Write(*offset, data[..torn].to_vec()).apply(&mut content);
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
    use std::os::unix::fs::PermissionsExt;
    for entry in std::fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
    }
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700)).expect("private");
}

/// Records one session of calls. Returns the home, the disk before it, and the events.
fn record(random: &mut Random) -> Option<(Home, Disk, Vec<Event>)> {
    let home = Home::initialised().without_rate_limits().without_automatic_modes();
    (0..4).for_each(|number| drop(home.file(&format!("old-{number}"), "old")));
    let home = Daemon::start_in(home).stop();
    let roots = [home.root().join("state"), home.workspace()];
    let daemon = Daemon::start_debuggable(home);
    let log = daemon.home().workspace().with_file_name("strace.log");
    let words = ["-y", "-s", "1000000", "-e", TRACED];
    let strace = Strace::attach_with(daemon.pid(), &words, &log)?;
    let disk = Disk::read(&roots);
    let mut agent = daemon.agent();
    for number in 0..6 + random.below(6) {
        let old = format!("old-{}", random.below(4));
        let call = match random.below(5) {
            0 | 1 => ("write_file", json!({"path": format!("new-{number}"), "content": "n".repeat(9000)})),
            2 => ("write_file", json!({"path": old, "content": format!("changed {number}")})),
            3 => ("delete_file", json!({"path": old})),
            _ => ("create_directory", json!({"path": format!("folder-{number}")})),
        };
        agent.execute(call.0, &call.1);
    }
    drop(agent);
    let home = daemon.crash();
    drop(strace);
    let events = strace_log::parse(&std::fs::read_to_string(&log).expect("a log"));
    Some((home, disk, events))
}

/// Calls whose success was sent to the client before the cut.
fn acknowledged(events: &[Event]) -> Vec<Value> {
    let replies = events.iter().filter_map(|event| match event {
        Event::Reply { text } => serde_json::from_slice::<Value>(text).ok(),
        _ => None,
    });
    replies.map(|reply| reply["result"].clone()).filter(|result| result["success"] == true).collect()
}

/// Starts the daemon on what a cut left, and checks it against what was acknowledged.
fn check_cut(home: Home, events: &[Event], before: &HashSet<String>, context: &str) -> Home {
    let daemon = Daemon::start_in(home);
    let result = daemon.agent().execute("write_file", &json!({"path": "after", "content": "x"}));
    assert_eq!(result["success"], true, "{context}: {result}");
    let home = daemon.stop();
    let records = home.records();
    let decided: HashSet<&str> = records
        .iter()
        .filter(|record| record["kind"] == "decision")
        .filter_map(|record| record["call_id"].as_str())
        .collect();
    for result in acknowledged(events) {
        let id = result["metadata"]["call_id"].as_str().expect("an id");
        assert!(decided.contains(id), "{context}: acknowledged without a record: {result}");
    }
    let judged = judged_paths(&records);
    for entry in std::fs::read_dir(home.workspace()).expect("a workspace").flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        let changed =
            !before.contains(&name) || std::fs::read_to_string(&path).is_ok_and(|text| text != "old");
        assert!(!changed || judged.contains(&path), "{context}: an effect without a record: {name}");
        assert!(!name.starts_with(".sinew-tmp-"), "{context}: litter {name}");
    }
    let report = home.run(&["ledger", "verify", "--json"]).json();
    assert_eq!(report["intact"], true, "{context}: {report}");
    home
}

#[test]
fn soak_power_cuts_lose_no_record_of_an_acknowledged_change() {
    let mut campaign = Campaign::start(QUICK_CUTS);
    let (mut cuts, mut sessions, mut changes) = (0, 0, 0);
    while campaign.goes_on(cuts)
        && let Some(round) = campaign.next_round()
    {
        let mut random = campaign.random(round);
        let Some((mut home, disk, events)) = record(&mut random) else { return };
        let before: HashSet<String> = (0..4).map(|number| format!("old-{number}")).collect();
        changes += acknowledged(&events).len();
        for number in 0..CUTS {
            if !campaign.goes_on(cuts) {
                break;
            }
            let moment = to_size(random.below(events.len() as u64 + 1));
            let mut disk = disk.clone();
            events[..moment].iter().for_each(|event| disk.apply(event));
            disk.write_cut(&mut random);
            let context = format!("session {round}, cut {number} at event {moment} of {}", events.len());
            home = check_cut(home, &events[..moment], &before, &context);
            cuts += 1;
        }
        sessions += 1;
    }
    let notes = format!("{sessions} sessions with {changes} acknowledged changes; none without a record");
    campaign.finish(cuts, &notes);
}
