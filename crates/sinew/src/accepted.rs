//! A copy of the configuration that holds, kept in the state so that the next start knows what was accepted.
//!
//! Without it a restart would be a way around the question that a change that loosens must wait for. It is written once
//! something holds, and sealed with the ledger's key: one that somebody edited is no longer what was accepted.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use connectors::Upstreams;
use execution::World;
use ledger::Ledger;
use serde_json::Value;
use server::Home;

/// A configuration is a handful of short files. What is larger is no configuration, and is not copied.
const MOST_BYTES: usize = 16 * 1024 * 1024;
const MOST_FILES: usize = 4096;
const DEEPEST: usize = 8;

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
}

impl Snapshot {
    /// Reads the files as they are.
    pub(crate) fn of(home: &Home) -> io::Result<Snapshot> {
        let mut walk = Walk { files: BTreeMap::new(), bytes: 0, besides: home.tools() };
        walk.folder(home.config(), Path::new("config"), 0)?;
        walk.besides = home.config();
        walk.folder(home.tools(), Path::new("tools"), 0)?;
        walk.besides = Path::new("");
        walk.folder(&home.state().join(UPSTREAM), Path::new(UPSTREAM), 0)?;
        Ok(Snapshot(walk.files))
    }

    fn of_copy(copy: &Path) -> io::Result<Snapshot> {
        let mut walk = Walk { files: BTreeMap::new(), bytes: 0, besides: Path::new("") };
        walk.folder(&copy.join("config"), Path::new("config"), 0)?;
        walk.folder(&copy.join("tools"), Path::new("tools"), 0)?;
        walk.folder(&copy.join(UPSTREAM), Path::new(UPSTREAM), 0)?;
        if copy.join(ORIGINS).exists() {
            walk.file(&copy.join(ORIGINS), PathBuf::from(ORIGINS))?;
        }
        Ok(Snapshot(walk.files))
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

    /// What servers say of their tools and nobody had accepted, by its file and the one it takes the place of.
    fn newly_said<'a>(&'a self, home: &Home) -> impl Iterator<Item = (PathBuf, PathBuf, &'a [u8])> {
        let folder = home.state().to_owned();
        let seen = |(name, _): &(&PathBuf, &Vec<u8>)| {
            name.starts_with(UPSTREAM) && name.extension().is_some_and(|ending| ending == Upstreams::SEEN)
        };
        self.0.iter().filter(seen).map(move |(name, said)| {
            let file = folder.join(name);
            (file.clone(), file.with_extension(Upstreams::PINNED), said.as_slice())
        })
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

struct Walk<'a> {
    files: BTreeMap<PathBuf, Vec<u8>>,
    bytes: usize,
    /// Taken by itself, wherever it is.
    besides: &'a Path,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, name: &Path, depth: usize) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), name.join(entry.file_name()));
            // People keep their configuration elsewhere and link to it.
            let facts = match fs::metadata(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                facts => facts?,
            };
            if path == self.besides {
                continue;
            } else if facts.is_dir() && depth < DEEPEST {
                self.folder(&path, &name, depth + 1)?;
            } else if facts.is_file() {
                self.file(&path, name)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, name: PathBuf) -> io::Result<()> {
        let content = fs::read(path)?;
        self.bytes += content.len();
        self.files.insert(name, content);
        if self.bytes > MOST_BYTES || self.files.len() > MOST_FILES {
            return Err(io::Error::other("there is more in its folders than a configuration"));
        }
        Ok(())
    }
}

/// What was accepted last, if it is known.
pub(crate) fn kept(home: &Home, ledger: &Ledger) -> Kept {
    let copy = place(home);
    let seal = match fs::read_to_string(copy.join(SEAL)) {
        Err(error) if error.kind() == ErrorKind::NotFound && !copy.exists() => return Kept::Nothing,
        Err(error) => return Kept::Unusable(format!("its seal cannot be read: {error}")),
        Ok(seal) => seal,
    };
    match Snapshot::of_copy(&copy) {
        Ok(snapshot) if snapshot.seal(ledger) == seal.trim_end() => Kept::Copy(copy),
        Ok(_) => Kept::Unusable("it was changed".to_owned()),
        Err(error) => Kept::Unusable(error.to_string()),
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

/// Keeps what holds from now on. It replaces what was kept whole: a crash leaves the one or the other.
pub(crate) fn keep(home: &Home, ledger: &Ledger, snapshot: &Snapshot) -> io::Result<()> {
    let (copy, new, old) =
        (place(home), home.state().join("accepted.new"), home.state().join("accepted.old"));
    if matches!(Snapshot::of_copy(&copy), Ok(kept) if kept == *snapshot) && copy.join(SEAL).exists() {
        return Ok(());
    }
    for (seen, pinned, said) in snapshot.newly_said(home) {
        remove_file(&pinned)?;
        write(&pinned, said)?;
        // What it has said since then is another matter.
        if fs::read(&seen).is_ok_and(|now| now == said) {
            remove_file(&seen)?;
        }
    }
    remove(&new)?;
    remove(&old)?;
    make_folder(&new)?;
    for (name, content) in &snapshot.0 {
        let file = new.join(name);
        file.parent().map_or(Ok(()), make_folder)?;
        write(&file, content)?;
    }
    write(&new.join(SEAL), snapshot.seal(ledger).as_bytes())?;
    match fs::rename(&copy, &old) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::rename(&new, &copy)?;
    fs::File::open(home.state())?.sync_all()?;
    remove(&old)
}

const SEAL: &str = "seal";
/// What stands behind each tool, by its digest.
const ORIGINS: &str = "origins.json";
/// The folder of what servers say of their tools, in the state and in the copy.
pub(crate) const UPSTREAM: &str = "upstream";

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

fn remove_file(file: &Path) -> io::Result<()> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
