//! Secret of the ledger, stored in a file with mode 0600, and the three keys derived from it for separate
//! purposes.
//!
//! Seals are HMACs, not plain digests: without the key, an attacker can neither forge a line, a chain or an
//! anchor that `verify` accepts, nor guess short content from its digest.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::{LedgerError, hash::SealHash, private_file};

type HmacSha256 = Hmac<Sha256>;

/// Derived keys. Each is kept as a prepared HMAC state, which saves two hash blocks per use.
#[derive(Clone)]
pub(crate) struct LedgerKey {
    chain: HmacSha256,
    anchor: HmacSha256,
    digest: HmacSha256,
}

impl std::fmt::Debug for LedgerKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl LedgerKey {
    /// Reads the key of an existing ledger.
    pub(crate) fn load(path: &Path) -> Result<LedgerKey, LedgerError> {
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
        let secret = SealHash::parse(digits).ok_or_else(bad)?;
        LedgerKey::derive(&secret.0).ok_or_else(bad)
    }

    /// Creates the key of a new ledger. The file is either complete or absent, even after a power failure.
    pub(crate) fn create(path: &Path) -> Result<LedgerKey, LedgerError> {
        let failed = |error| LedgerError::io("create the key", path)(error);
        let mut secret = [0; 32];
        File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut secret)).map_err(failed)?;
        let temporary = path.with_extension("new");
        write_secret(&temporary, &secret).map_err(failed)?;
        fs::rename(&temporary, path).map_err(failed)?;
        if let Some(folder) = path.parent() {
            private_file::sync_folder(folder).map_err(failed)?;
        }
        LedgerKey::derive(&secret).ok_or_else(|| LedgerError::BadKey { path: path.to_owned() })
    }

    pub(crate) fn derive(secret: &[u8; 32]) -> Option<LedgerKey> {
        let root = HmacSha256::new_from_slice(secret).ok()?;
        let child = |name: &str| HmacSha256::new_from_slice(&finalize_mac(&root, &[name.as_bytes()]).0).ok();
        Some(LedgerKey {
            chain: child("sinew ledger: chain of records")?,
            anchor: child("sinew ledger: anchors")?,
            digest: child("sinew ledger: digests of contents")?,
        })
    }

    /// Returns the seal of a line.
    pub(crate) fn seal(&self, line: &[u8]) -> SealHash {
        finalize_mac(&self.chain, &[line])
    }

    /// Returns the seal of an anchor.
    pub(crate) fn seal_anchor(&self, anchor: &[u8]) -> SealHash {
        finalize_mac(&self.anchor, &[anchor])
    }

    /// Returns a keyed digest of content that must not appear in the ledger.
    pub(crate) fn digest(&self, content: &[u8]) -> SealHash {
        finalize_mac(&self.digest, &[content])
    }
}

fn finalize_mac(prepared: &HmacSha256, parts: &[&[u8]]) -> SealHash {
    let mut mac = prepared.clone();
    parts.iter().for_each(|part| mac.update(part));
    SealHash(mac.finalize().into_bytes().into())
}

fn write_secret(path: &Path, secret: &[u8; 32]) -> io::Result<()> {
    // If an earlier start ended here, its file contains a secret that nothing uses.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut text = Vec::with_capacity(SealHash::DIGITS + 1);
    SealHash(*secret).write(&mut text);
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
    fn key_file_is_private_and_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(matches!(LedgerKey::load(&path), Err(LedgerError::KeyMissing { .. })));
        let made = LedgerKey::create(&path).unwrap();
        let read = LedgerKey::load(&path).unwrap();
        assert_eq!(made.seal(b"x"), read.seal(b"x"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        for bad in ["", "00", &"g".repeat(64), &format!("{}\n\n", "0".repeat(64))] {
            fs::write(&path, bad).unwrap();
            assert!(matches!(LedgerKey::load(&path), Err(LedgerError::BadKey { .. })), "{bad:?}");
        }
    }

    #[test]
    fn derived_keys_are_distinct() {
        let key = LedgerKey::derive(&[7; 32]).unwrap();
        let seals = [key.seal(b"same"), key.seal_anchor(b"same"), key.digest(b"same")];
        assert!(seals[0] != seals[1] && seals[1] != seals[2] && seals[0] != seals[2]);
        assert_ne!(key.seal(b"same"), LedgerKey::derive(&[8; 32]).unwrap().seal(b"same"));
    }
}
