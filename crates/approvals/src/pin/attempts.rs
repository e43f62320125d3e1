//! Counter of wrong PINs and the resulting delay. An attempt is written to disk before it is made, so that
//! neither concurrent attempts nor a restart of the daemon evade the count.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::PinError;
use crate::clock::saturating_add;

/// Wrong attempts before a delay applies. Each further attempt doubles the delay.
const FREE_ATTEMPTS: u32 = 3;
const MAX_PAUSE: Duration = Duration::from_secs(300);

/// Counter of attempts, backed by a file.
#[derive(Debug)]
pub(super) struct PinAttempts {
    file: PathBuf,
    state: Mutex<AttemptState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AttemptState {
    wrong: u32,
    not_before: Option<Timestamp>,
}

impl PinAttempts {
    /// Loads the counter. A file that cannot be read does not reset it.
    pub(super) fn at(file: PathBuf) -> PinAttempts {
        let made = match std::fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .unwrap_or(AttemptState { wrong: FREE_ATTEMPTS, not_before: None }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => AttemptState::default(),
            Err(_) => AttemptState { wrong: FREE_ATTEMPTS, not_before: None },
        };
        PinAttempts { file, state: Mutex::new(made) }
    }

    /// Makes an attempt and resets the counter if it succeeds. Blocking.
    pub(super) fn attempt(&self, is_right: impl FnOnce() -> bool) -> Result<(), PinError> {
        // One at a time: each attempt takes much memory, and its result decides whether the next one has to
        // wait.
        let mut made = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Timestamp::now();
        let unwritten = |error: io::Error| PinError::File(format!("{}: {error}", self.file.display()));
        let sound = made.with_limited_pause(now);
        if sound != *made {
            write(&self.file, sound).map_err(unwritten)?;
            *made = sound;
        }
        let next = made.with_attempt(now)?;
        write(&self.file, next).map_err(unwritten)?;
        *made = next;
        if !is_right() {
            return Err(PinError::Wrong);
        }
        *made = AttemptState::default();
        // If the file remains, the next start counts this successful attempt as wrong.
        let _ = std::fs::remove_file(&self.file);
        Ok(())
    }
}

impl AttemptState {
    /// Limits the remaining delay to `MAX_PAUSE` if the clock was set back since it was written.
    fn with_limited_pause(self, now: Timestamp) -> AttemptState {
        AttemptState {
            not_before: self.not_before.map(|then| then.min(saturating_add(now, MAX_PAUSE))),
            ..self
        }
    }

    /// Counts one more attempt, or returns an error if the delay has not passed.
    fn with_attempt(self, now: Timestamp) -> Result<AttemptState, PinError> {
        let remaining =
            self.not_before.map(|then| Duration::try_from(then.duration_since(now)).unwrap_or_default());
        if let Some(remaining) = remaining.filter(|remaining| !remaining.is_zero()) {
            return Err(PinError::TooManyAttempts { seconds: remaining.as_secs() + 1 });
        }
        let wrong = self.wrong.saturating_add(1);
        let beyond = wrong.saturating_sub(FREE_ATTEMPTS);
        let pause = Duration::from_secs(1 << beyond.min(16)).min(MAX_PAUSE);
        Ok(AttemptState { wrong, not_before: (beyond > 0).then(|| saturating_add(now, pause)) })
    }
}

/// Replaces the file atomically.
fn write(file: &Path, made: AttemptState) -> io::Result<()> {
    let beside = file.with_extension("new");
    let _ = std::fs::remove_file(&beside);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    out.write_all(&serde_json::to_vec(&made)?)?;
    out.sync_all()?;
    std::fs::rename(&beside, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_attempts_are_counted_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tries");
        // A new instance each time, as after a restart of the daemon.
        let counted = |expect: u32| {
            assert!(matches!(PinAttempts::at(file.clone()).attempt(|| false), Err(PinError::Wrong)));
            let made: AttemptState = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            assert_eq!(made.wrong, expect);
        };
        (1..=4).for_each(counted);
        std::fs::write(&file, "nonsense").unwrap();
        counted(FREE_ATTEMPTS + 1);
        // The next delay is five minutes: longer than any machine takes to reach the next line.
        std::fs::write(&file, r#"{"wrong": 12, "not_before": null}"#).unwrap();
        counted(13);
        let locked = PinAttempts::at(file.clone()).attempt(|| panic!("no check is due"));
        assert!(matches!(locked, Err(PinError::TooManyAttempts { .. })), "{locked:?}");
        std::fs::write(&file, r#"{"wrong": 2, "not_before": null}"#).unwrap();
        assert!(PinAttempts::at(file.clone()).attempt(|| true).is_ok());
        assert!(!file.exists(), "a right PIN resets the counter");
        // The clock was ahead when the delay was written and was corrected later: the delay ends, and a
        // restart keeps its end.
        std::fs::write(&file, r#"{"wrong": 5, "not_before": "2999-01-01T00:00:00Z"}"#).unwrap();
        let tries = PinAttempts::at(file.clone());
        assert!(matches!(tries.attempt(|| panic!("no check is due")), Err(PinError::TooManyAttempts { .. })));
        let written: AttemptState = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert!(written.not_before.unwrap() <= saturating_add(Timestamp::now(), MAX_PAUSE), "{written:?}");
        std::fs::remove_dir_all(folder.path()).unwrap();
        let unwritten = PinAttempts::at(file).attempt(|| panic!("the PIN is checked without a counter"));
        assert!(matches!(unwritten, Err(PinError::File(_))), "{unwritten:?}");
    }

    #[test]
    fn delays_double_up_to_five_minutes() {
        let start = Timestamp::from_second(1_000_000).unwrap();
        let (mut made, mut now, mut pauses) = (AttemptState::default(), start, Vec::new());
        for _ in 0..14 {
            made = made.with_attempt(now).unwrap();
            let until = made.not_before.unwrap_or(now);
            pauses.push(until.duration_since(now).as_secs());
            now = until;
        }
        assert_eq!(pauses, [0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        let set_back = made.with_limited_pause(start);
        let Err(PinError::TooManyAttempts { seconds }) = set_back.with_attempt(start) else {
            panic!("no delay")
        };
        assert_eq!(seconds, 301, "the clock was set back");
        assert!(
            set_back
                .with_limited_pause(saturating_add(start, MAX_PAUSE))
                .with_attempt(saturating_add(start, MAX_PAUSE))
                .is_ok()
        );
    }
}
