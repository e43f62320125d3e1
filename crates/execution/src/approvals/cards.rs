//! The cards of open questions on disk: one file each, for this user's eyes alone, gone when the question is decided.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Kept;

/// No card is larger, whoever wrote the file.
const LARGEST: u64 = 4 * 1024 * 1024;

/// The open questions' cards.
#[derive(Debug)]
pub(crate) struct Cards {
    folder: PathBuf,
    open: Mutex<HashMap<String, Arc<Kept>>>,
}

impl Cards {
    pub(crate) fn at(folder: PathBuf) -> Self {
        Cards { folder, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Kept>>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<Kept>> {
        self.lock().get(id).cloned()
    }

    /// Keeps a card. Blocking; on disk when it returns.
    pub(crate) fn keep(&self, kept: Kept, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(&kept.card.id);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        self.lock().insert(kept.card.id.clone(), Arc::new(kept));
        Ok(())
    }

    /// Forgets a card.
    pub(crate) fn forget(&self, id: &str) {
        if self.lock().remove(id).is_some() {
            let _ = std::fs::remove_file(self.path(id));
        }
    }

    /// Reads back the card of a question that an earlier daemon asked, if it is the one that was asked. Blocking.
    pub(crate) fn read_back(&self, id: &str, is_genuine: impl Fn(&[u8]) -> bool) -> bool {
        let Ok(bytes) = read(&self.path(id)) else { return false };
        match serde_json::from_slice::<Kept>(&bytes) {
            Ok(kept) if kept.card.id == id && is_genuine(&bytes) => {
                self.lock().insert(id.to_owned(), Arc::new(kept));
                true
            }
            _ => false,
        }
    }

    /// Removes what no open question has. Blocking.
    pub(crate) fn sweep(&self) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        for path in entries.flatten().map(|entry| entry.path()) {
            let id = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|extension| extension == "json") && !self.lock().contains_key(id)
            {
                let _ = std::fs::remove_file(path);
            }
        }
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
