//! The operator PIN: keeps other processes of the same user, including the shell of an agent, from approving
//! calls.
//!
//! It is stored as an Argon2id hash in a file that only this user can read. The file is read once at start,
//! so that deleting it does not remove the PIN from a running daemon. It does not protect against a process
//! that can rewrite the state directory and restart the daemon, nor against root.

mod attempts;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use argon2::password_hash::{PasswordHash, PasswordHasher, PasswordVerifier, SaltString};
use argon2::{Algorithm, Argon2, Params, Version};

use tool::CallerEndpoint;

use attempts::PinAttempts;

/// Limits of the length of a PIN. An attacker with a copy of the file can guess offline, with about ten
/// guesses per second and core. Four digits last a quarter of an hour, six digits a day, six letters and
/// digits for years.
const MIN_CHARACTERS: usize = 6;
const MAX_CHARACTERS: usize = 128;
/// Cost of one guess, for the daemon too: memory in KiB and passes over it.
const ARGON2_MEMORY_KIB: u32 = 64 * 1024;
const ARGON2_PASSES: u32 = 3;

/// The operator PIN, if one is set.
#[derive(Debug)]
pub struct Pin {
    file: PathBuf,
    hash: Arc<Mutex<PinHash>>,
    attempts: Arc<PinAttempts>,
    /// Serialises changes, from the check of the old PIN until the new one is on disk.
    change_lock: Arc<Mutex<()>>,
}

/// Hash of the PIN, `None` without a PIN, or the reason why the file cannot be read.
type PinHash = Result<Option<String>, String>;

/// Proof that the caller gave the PIN or that none is set. Only [`Pin::verify`] creates one.
#[derive(Debug)]
pub struct OperatorProof(());

/// Reason why a PIN was rejected.
#[derive(Debug, thiserror::Error)]
pub enum PinError {
    /// A PIN is set, and none was given.
    #[error("the operator PIN is required: repeat the request with `pin`")]
    Missing,
    /// No PIN is set, and the web console needs one.
    #[error("the web console needs an operator PIN for this, and none is set: `sinew pin set`")]
    NotSet,
    /// The PIN does not match.
    #[error("the PIN is wrong")]
    Wrong,
    /// Too many wrong attempts.
    #[error("too many wrong PINs: try again in {seconds} s")]
    TooManyAttempts {
        /// Seconds to wait before the next attempt.
        seconds: u64,
    },
    /// The new PIN is too short or too long.
    #[error(
        "a PIN has {MIN_CHARACTERS} to {MAX_CHARACTERS} characters, at least {MIN_CHARACTERS} of them visible"
    )]
    InvalidLength,
    /// The file cannot be read or written.
    #[error("the operator PIN cannot be used: {0}")]
    File(String),
}

impl Pin {
    /// Loads the PIN of a state directory. A file that exists and cannot be read does not count as no PIN:
    /// nothing can be approved then.
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
        let attempts = Arc::new(PinAttempts::at(state.join("operator-pin-tries")));
        Pin { file, hash: Arc::new(Mutex::new(hash)), attempts, change_lock: Arc::default() }
    }

    /// Returns true if an approval requires a PIN.
    pub fn is_set(&self) -> bool {
        !matches!(*lock_hash(&self.hash), Ok(None))
    }

    /// Verifies a PIN. Succeeds without one if no PIN is set, except from the web console: a page in a browser is
    /// not enough to tell the operator from another program of the same user.
    pub async fn verify(
        &self,
        from: CallerEndpoint,
        entered_pin: Option<String>,
    ) -> Result<OperatorProof, PinError> {
        if from == CallerEndpoint::Console && !self.is_set() {
            return Err(PinError::NotSet);
        }
        if self.is_set() {
            let (hash, attempts) = (Arc::clone(&self.hash), Arc::clone(&self.attempts));
            run_blocking(move || check(&hash, &attempts, entered_pin)).await?;
        }
        Ok(OperatorProof(()))
    }

    /// Sets or removes the PIN; the caller must give the current one. Completes even if the client
    /// disconnects, so that the state in memory equals the file.
    pub async fn set(&self, entered_pin: Option<String>, new: Option<String>) -> Result<(), PinError> {
        if new.as_ref().is_some_and(|new| !is_valid_pin(new)) {
            return Err(PinError::InvalidLength);
        }
        let (file, changing) = (self.file.clone(), Arc::clone(&self.change_lock));
        let (hash, attempts) = (Arc::clone(&self.hash), Arc::clone(&self.attempts));
        run_blocking(move || {
            let _guard = changing.lock().unwrap_or_else(PoisonError::into_inner);
            check(&hash, &attempts, entered_pin)?;
            let unwritten = |error: io::Error| PinError::File(format!("{}: {error}", file.display()));
            let written = write(&file, new).map_err(unwritten)?;
            *lock_hash(&hash) = Ok(written);
            Ok(())
        })
        .await
    }
}

