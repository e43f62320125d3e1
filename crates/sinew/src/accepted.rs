//! A copy of the configuration that holds, kept in the state so that the next start knows what was accepted.
//!
//! Without it a restart would be a way around the question that a change that loosens must wait for. It is written once
//! something holds, and sealed with the ledger's key: one that somebody edited is no longer what was accepted.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use connectors::{Taking, Upstreams};
use execution::World;
use ledger::Ledger;
use serde_json::Value;
use server::Home;

/// A configuration is a handful of short files, and ten thousand manifests of 25 KiB, or fewer that are longer. One file may
/// be a program beside its manifest. What is larger is no configuration, and is not copied.
const MOST_BYTES: usize = 256 << 20;
const MOST_BYTES_OF_FILE: usize = 16 << 20;
const MOST_FILES: usize = 16_384;
/// A copy has what stands behind each tool besides, and is sealed: what was once kept can be read again.
const MOST_BYTES_OF_COPY: usize = 2 * MOST_BYTES;
const DEEPEST: usize = 8;
/// Those who write a copy, and how many files are worth another one.
const MOST_WRITERS: usize = 32;
const FEWEST_EACH: usize = 64;

/// The files of a configuration at one moment, by their place below the copy.
#[derive(PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Vec<u8>>);

/// What is known of the configuration that held last.
pub(crate) enum Kept {
    /// Nothing was ever kept.
    Nothing,
    /// Something was, and it cannot be used: why.
    Unusable(String),
    /// A copy, as it was accepted: where it is.
    Copy(PathBuf),
    /// What is there now, to the byte.
    Same,
}

/// What lies in the configuration's folder and is no part of it.
pub(crate) fn keys(home: &Home) -> PathBuf {
    home.config().join(KEYS)
}

impl Snapshot {
    /// Reads the files as they are, and what servers say of their tools as far as it is taken.
    pub(crate) fn of(home: &Home, taking: Taking) -> io::Result<Snapshot> {
        let keys = keys(home);
        let mut found = Found { files: Vec::new(), besides: vec![home.tools(), &keys] };
        found.folder(home.config(), Path::new("config"), 0)?;
        found.besides = vec![home.config()];
        found.folder(home.tools(), Path::new("tools"), 0)?;
        let left = AtomicUsize::new(MOST_BYTES);
        let mut files = found.read(&left)?;
        for (id, said) in upstreams(home, taking).all()? {
            take(&left, said.len())?;
            files.insert(pin_of(&id), said);
        }
        bounded(files)
    }

    fn of_copy(copy: &Path) -> io::Result<Snapshot> {
        let mut found = Found { files: Vec::new(), besides: Vec::new() };
        found.folder(&copy.join("config"), Path::new("config"), 0)?;
        found.folder(&copy.join("tools"), Path::new("tools"), 0)?;
        found.folder(&copy.join(UPSTREAM), Path::new(UPSTREAM), 0)?;
        let origins = copy.join(ORIGINS);
        if let Ok(facts) = fs::metadata(&origins) {
            let (name, length) = (PathBuf::from(ORIGINS), facts.len());
            found.files.push(FoundFile { name, path: origins, length, most: MOST_BYTES_OF_COPY });
        }
        bounded(found.read(&AtomicUsize::new(MOST_BYTES_OF_COPY))?)
    }

    /// The same with what stands behind each tool of this world: a program that is replaced is not in these files.
    pub(crate) fn of_world(mut self, world: &World) -> Snapshot {
        let origins = world
            .registry
            .definitions()
            .filter_map(|tool| Some((tool.name().to_string(), Value::from(tool.origin()?))));
        let origins = Value::Object(origins.collect()).to_string();
        self.0.insert(PathBuf::from(ORIGINS), origins.into_bytes());
        self
    }

    /// What is accepted of each server, by its id.
    fn pins(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let pins = self.0.iter().filter(|(name, _)| name.starts_with(UPSTREAM));
        pins.filter_map(|(name, said)| Some((name.file_stem()?.to_str()?, said.as_slice())))
    }

