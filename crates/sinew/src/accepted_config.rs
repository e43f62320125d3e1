//! Sealed copy of the accepted configuration, in the state folder.
//!
//! A change that loosens the policy needs operator approval. Without the copy, a restart would bypass it: the
//! next start compares the files with the copy. It is written after a configuration is applied and sealed
//! with the ledger's key, so that an edited copy is detected.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use connectors::{PinStore, PinVersion};
use execution::ConfigSnapshot;
use ledger::Ledger;
use serde_json::Value;
use server::SinewHome;

use crate::accepted_projects::{AcceptedProjects, PROJECTS_FILE};
use crate::exit::CommandError;

/// Limits of a configuration: a few short files and up to ten thousand manifests of about 25 KiB. A single
/// file may be a program beside its manifest. A larger folder is not copied.
const MAX_CONFIG_BYTES: usize = 256 << 20;
const MAX_FILE_BYTES: usize = 16 << 20;
const MAX_FILES: usize = 16_384;
/// A copy also holds the digests of the tools and the seal, so its limit must exceed that of its source.
const MAX_COPY_BYTES: usize = 2 * MAX_CONFIG_BYTES;
const MAX_DEPTH: usize = 8;
/// Maximum number of threads that write a copy, and minimum number of files per thread.
const MAX_WRITER_THREADS: usize = 32;
const MIN_FILES_PER_THREAD: usize = 64;

/// Files of a configuration at one point in time, by their path in the copy.
#[derive(PartialEq, Eq)]
pub(crate) struct ConfigFiles(BTreeMap<PathBuf, Vec<u8>>);

/// Comparison of the current configuration with the accepted one.
pub(crate) enum AcceptedComparison {
    /// No configuration has been accepted yet.
    Missing,
    /// The copy was changed or is incomplete, with the reason.
    Unusable(String),
    /// The system cannot read the copy at this moment. It may be in order.
    Unreadable(io::Error),
    /// The copy differs from the current files; holds its path.
    Differs(PathBuf),
    /// The copy and the current files are identical.
    Identical,
}

/// Returns the key folder, which is inside the configuration folder but not part of the configuration.
pub(crate) fn keys_dir(home: &SinewHome) -> PathBuf {
    home.config_dir().join(KEYS_DIR)
}

impl ConfigFiles {
    /// Reads the current files and the tool definitions of MCP servers in the given version.
    pub(crate) fn read_current(home: &SinewHome, taking: PinVersion) -> io::Result<ConfigFiles> {
        let keys = keys_dir(home);
        let mut found = ConfigFileScan { files: Vec::new(), skipped_paths: vec![home.tools_dir(), &keys] };
        found.scan_dir(home.config_dir(), Path::new("config"), 0)?;
        found.skipped_paths = vec![home.config_dir()];
        found.scan_dir(home.tools_dir(), Path::new("tools"), 0)?;
        let left = AtomicUsize::new(MAX_CONFIG_BYTES);
        let mut files = found.read_all(&left)?;
        for (id, text) in pin_store(home, taking).read_all()? {
            charge_bytes(&left, text.len())?;
            files.insert(pin_path(&id), text);
        }
        check_file_count(files)
    }

    fn read_copy(copy: &Path) -> io::Result<ConfigFiles> {
        let mut found = ConfigFileScan { files: Vec::new(), skipped_paths: Vec::new() };
        found.scan_dir(&copy.join("config"), Path::new("config"), 0)?;
        found.scan_dir(&copy.join("tools"), Path::new("tools"), 0)?;
        found.scan_dir(&copy.join(UPSTREAM_DIR), Path::new(UPSTREAM_DIR), 0)?;
        for name in [ORIGINS_FILE, LAYERS_FILE, PROJECTS_FILE] {
            let path = copy.join(name);
            if let Some(facts) = metadata_if_exists(&path)? {
                let (name, length) = (PathBuf::from(name), facts.len());
                found.files.push(ScannedConfigFile { name, path, length, max_bytes: MAX_COPY_BYTES });
            }
        }
        check_file_count(found.read_all(&AtomicUsize::new(MAX_COPY_BYTES))?)
    }

    /// Adds what these files do not show: the origin digest of each tool, because its program may be replaced, and
    /// the project policies, which are in the workspaces.
    pub(crate) fn with_surroundings(mut self, snapshot: &ConfigSnapshot) -> ConfigFiles {
        let origins = snapshot
            .registry
            .all_versions()
            .map(|tool| tool.definition())
            .filter_map(|tool| Some((tool.version_key(), Value::from(tool.origin()?))));
        let origins = Value::Object(origins.collect()).to_string();
        self.0.insert(PathBuf::from(ORIGINS_FILE), origins.into_bytes());
        self.0.insert(PathBuf::from(LAYERS_FILE), b"1\n".to_vec());
        let projects = AcceptedProjects::of_policy(&snapshot.policy);
        self.0.insert(PathBuf::from(PROJECTS_FILE), projects.to_bytes());
        self
    }