async fn run_blocking(work: impl FnOnce() -> Result<(), PinError> + Send + 'static) -> Result<(), PinError> {
    let fault = |_| Err(PinError::File("internal fault in Sinew: see its log".to_owned()));
    tokio::task::spawn_blocking(work).await.unwrap_or_else(fault)
}

fn lock_hash(hash: &Mutex<PinHash>) -> MutexGuard<'_, PinHash> {
    hash.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Checks a PIN. Counts as an attempt.
fn check(hash: &Mutex<PinHash>, attempts: &PinAttempts, entered_pin: Option<String>) -> Result<(), PinError> {
    let hash = match &*lock_hash(hash) {
        Ok(None) => return Ok(()),
        Ok(Some(hash)) => hash.clone(),
        Err(reason) => return Err(PinError::File(reason.clone())),
    };
    let entered_pin = entered_pin.ok_or(PinError::Missing)?;
    attempts.attempt(|| is_match(&hash, &entered_pin))
}

/// Invisible characters and spaces do not count: an attacker guesses accidentally pasted text first.
fn is_valid_pin(new: &str) -> bool {
    let visible = new.chars().filter(|c| *c != ' ' && !tool::text::is_invisible(*c)).count();
    visible >= MIN_CHARACTERS && new.chars().count() <= MAX_CHARACTERS
}

/// Uses the cost parameters stored in the hash.
fn is_match(hash: &str, entered_pin: &str) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(entered_pin.as_bytes(), &hash).is_ok())
}

/// Replaces the file atomically.
fn write(file: &Path, new: Option<String>) -> io::Result<Option<String>> {
    let Some(new) = new else {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        };
    };
    let salt = SaltString::encode_b64(tool::result::fresh_session_id().as_bytes());
    let salt = salt.map_err(|error| io::Error::other(error.to_string()))?;
    let costs = Params::new(ARGON2_MEMORY_KIB, ARGON2_PASSES, 1, None)
        .map_err(|error| io::Error::other(error.to_string()))?;
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
    async fn concurrent_set_must_know_the_pin_set_first() {
        let folder = tempfile::tempdir().unwrap();
        let pin = Pin::at(folder.path());
        let set = |new: &str| pin.set(None, Some(new.to_owned()));
        let (one, two) = tokio::join!(set("first one"), set("second one"));
        let (won, lost) = if one.is_ok() { ("first one", two) } else { ("second one", one) };
        assert!(matches!(lost, Err(PinError::Missing)), "{lost:?}");
        assert!(pin.verify(CallerEndpoint::Control, Some(won.to_owned())).await.is_ok());
        let restarted = Pin::at(folder.path());
        assert!(
            restarted.verify(CallerEndpoint::Console, Some(won.to_owned())).await.is_ok(),
            "memory and disk agree"
        );
    }

    #[test]
    fn pin_needs_six_visible_characters() {
        let check = |new: &str, expect: bool| assert_eq!(is_valid_pin(new), expect, "{new:?}");
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
