//! The secret behind every seal: a 0600 file, and three keys derived from it so that none stands for another.
//!
//! Seals are keyed, not plain digests: whoever edits the record without the key cannot make a line, a chain or an
//! anchor that `verify` accepts, and a digest of a short content cannot be guessed back.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{LedgerError, hash::Hash, private_file};

type Keyed = Hmac<Sha256>;

/// The derived keys. Each is kept as a prepared state, which saves two hash blocks per use.
#[derive(Clone)]
pub(crate) struct Key {
    chain: Keyed,
    anchor: Keyed,
    digest: Keyed,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// Reads the key of an existing ledger.
    pub(crate) fn load(path: &Path) -> Result<Key, LedgerError> {
        let mut text = Vec::new();
        let opened = private_file::open_to_read(path).and_then(|mut file| file.read_to_end(&mut text));
        match opened {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LedgerError::KeyMissing { path: path.to_owned() });
            }
            Err(error) => return Err(LedgerError::io("read the key", path)(error)),
        }
        let bad = || LedgerError::BadKey { path: path.to_owned() };
        let digits = text.strip_suffix(b"\n").ok_or_else(bad)?;
        let secret = Hash::parse(digits).ok_or_else(bad)?;
        Key::derive(&secret.0).ok_or_else(bad)
    }

    /// Makes the key of a new ledger. It is complete under its name or absent, also after a power failure.
    pub(crate) fn create(path: &Path) -> Result<Key, LedgerError> {
        let failed = |error| LedgerError::io("create the key", path)(error);
        let mut secret = [0; 32];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut secret)).map_err(failed)?;
        let temporary = path.with_extension("new");
        write_secret(&temporary, &secret).map_err(failed)?;
        fs::rename(&temporary, path).map_err(failed)?;
        if let Some(folder) = path.parent() {
            private_file::sync_folder(folder).map_err(failed)?;
        }
        Key::derive(&secret).ok_or_else(|| LedgerError::BadKey { path: path.to_owned() })
    }

    pub(crate) fn derive(secret: &[u8; 32]) -> Option<Key> {
        let root = Keyed::new_from_slice(secret).ok()?;
        let child = |name: &str| Keyed::new_from_slice(&finish(&root, &[name.as_bytes()]).0).ok();
        Some(Key {
            chain: child("sinew ledger: chain of records")?,
            anchor: child("sinew ledger: anchors")?,
            digest: child("sinew ledger: digests of contents")?,
        })
    }

    /// Seals a line.
    pub(crate) fn seal(&self, line: &[u8]) -> Hash {
        finish(&self.chain, &[line])
    }

    /// Seals an anchor.
    pub(crate) fn seal_anchor(&self, anchor: &[u8]) -> Hash {
        finish(&self.anchor, &[anchor])
    }

    /// Stands for a content that the record must not hold.
    pub(crate) fn digest(&self, content: &[u8]) -> Hash {
        finish(&self.digest, &[content])
    }
}

fn finish(prepared: &Keyed, parts: &[&[u8]]) -> Hash {
    let mut mac = prepared.clone();
    parts.iter().for_each(|part| mac.update(part));
    Hash(mac.finalize().into_bytes().into())
}

fn write_secret(path: &Path, secret: &[u8; 32]) -> io::Result<()> {
    // A left-over of a start that died here holds no secret that anything uses.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut text = Vec::with_capacity(Hash::DIGITS + 1);
    Hash(*secret).write(&mut text);
    text.push(b'\n');
    let mut file = private_file::create(path)?;
    file.write_all(&text)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn made_once_private_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(matches!(Key::load(&path), Err(LedgerError::KeyMissing { .. })));
        let made = Key::create(&path).unwrap();
        let read = Key::load(&path).unwrap();
        assert_eq!(made.seal(b"x"), read.seal(b"x"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for bad in ["", "00", &"g".repeat(64), &format!("{}\n\n", "0".repeat(64))] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(Key::load(&path), Err(LedgerError::BadKey { .. })), "{bad:?}");
        }
    }

    #[test]
    fn no_key_stands_for_another() {
        let key = Key::derive(&[7; 32]).unwrap();
        let seals = [key.seal(b"same"), key.seal_anchor(b"same"), key.digest(b"same")];
        assert!(seals[0] != seals[1] && seals[1] != seals[2] && seals[0] != seals[2]);
        assert_ne!(key.seal(b"same"), Key::derive(&[8; 32]).unwrap().seal(b"same"));
    }
}