    /// Iterates over the pinned tool definitions by server id.
    fn pins(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let pins = self.0.iter().filter(|(name, _)| name.starts_with(UPSTREAM_DIR));
        pins.filter_map(|(name, text)| Some((name.file_stem()?.to_str()?, text.as_slice())))
    }

    /// Computes the keyed digest over all names and contents. Lengths are included, so parts cannot shift.
    fn seal(&self, digest: impl FnOnce(&[u8]) -> String) -> String {
        let mut bytes = Vec::new();
        for (name, content) in &self.0 {
            let name = name.as_os_str().as_encoded_bytes();
            for part in [name, content] {
                bytes.extend_from_slice(&part.len().to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        digest(&bytes)
    }
}

/// Search for the files below some folders.
struct ConfigFileScan<'a> {
    files: Vec<ScannedConfigFile>,
    /// Paths to skip: they are read separately or not at all.
    skipped_paths: Vec<&'a Path>,
}

struct ScannedConfigFile {
    /// Path in the copy.
    name: PathBuf,
    path: PathBuf,
    /// Size from the metadata.
    length: u64,
    /// Size limit.
    max_bytes: usize,
}

impl ConfigFileScan<'_> {
    fn scan_dir(&mut self, folder: &Path, name: &Path, depth: usize) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            // Users link to configuration kept elsewhere, so links are followed. A dangling link is no
            // configuration; once its target exists, that is a change.
            if self.skipped_paths.contains(&path.as_path()) {
                continue;
            }
            let Some(facts) = metadata_if_exists(&path)? else { continue };
            if facts.is_dir() && depth < MAX_DEPTH {
                self.scan_dir(&path, &name, depth + 1)?;
            } else if facts.is_file() {
                let length = facts.len();
                self.files.push(ScannedConfigFile { name, path, length, max_bytes: MAX_FILE_BYTES });
                if self.files.len() > MAX_FILES {
                    return Err(too_large_error());
                }
            }
        }
        Ok(())
    }

    /// Reads all files in parallel.
    fn read_all(self, left: &AtomicUsize) -> io::Result<BTreeMap<PathBuf, Vec<u8>>> {
        let contents = manifest::parallel_map(&self.files, |file| file.read(left));
        let named = self.files.into_iter().zip(contents);
        named.map(|(file, content)| Ok((file.name, content?))).collect()
    }
}

impl ScannedConfigFile {
    fn read(&self, left: &AtomicUsize) -> io::Result<Vec<u8>> {
        let most = self.max_bytes as u64;
        // The reported size may be wrong (sparse file), so it only sets the initial capacity, within the
        // limits.
        let space = self.length.min(most).min(left.load(Ordering::Relaxed) as u64) + 1;
        let mut content = Vec::with_capacity(usize::try_from(space).unwrap_or_default());
        fs::File::open(&self.path)?.take(most + 1).read_to_end(&mut content)?;
        if content.len() > self.max_bytes {
            let (name, most) = (self.name.display(), self.max_bytes >> 20);
            let message = format!("`{name}` has more than {most} MiB: keep only configuration there");
            return Err(io::Error::other(message));
        }
        charge_bytes(left, content.len())?;
        Ok(content)
    }
}

/// Subtracts `bytes` from the remaining budget.
fn charge_bytes(left: &AtomicUsize, bytes: usize) -> io::Result<()> {
    let less = |left: usize| left.checked_sub(bytes);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).map(drop).map_err(|_| too_large_error())
}

fn check_file_count(files: BTreeMap<PathBuf, Vec<u8>>) -> io::Result<ConfigFiles> {
    if files.len() > MAX_FILES { Err(too_large_error()) } else { Ok(ConfigFiles(files)) }
}

fn too_large_error() -> io::Error {
    io::Error::other(format!(
        "the configuration has more than {} MiB or {MAX_FILES} files: keep only configuration there",
        MAX_CONFIG_BYTES >> 20
    ))
}

