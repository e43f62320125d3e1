//! Sealed copy of the accepted configuration, in the state folder.
//!
//! A change that loosens the policy needs operator approval. Without the copy, a restart would bypass it: the
//! next start compares the files with the copy. It is written after a configuration is applied and sealed
//! with the ledger's key, so that an edited copy is detected.

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

/// Limits of a configuration: a few short files and up to ten thousand manifests of about 25 KiB. A single
/// file may be a program beside its manifest. A larger folder is not copied.
const MOST_BYTES: usize = 256 << 20;
const MOST_BYTES_OF_FILE: usize = 16 << 20;
const MOST_FILES: usize = 16_384;
/// A copy also holds the digests of the tools and the seal, so its limit must exceed that of its source.
const MOST_BYTES_OF_COPY: usize = 2 * MOST_BYTES;
const DEEPEST: usize = 8;
/// Maximum number of threads that write a copy, and minimum number of files per thread.
const MOST_WRITERS: usize = 32;
const FEWEST_EACH: usize = 64;

/// Files of a configuration at one point in time, by their path in the copy.
#[derive(PartialEq, Eq)]
pub(crate) struct Snapshot(BTreeMap<PathBuf, Vec<u8>>);

/// Comparison of the current configuration with the accepted one.
pub(crate) enum Kept {
    /// No configuration has been accepted yet.
    Nothing,
    /// The copy cannot be used, with the reason.
    Unusable(String),
    /// The copy differs from the current files; holds its path.
    Copy(PathBuf),
    /// The copy and the current files are identical.
    Same,
}

/// Returns the key folder, which is inside the configuration folder but not part of the configuration.
pub(crate) fn keys(home: &Home) -> PathBuf {
    home.config().join(KEYS)
}

impl Snapshot {
    /// Reads the current files and the tool definitions of MCP servers in the given version.
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

    /// Adds the origin digest of each tool: these files do not show that a tool's program was replaced.
    pub(crate) fn of_world(mut self, world: &World) -> Snapshot {
        let origins = world
            .registry
            .definitions()
            .filter_map(|tool| Some((tool.name().to_string(), Value::from(tool.origin()?))));
        let origins = Value::Object(origins.collect()).to_string();
        self.0.insert(PathBuf::from(ORIGINS), origins.into_bytes());
        self
    }

    /// Iterates over the pinned tool definitions by server id.
    fn pins(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let pins = self.0.iter().filter(|(name, _)| name.starts_with(UPSTREAM));
        pins.filter_map(|(name, said)| Some((name.file_stem()?.to_str()?, said.as_slice())))
    }

    /// Computes the keyed digest over all names and contents. Lengths are included, so parts cannot shift.
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

/// Search for the files below some folders.
struct Found<'a> {
    files: Vec<FoundFile>,
    /// Paths to skip: they are read separately or not at all.
    besides: Vec<&'a Path>,
}

struct FoundFile {
    /// Path in the copy.
    name: PathBuf,
    path: PathBuf,
    /// Size from the metadata.
    length: u64,
    /// Size limit.
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
            // Users link to configuration kept elsewhere, so links are followed. A dangling link is no
            // configuration; once its target exists, that is a change.
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

    /// Reads all files in parallel.
    fn read(self, left: &AtomicUsize) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let contents = manifest::spread(&self.files, |file| file.read(left));
        let named = self.files.into_iter().zip(contents);
        named.map(|(file, content)| Ok((file.name, content?))).collect()
    }
}