    /// Stands for every name and every byte.
    fn seal(&self, ledger: &Ledger) -> String {
        let mut bytes = Vec::new();
        for (name, content) in &self.0 {
            let name = name.as_os_str().as_encoded_bytes();
            for part in [name, content] {
                bytes.extend_from_slice(&part.len().to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        ledger.keyed_digest(&bytes)
    }
}

/// The files that were found below some folders.
struct Found<'a> {
    files: Vec<FoundFile>,
    /// Taken by themselves, wherever they are, or not at all.
    besides: Vec<&'a Path>,
}

struct FoundFile {
    /// Its name in the copy.
    name: PathBuf,
    path: PathBuf,
    /// How long it says it is.
    length: u64,
    /// How long it may be.
    most: usize,
}

impl Found<'_> {
    fn folder(&mut self, folder: &Path, name: &Path, depth: usize) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            // People keep their configuration elsewhere and link to it. What a link does not lead to is in no
            // configuration; one that comes to lead somewhere is a change.
            let Ok(facts) = fs::metadata(&path) else { continue };
            if self.besides.contains(&path.as_path()) {
                continue;
            } else if facts.is_dir() && depth < DEEPEST {
                self.folder(&path, &name, depth + 1)?;
            } else if facts.is_file() {
                let length = facts.len();
                self.files.push(FoundFile { name, path, length, most: MOST_BYTES_OF_FILE });
                if self.files.len() > MOST_FILES {
                    return Err(too_much());
                }
            }
        }
        Ok(())
    }

    /// Reads all of them, several at a time.
    fn read(self, left: &AtomicUsize) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let contents = manifest::spread(&self.files, |file| file.read(left));
        let named = self.files.into_iter().zip(contents);
        named.map(|(file, content)| Ok((file.name, content?))).collect()
    }
}

impl FoundFile {
    fn read(&self, left: &AtomicUsize) -> io::Result<Vec<u8>> {
        let most = self.most as u64;
        // A file says of itself how long it is, and may be all hole: that is what it gets to begin with, and no more than
        // there may be.
        let room = self.length.min(most).min(left.load(Ordering::Relaxed) as u64) + 1;
        let mut content = Vec::with_capacity(usize::try_from(room).unwrap_or_default());
        fs::File::open(&self.path)?.take(most + 1).read_to_end(&mut content)?;
        if content.len() > self.most {
            let (name, most) = (self.name.display(), self.most >> 20);
            let message = format!("`{name}` has more than {most} MiB: keep only configuration there");
            return Err(io::Error::other(message));
        }
        take(left, content.len())?;
        Ok(content)
    }
}

/// Counts bytes against those that there may be.
fn take(left: &AtomicUsize, bytes: usize) -> io::Result<()> {
    let less = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(drop).map_err(|_| too_much())
}

fn bounded(files: BTreeMap<PathBuf, Vec<u8>>) -> io::Result<Snapshot> {
    if files.len() > MOST_FILES { Err(too_much()) } else { Ok(Snapshot(files)) }
}

fn too_much() -> io::Error {
    io::Error::other(format!(
        "its folders hold more than {} MiB or {MOST_FILES} files: keep only configuration there",
        MOST_BYTES >> 20
    ))
}

/// What was accepted last, if it is known, beside what is there now, if that is.
pub(crate) fn kept(home: &Home, ledger: &Ledger, now: Option<&Snapshot>) -> Kept {
    match sealed(home, ledger) {
        Ok(Some((_, kept))) if Some(&kept) == now => Kept::Same,
        Ok(Some((copy, _))) => Kept::Copy(copy),
        Ok(None) => Kept::Nothing,
        Err(why) => Kept::Unusable(why),
    }
}

/// The copy and what is in it, as it was sealed. An error says why it cannot be used.
fn sealed(home: &Home, ledger: &Ledger) -> Result<Option<(PathBuf, Snapshot)>, String> {
    let copy = place(home);
    let seal = match fs::read_to_string(copy.join(SEAL)) {
        Err(error) if error.kind() == ErrorKind::NotFound && !copy.exists() => return Ok(None),
        Err(error) => return Err(format!("its seal cannot be read: {error}")),
        Ok(seal) => seal,
    };
    let snapshot = Snapshot::of_copy(&copy).map_err(|error| error.to_string())?;
    match snapshot.seal(ledger) == seal.trim_end() {
        true => Ok(Some((copy, snapshot))),
        false => Err("it was changed".to_owned()),
    }
}

