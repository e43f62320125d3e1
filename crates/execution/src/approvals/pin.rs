//! The operator's PIN: what keeps another process of the same user, an agent's own shell included, from saying yes.
//!
//! It is kept as an Argon2id hash in a file for this user's eyes alone, read once at start: taking the file away does
//! not take the PIN away from a daemon that runs. It is no defence against a process that can rewrite the state and
//! restart the daemon, nor against root.

mod tries;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};

use tries::Tries;

/// What is asked of a PIN. Whoever copies the file can guess without being slowed down, at some ten guesses a second and
/// core: four digits last a quarter of an hour, six a day, six letters and digits for years.
const SHORTEST: usize = 6;
const LONGEST: usize = 128;
/// What a guess costs, ours included: memory in KiB, and passes over it.
const MEMORY: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// The PIN, if there is one.
#[derive(Debug)]
pub struct Pin {
    file: PathBuf,
    hash: Mutex<Result<Option<String>, String>>,
    tries: Arc<Tries>,
}

/// Why a PIN was not taken.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// There is one, and it was not given.
    #[error("the operator PIN is needed")]
    Missing,
    /// It is another one.
    #[error("the PIN is wrong")]
    Wrong,
    /// Too many wrong ones.
    #[error("too many wrong PINs: try again in {seconds} s")]
    TooMany {
        /// How long to wait.
        seconds: u64,
    },
    /// It is no PIN.
    #[error("a PIN has {SHORTEST} to {LONGEST} characters, at least {SHORTEST} of them visible")]
    Length,
    /// The file cannot be used.
    #[error("the operator PIN cannot be used: {0}")]
    File(String),
}

impl Pin {
    /// The PIN of this state folder. A file that is there and cannot be read is not the same as none: then nothing is
    /// approved.
    pub fn at(state: &Path) -> Pin {
        let file = state.join("operator-pin");
        let hash = match std::fs::read_to_string(&file) {
            Ok(text) => match PasswordHash::new(text.trim()) {
                Ok(_) => Ok(Some(text.trim().to_owned())),
                Err(error) => Err(format!("{}: {error}", file.display())),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("{}: {error}", file.display())),
        };
        let tries = Arc::new(Tries::at(state.join("operator-pin-tries")));
        Pin { file, hash: Mutex::new(hash), tries }
    }

    fn hash(&self) -> MutexGuard<'_, Result<Option<String>, String>> {
        self.hash.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a yes takes a PIN.
    pub fn is_set(&self) -> bool {
        !matches!(*self.hash(), Ok(None))
    }

    /// Whether this is the PIN; anything is where there is none.
    pub async fn verify(&self, given: Option<String>) -> Result<(), PinError> {
        let hash = match &*self.hash() {
            Ok(None) => return Ok(()),
            Ok(Some(hash)) => hash.clone(),
            Err(why) => return Err(PinError::File(why.clone())),
        };
        let given = given.ok_or(PinError::Missing)?;
        let tries = Arc::clone(&self.tries);
        let tried = tokio::task::spawn_blocking(move || tries.make(|| is_match(&hash, &given)));
        tried.await.unwrap_or(Err(PinError::Wrong))
    }

    /// Sets a PIN, or takes it away. Whoever does knows the one there is.
    pub async fn set(&self, given: Option<String>, new: Option<String>) -> Result<(), PinError> {
        if new.as_ref().is_some_and(|new| !is_pin(new)) {
            return Err(PinError::Length);
        }
        self.verify(given).await?;
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || write(&file, new)).await;
        let hash = written.unwrap_or_else(|_| Err(io::Error::other("a fault inside Sinew")));
        let hash = hash.map_err(|error| PinError::File(format!("{}: {error}", self.file.display())))?;
        *self.hash() = Ok(hash);
        Ok(())
    }
}

/// What cannot be seen does not count: whoever guesses begins with what is pasted by accident.
fn is_pin(new: &str) -> bool {
    let visible = new.chars().filter(|c| *c != ' ' && !tool::is_unseen(*c)).count();
    visible >= SHORTEST && new.chars().count() <= LONGEST
}

/// At the costs that the hash names.
fn is_match(hash: &str, given: &str) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(given.as_bytes(), &hash).is_ok())
}

/// Old or new, never half.
fn write(file: &Path, new: Option<String>) -> io::Result<Option<String>> {
    let Some(new) = new else {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        };
    };
    let salt =
        SaltString::encode_b64(tool::CallId::fresh().to_string().get(19..35).unwrap_or_default().as_bytes());
    let salt = salt.map_err(|error| io::Error::other(error.to_string()))?;
    let costs = Params::new(MEMORY, PASSES, 1, None).map_err(|error| io::Error::other(error.to_string()))?;
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, costs);
    let hash = argon2.hash_password(new.as_bytes(), &salt);
    let hash = hash.map_err(|error| io::Error::other(error.to_string()))?.to_string();
    let beside = file.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    out.write_all(hash.as_bytes())?;
    out.sync_all()?;
    std::fs::rename(&beside, file)?;
    Ok(Some(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_has_six_characters_that_can_be_seen() {
        let check = |new: &str, expect: bool| assert_eq!(is_pin(new), expect, "{new:?}");
        check("135790", true);
        check("pass phrase", true);
        check("13579", false);
        check(&"\u{200b}".repeat(6), false);
        check("1 2 3 4 5 ", false);
        check("12345\u{202e}\t\n", false);
        check(&"x".repeat(128), true);
        check(&"x".repeat(129), false);
    }
}