impl FoundFile {
    fn read(&self, left: &AtomicUsize) -> io::Result<Vec<u8>> {
        let most = self.most as u64;
        // The reported size may be wrong (sparse file), so it only sets the initial capacity, within the
        // limits.
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

/// Subtracts `bytes` from the remaining budget.
fn take(left: &AtomicUsize, bytes: usize) -> io::Result<()> {
    let less = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(drop).map_err(|_| too_much())
}

fn bounded(files: BTreeMap<PathBuf, Vec<u8>>) -> io::Result<Snapshot> {
    if files.len() > MOST_FILES { Err(too_much()) } else { Ok(Snapshot(files)) }
}

fn too_much() -> io::Error {
    io::Error::other(format!(
        "the configuration has more than {} MiB or {MOST_FILES} files: keep only configuration there",
        MOST_BYTES >> 20
    ))
}

/// Compares the sealed copy with the current files.
pub(crate) fn kept(home: &Home, ledger: &Ledger, now: Option<&Snapshot>) -> Kept {
    match sealed(home, ledger) {
        Ok(Some((_, kept))) if Some(&kept) == now => Kept::Same,
        Ok(Some((copy, _))) => Kept::Copy(copy),
        Ok(None) => Kept::Nothing,
        Err(why) => Kept::Unusable(why),
    }
}

/// Reads the copy and verifies its seal. The error is the reason why the copy cannot be used.
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

/// Returns the origin digest of each tool when the copy was accepted. Empty for a copy from before digests
/// were stored.
pub(crate) fn origins_of(copy: &Path) -> HashMap<String, String> {
    let text = fs::read(copy.join(ORIGINS)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Returns true if an accepted configuration exists that the next start compares with.
pub(crate) fn is_kept(home: &Home) -> bool {
    place(home).exists()
}

/// Writer of the accepted copy. Clones share one lock, so that only one replaces the copy at a time.
#[derive(Clone, Default)]
pub(crate) struct Keeper(Arc<Mutex<Weak<Ledger>>>);

impl Keeper {
    /// Sets the ledger whose key seals the copy, once it is open.
    pub(crate) fn seal_with(&self, ledger: &Arc<Ledger>) {
        *self.turn() = Arc::downgrade(ledger);
    }

    /// Stores a configuration as accepted.
    pub(crate) fn keep(&self, home: &Home, snapshot: &Snapshot) -> io::Result<()> {
        let turn = self.turn();
        let ledger = turn.upgrade().ok_or_else(no_seal)?;
        // A copy whose seal is invalid is always rewritten.
        if !matches!(sealed(home, &ledger), Ok(Some((_, kept))) if kept == *snapshot) {
            write_copy(home, &ledger, snapshot)?;
        }
        let upstreams = upstreams(home, Taking::Accepted);
        snapshot.pins().try_for_each(|(id, said)| upstreams.take(id, said))
    }

    /// Adds the first tool definitions of a server to the copy. Without a copy, the first one written
    /// includes them.
    pub(crate) fn add(&self, home: &Home, id: &str, said: &[u8]) -> io::Result<()> {
        let turn = self.turn();
        let ledger = turn.upgrade().ok_or_else(no_seal)?;
        let unusable = |why: String| io::Error::other(format!("the accepted copy is unusable: {why}"));
        let Some((_, mut snapshot)) = sealed(home, &ledger).map_err(unusable)? else { return Ok(()) };
        let before = snapshot.0.insert(pin_of(id), said.to_vec());
        if before.as_deref() == Some(said) { Ok(()) } else { write_copy(home, &ledger, &snapshot) }
    }

    fn turn(&self) -> MutexGuard<'_, Weak<Ledger>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_seal() -> io::Error {
    io::Error::other("the ledger is not open, so the copy cannot be sealed")
}

/// Replaces the copy atomically: after a crash either the old or the new one is complete.
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

/// Writes and syncs every file. The file system commits concurrent syncs together, so many threads write in
/// parallel.
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
        // Join every thread, even after the first error.
        let ends: Vec<io::Result<()>> = writers.into_iter().map(ended).collect();
        ends.into_iter().collect()
    })
}

const SEAL: &str = "seal";
/// Key folder inside the configuration folder. Keys are read in place and are not part of the accepted copy.
const KEYS: &str = "keys";
/// Origin digests by tool name.
const ORIGINS: &str = "origins.json";
/// Folder of pinned MCP tool definitions, in the state and in the copy.
const UPSTREAM: &str = "upstream";

/// Returns the store of pinned MCP tool definitions.
pub(crate) fn upstreams(home: &Home, taking: Taking) -> Upstreams {
    let upstreams = Upstreams::at(home.state().join(UPSTREAM), taking);
    match home.copy() {
        Some(copy) => upstreams.as_copied(copy.join(UPSTREAM)),
        None => upstreams,
    }
}

/// Returns the path of a server's pinned definitions in the copy.
fn pin_of(id: &str) -> PathBuf {
    Path::new(UPSTREAM).join(Upstreams::file_name(id))
}

/// Returns the path of the copy. Restores the old copy if a crash interrupted `write_copy` between its two
/// renames.
fn place(home: &Home) -> PathBuf {
    let (copy, old) = (home.state().join("accepted"), home.state().join("accepted.old"));
    if !copy.exists() && old.exists() {
        // If this fails, no copy is found, and the start treats the accepted configuration as unknown.
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
