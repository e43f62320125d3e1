//! Files of open approval requests: one file per request, readable by this user only, removed when the
//! request is decided.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::state::StoredRequest;

/// Upper limit of the size of a file that is read back, in case another process wrote it.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Stored parts of the open approval requests.
#[derive(Debug)]
pub(crate) struct RequestStore {
    folder: PathBuf,
    open: Mutex<HashMap<String, Arc<StoredRequest>>>,
}

impl RequestStore {
    pub(crate) fn at(folder: PathBuf) -> Self {
        RequestStore { folder, open: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<StoredRequest>>> {
        // Every statement leaves the map consistent, so it is valid even after a panic in another thread.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, id: &str) -> Option<Arc<StoredRequest>> {
        self.lock().get(id).cloned()
    }

    /// Stores a request. Blocking; the file is synced to disk on return.
    pub(crate) fn store(&self, stored: StoredRequest, bytes: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let path = self.path(&stored.request.id);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = std::fs::remove_file(&path);
            return Err(error);
        }
        self.lock().insert(stored.request.id.clone(), Arc::new(stored));
        Ok(())
    }

    /// Removes a request from memory and from disk.
    pub(crate) fn remove(&self, id: &str) {
        if self.lock().remove(id).is_some() {
            let _ = std::fs::remove_file(self.path(id));
        }
    }

    /// Loads the file of a request from an earlier run of the daemon. Returns false if it is missing or not
    /// genuine. Blocking.
    pub(crate) fn load(&self, id: &str, is_genuine: impl Fn(&[u8]) -> bool) -> bool {
        let Ok(bytes) = read(&self.path(id)) else { return false };
        match serde_json::from_slice::<StoredRequest>(&bytes) {
            Ok(stored) if stored.request.id == id && is_genuine(&bytes) => {
                self.lock().insert(id.to_owned(), Arc::new(stored));
                true
            }
            _ => false,
        }
    }

    /// Removes the files that belong to no open request. Blocking.
    pub(crate) fn remove_orphans(&self) {
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
    File::open(path)?.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}
