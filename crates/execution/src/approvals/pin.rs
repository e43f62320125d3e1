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
    hash: Arc<Mutex<Hash>>,
    tries: Arc<Tries>,
    /// One change at a time, from asking for the old one to having the new one on disk.
    changing: Arc<Mutex<()>>,
}

/// The hash of the PIN, none, or why it cannot be read.
type Hash = Result<Option<String>, String>;

/// Whoever has this has given the PIN, or there is none. Only [`Pin::verify`] makes one.
#[derive(Debug)]
pub struct OperatorProof(());

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
        Pin { file, hash: Arc::new(Mutex::new(hash)), tries, changing: Arc::default() }
    }

    /// Whether a yes takes a PIN.
    pub fn is_set(&self) -> bool {
        !matches!(*known(&self.hash), Ok(None))
    }

    /// Whether this is the PIN; anything is where there is none.
    pub async fn verify(&self, given: Option<String>) -> Result<OperatorProof, PinError> {
        if self.is_set() {
            let (hash, tries) = (Arc::clone(&self.hash), Arc::clone(&self.tries));
            blocking(move || check(&hash, &tries, given)).await?;
        }
        Ok(OperatorProof(()))
    }

    /// Sets a PIN, or takes it away. Whoever does knows the one there is. It happens even if whoever asked goes away
    /// meanwhile: what is known here is what is on disk.
    pub async fn set(&self, given: Option<String>, new: Option<String>) -> Result<(), PinError> {
        if new.as_ref().is_some_and(|new| !is_pin(new)) {
            return Err(PinError::Length);
        }
        let (file, changing) = (self.file.clone(), Arc::clone(&self.changing));
        let (hash, tries) = (Arc::clone(&self.hash), Arc::clone(&self.tries));
        blocking(move || {
            let _turn = changing.lock().unwrap_or_else(PoisonError::into_inner);
            check(&hash, &tries, given)?;
            let unwritten = |error: io::Error| PinError::File(format!("{}: {error}", file.display()));
            let written = write(&file, new).map_err(unwritten)?;
            *known(&hash) = Ok(written);
            Ok(())
        })
        .await
    }
}

async fn blocking(work: impl FnOnce() -> Result<(), PinError> + Send + 'static) -> Result<(), PinError> {
    let fault = |_| Err(PinError::File("a fault inside Sinew; its log has the place".to_owned()));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(fault)
}

fn known(hash: &Mutex<Hash>) -> MutexGuard<'_, Hash> {
    hash.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether this is the PIN. A try costs time.
fn check(hash: &Mutex<Hash>, tries: &Tries, given: Option<String>) -> Result<(), PinError> {
    let hash = match &*known(hash) {
        Ok(None) => return Ok(()),
        Ok(Some(hash)) => hash.clone(),
        Err(why) => return Err(PinError::File(why.clone())),
    };
    let given = given.ok_or(PinError::Missing)?;
    tries.make(|| is_match(&hash, &given))
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
    let salt = SaltString::encode_b64(tool::fresh_session_id().as_bytes());
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

    #[tokio::test]
    async fn of_two_that_are_set_at_once_the_first_is_the_one_that_the_second_must_know() {
        let folder = tempfile::tempdir().unwrap();
        let pin = Pin::at(folder.path());
        let set = |new: &str| pin.set(None, Some(new.to_owned()));
        let (one, two) = tokio::join!(set("first one"), set("second one"));
        let (won, lost) = if one.is_ok() { ("first one", two) } else { ("second one", one) };
        assert!(matches!(lost, Err(PinError::Missing)), "{lost:?}");
        assert!(pin.verify(Some(won.to_owned())).await.is_ok());
        let restarted = Pin::at(folder.path());
        assert!(restarted.verify(Some(won.to_owned())).await.is_ok(), "what is known is what is on disk");
    }

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