/// What stood behind each tool when this copy was accepted. Nothing of a copy from before that was kept.
pub(crate) fn origins_of(copy: &Path) -> HashMap<String, String> {
    let text = fs::read(copy.join(ORIGINS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Whether the next start compares with what was accepted.
pub(crate) fn is_kept(home: &Home) -> bool {
    place(home).exists()
}

/// Keeps what is accepted, with the seal of the record. Clones share their turn: the copy is replaced by one at a time.
#[derive(Clone, Default)]
pub(crate) struct Keeper(Arc<Mutex<Weak<Ledger>>>);

impl Keeper {
    /// The record whose seal it is, once that is open.
    pub(crate) fn seal_with(&self, ledger: &Arc<Ledger>) {
        *self.turn() = Arc::downgrade(ledger);
    }

    /// Keeps what holds from now on.
    pub(crate) fn keep(&self, home: &Home, snapshot: &Snapshot) -> io::Result<()> {
        let turn = self.turn();
        let ledger = turn.upgrade().ok_or_else(no_seal)?;
        // One whose seal does not hold is written anew, whatever is in it.
        if !matches!(sealed(home, &ledger), Ok(Some((_, kept))) if kept == *snapshot) {
            write_copy(home, &ledger, snapshot)?;
        }
        let upstreams = upstreams(home, Taking::Accepted);
        snapshot.pins().try_for_each(|(id, said)| upstreams.take(id, said))
    }

    /// Adds what a server said first to what was accepted. Where nothing is kept yet, the first that is has it.
    pub(crate) fn add(&self, home: &Home, id: &str, said: &[u8]) -> io::Result<()> {
        let turn = self.turn();
        let ledger = turn.upgrade().ok_or_else(no_seal)?;
        let unusable = |why: String| io::Error::other(format!("the copy of what was accepted: {why}"));
        let Some((_, mut snapshot)) = sealed(home, &ledger).map_err(unusable)? else { return Ok(()) };
        let before = snapshot.0.insert(pin_of(id), said.to_vec());
        if before.as_deref() == Some(said) { Ok(()) } else { write_copy(home, &ledger, &snapshot) }
    }

    fn turn(&self) -> MutexGuard<'_, Weak<Ledger>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_seal() -> io::Error {
    io::Error::other("there is no record whose seal it could have")
}

/// Replaces what was kept whole: a crash leaves the one or the other.
fn write_copy(home: &Home, ledger: &Ledger, snapshot: &Snapshot) -> io::Result<()> {
    let (copy, new, old) =
        (place(home), home.state().join("accepted.new"), home.state().join("accepted.old"));
    remove(&new)?;
    remove(&old)?;
    make_folder(&new)?;
    write_files(&new, snapshot)?;
    write(&new.join(SEAL), snapshot.seal(ledger).as_bytes())?;
    match fs::rename(&copy, &old) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(&new, &copy)?;
    fs::File::open(home.state())?.sync_all()?;
    remove(&old)
}

/// Each is on disk before it is done. A file system commits for all who wait for it together, so many are written by many.
fn write_files(folder: &Path, snapshot: &Snapshot) -> io::Result<()> {
    let files: Vec<_> = snapshot.0.iter().collect();
    let put = |(name, content): &(&PathBuf, &Vec<u8>)| {
        let file = folder.join(name);
        file.parent().map_or(Ok(()), make_folder)?;
        write(&file, content)
    };
    let each = files.len().div_ceil(MOST_WRITERS).max(FEWEST_EACH);
    std::thread::scope(|scope| {
        let writers: Vec<_> =
            files.chunks(each).map(|part| scope.spawn(move || part.iter().try_for_each(put))).collect();
        let ended = |writer: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            writer.join().unwrap_or_else(|_| Err(io::Error::other("a writer of the copy panicked")))
        };
        // All of them are waited for, whatever became of the first.
        let ends: Vec<io::Result<()>> = writers.into_iter().map(ended).collect();
        ends.into_iter().collect()
    })
}

const SEAL: &str = "seal";
/// Where keys are kept beside the configuration: they are read where they are, and nobody accepts them.
const KEYS: &str = "keys";
/// What stands behind each tool, by its digest.
const ORIGINS: &str = "origins.json";
/// The folder of what servers say of their tools, in the state and in the copy.
const UPSTREAM: &str = "upstream";

/// What servers say of their tools.
pub(crate) fn upstreams(home: &Home, taking: Taking) -> Upstreams {
    let upstreams = Upstreams::at(home.state().join(UPSTREAM), taking);
    match home.copy() {
        Some(copy) => upstreams.as_copied(copy.join(UPSTREAM)),
        None => upstreams,
    }
}

/// Where a copy has what is accepted of a server.
fn pin_of(id: &str) -> PathBuf {
    Path::new(UPSTREAM).join(Upstreams::file_name(id))
}

/// Where it is. A crash may have come between taking the old one away and putting the new one there.
fn place(home: &Home) -> PathBuf {
    let (copy, old) = (home.state().join("accepted"), home.state().join("accepted.old"));
    if !copy.exists() && old.exists() {
        // Where that fails, the old one is simply not found.
        let _ = fs::rename(&old, &copy);
    }
    copy
}

fn make_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