/// Compares the sealed copy with the current files. `digest` is the keyed digest of the ledger.
pub(crate) fn compare_with_accepted(
    home: &SinewHome,
    digest: impl FnOnce(&[u8]) -> String,
    now: Option<&ConfigFiles>,
) -> AcceptedComparison {
    match read_sealed_copy(home, digest) {
        Ok(Some((_, kept))) if Some(&kept) == now => AcceptedComparison::Identical,
        Ok(Some((copy, _))) => AcceptedComparison::Differs(copy),
        Ok(None) => AcceptedComparison::Missing,
        Err(SealedCopyError::Unusable(why)) => AcceptedComparison::Unusable(why),
        Err(SealedCopyError::Unreadable(error)) => AcceptedComparison::Unreadable(error),
    }
}

/// Error of a start that cannot read the copy.
pub(crate) fn unreadable_error(home: &SinewHome, error: &io::Error) -> CommandError {
    let copy = home.state_dir().join(COPY_DIR);
    let message = format!("the accepted configuration in `{}` cannot be read: {error}", copy.display());
    CommandError::configuration(message).with_hint(
        "start again once the folder can be read; if it stays unreadable, move it away: the policy files then apply \
         as they are, and the tools of manifests wait for `sinew reload --accept`",
    )
}

/// Reason why no content of the copy is known.
enum SealedCopyError {
    /// The copy is not one that a daemon has written.
    Unusable(String),
    /// A system call failed.
    Unreadable(io::Error),
}

impl From<io::Error> for SealedCopyError {
    /// Errors of the system have a number. The others say that the content is not that of a copy.
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(_) => SealedCopyError::Unreadable(error),
            None => SealedCopyError::Unusable(error.to_string()),
        }
    }
}

impl fmt::Display for SealedCopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealedCopyError::Unusable(why) => f.write_str(why),
            SealedCopyError::Unreadable(error) => error.fmt(f),
        }
    }
}

/// Reads the copy and verifies its seal.
fn read_sealed_copy(
    home: &SinewHome,
    digest: impl FnOnce(&[u8]) -> String,
) -> Result<Option<(PathBuf, ConfigFiles)>, SealedCopyError> {
    let Some(copy) = existing_copy(home)? else { return Ok(None) };
    let seal = match fs::read_to_string(copy.join(SEAL_FILE)) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(SealedCopyError::Unusable("it has no seal".to_owned()));
        }
        seal => seal?,
    };
    let snapshot = ConfigFiles::read_copy(&copy)?;
    match snapshot.seal(digest) == seal.trim_end() {
        true => Ok(Some((copy, snapshot))),
        false => Err(SealedCopyError::Unusable("it was changed".to_owned())),
    }
}

/// Returns the origin digest of each tool when the copy was accepted. Empty for a copy from before digests
/// were stored.
pub(crate) fn accepted_origins(copy: &Path) -> HashMap<String, String> {
    let text = fs::read(copy.join(ORIGINS_FILE)).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Returns true if the policy files of a copy were accepted as layers over the built-in ones.
pub(crate) fn has_layers(copy: &Path) -> io::Result<bool> {
    copy.join(LAYERS_FILE).try_exists()
}

/// Returns true if an accepted configuration exists that the next start compares with, also if it cannot be read now.
pub(crate) fn has_accepted_copy(home: &SinewHome) -> bool {
    !matches!(existing_copy(home), Ok(None))
}

/// Writer of the accepted copy. Clones share one lock, so that only one replaces the copy at a time.
#[derive(Clone, Default)]
pub(crate) struct AcceptedConfigWriter(Arc<Mutex<Weak<Ledger>>>);

impl AcceptedConfigWriter {
    /// Sets the ledger whose key seals the copy, once it is open.
    pub(crate) fn set_ledger(&self, ledger: &Arc<Ledger>) {
        *self.lock() = Arc::downgrade(ledger);
    }

    /// Stores a configuration as accepted.
    pub(crate) fn store(&self, home: &SinewHome, snapshot: &ConfigFiles) -> io::Result<()> {
        let turn = self.lock();
        let ledger = turn.upgrade().ok_or_else(no_ledger_error)?;
        // A copy whose seal is invalid is always rewritten.
        if !matches!(read_sealed_copy(home, |bytes| ledger.keyed_digest(bytes)), Ok(Some((_, kept))) if kept == *snapshot)
        {
            write_copy(home, &ledger, snapshot)?;
        }
        let upstreams = pin_store(home, PinVersion::Accepted);
        snapshot.pins().try_for_each(|(id, reported_text)| upstreams.accept(id, reported_text))
    }

    /// Adds the first tool definitions of a server to the copy. Without a copy, the first one written
    /// includes them.
    pub(crate) fn add_pins(&self, home: &SinewHome, id: &str, reported_text: &[u8]) -> io::Result<()> {
        let turn = self.lock();
        let ledger = turn.upgrade().ok_or_else(no_ledger_error)?;
        let unusable =
            |why: SealedCopyError| io::Error::other(format!("the accepted copy is unusable: {why}"));
        let sealed = read_sealed_copy(home, |bytes| ledger.keyed_digest(bytes));
        let Some((_, mut snapshot)) = sealed.map_err(unusable)? else {
            return Ok(());
        };
        let before = snapshot.0.insert(pin_path(id), reported_text.to_vec());
        if before.as_deref() == Some(reported_text) { Ok(()) } else { write_copy(home, &ledger, &snapshot) }
    }

    fn lock(&self) -> MutexGuard<'_, Weak<Ledger>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn no_ledger_error() -> io::Error {
    io::Error::other("the ledger is not open, so the copy cannot be sealed")
}

/// Replaces the copy atomically: after a crash either the old or the new one is complete.
fn write_copy(home: &SinewHome, ledger: &Ledger, snapshot: &ConfigFiles) -> io::Result<()> {
    // Restores a copy that a crash left under its other name, which is removed below.
    existing_copy(home)?;
    let [copy, new, old] = [COPY_DIR, "accepted.new", OLD_COPY_DIR].map(|name| home.state_dir().join(name));
    remove_dir_if_exists(&new)?;
    remove_dir_if_exists(&old)?;
    create_private_dir(&new)?;
    write_files(&new, snapshot)?;
    write_synced(&new.join(SEAL_FILE), snapshot.seal(|bytes| ledger.keyed_digest(bytes)).as_bytes())?;
    match fs::rename(&copy, &old) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(&new, &copy)?;
    fs::File::open(home.state_dir())?.sync_all()?;
    remove_dir_if_exists(&old)
}

/// Writes and syncs every file. The file system commits concurrent syncs together, so many threads write in
/// parallel.
fn write_files(folder: &Path, snapshot: &ConfigFiles) -> io::Result<()> {
    let files: Vec<_> = snapshot.0.iter().collect();
    let put = |(name, content): &(&PathBuf, &Vec<u8>)| {
        let file = folder.join(name);
        file.parent().map_or(Ok(()), create_private_dir)?;
        write_synced(&file, content)
    };
    let each = files.len().div_ceil(MAX_WRITER_THREADS).max(MIN_FILES_PER_THREAD);
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

/// Folder of the copy in the state folder, and its name while it is being replaced.
const COPY_DIR: &str = "accepted";
const OLD_COPY_DIR: &str = "accepted.old";
const SEAL_FILE: &str = "seal";
/// Key folder inside the configuration folder. Keys are read in place and are not part of the accepted copy.
const KEYS_DIR: &str = "keys";
/// Origin digests by tool name.
const ORIGINS_FILE: &str = "origins.json";
/// File that marks a copy whose policy files override the built-in ones. Without it they replaced them.
const LAYERS_FILE: &str = "layers";
/// Folder of pinned MCP tool definitions, in the state and in the copy.
const UPSTREAM_DIR: &str = "upstream";

/// Returns the store of pinned MCP tool definitions.
pub(crate) fn pin_store(home: &SinewHome, taking: PinVersion) -> PinStore {
    let upstreams = PinStore::new(home.state_dir().join(UPSTREAM_DIR), taking);
    match home.config_copy() {
        Some(copy) => upstreams.with_copy(copy.join(UPSTREAM_DIR)),
        None => upstreams,
    }
}

/// Returns the path of a server's pinned definitions in the copy.
fn pin_path(id: &str) -> PathBuf {
    Path::new(UPSTREAM_DIR).join(PinStore::file_name(id))
}

/// Returns the path of the copy, if there is one. Restores the old copy if a crash interrupted `write_copy` between its
/// two renames.
fn existing_copy(home: &SinewHome) -> io::Result<Option<PathBuf>> {
    let [copy, old] = [COPY_DIR, OLD_COPY_DIR].map(|name| home.state_dir().join(name));
    if !copy.try_exists()? {
        if !old.try_exists()? {
            return Ok(None);
        }
        fs::rename(&old, &copy)?;
    }
    Ok(Some(copy))
}

/// Returns the metadata of a file, or `None` if there is none: a dangling link and a loop of links lead to none.
fn metadata_if_exists(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Err(error)
            if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ELOOP) =>
        {
            Ok(None)
        }
        facts => facts.map(Some),
    }
}

fn create_private_dir(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn write_synced(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn remove_dir_if_exists(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
