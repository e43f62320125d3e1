//! API keys, from the keychain, a private file or an environment variable, in this order. A key is read when
//! it is needed and never printed.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// Maximum length of a key file in bytes.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// Minimum length of a key that is masked in texts. A shorter one would match everywhere.
const MIN_MASKED_LENGTH: usize = 6;
/// Replacement for a key in a text.
const MASK: &str = "[key]";

/// Sources of a key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySources {
    /// Account of the keychain item `sinew`.
    pub account: String,
    /// File with mode 0600.
    pub file: Option<PathBuf>,
    /// Environment variable of the daemon.
    pub variable: Option<String>,
}

/// Secret of printable ASCII characters. Its `Debug` output does not contain it.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Returns the secret, for sending it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns the text with the key masked, and with a part of the key masked where a truncated text begins or
    /// ends with it. Returns `None` if the text contains neither.
    pub fn mask(&self, text: &str) -> Option<String> {
        let key = self.0.as_str();
        if key.len() < MIN_MASKED_LENGTH {
            return None;
        }
        let whole = text.contains(key).then(|| text.replace(key, MASK));
        let ended = mask_prefix_at_end(whole.as_deref().unwrap_or(text), key).or(whole);
        mask_suffix_at_start(ended.as_deref().unwrap_or(text), key).or(ended)
    }

    /// Parses a key from a single line.
    pub fn parse(text: &str) -> Option<ApiKey> {
        let key = text.trim();
        let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic());
        is_word.then(|| ApiKey(key.to_owned()))
    }
}

/// Masks a prefix of the key at the end of a truncated text.
fn mask_prefix_at_end(text: &str, key: &str) -> Option<String> {
    let text = text.trim_end_matches('…');
    let before =
        (MIN_MASKED_LENGTH..key.len()).rev().find_map(|length| text.strip_suffix(key.get(..length)?))?;
    Some(format!("{before}{MASK}"))
}

/// Masks a suffix of the key at the start of a text whose beginning is missing.
fn mask_suffix_at_start(text: &str, key: &str) -> Option<String> {
    let starts = 1..=key.len().saturating_sub(MIN_MASKED_LENGTH);
    let after = starts.into_iter().find_map(|start| text.strip_prefix(key.get(start..)?))?;
    Some(format!("{MASK}{after}"))
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl KeySources {
    /// Returns the key, or a message that lists its possible sources. May block: a keychain can ask its
    /// owner.
    pub fn find(&self) -> Result<ApiKey, String> {
        let refused = match read_keychain_answer(keychain_password(&self.account)) {
            Ok(Some(key)) => return Ok(key),
            Ok(None) => None,
            Err(reason) => Some(reason),
        };
        // A keychain that refuses is not a keychain without the key: the message names it.
        self.find_elsewhere().map_err(|missing| match refused {
            Some(reason) => format!("{missing}; {reason}"),
            None => missing,
        })
    }

    /// Reads the file, or the variable if no file is set.
    fn find_elsewhere(&self) -> Result<ApiKey, String> {
        if let Some(file) = &self.file {
            return read_key_file(file);
        }
        let variable = self.variable.as_deref().unwrap_or_default();
        let named = std::env::var(variable).ok().as_deref().and_then(ApiKey::parse);
        named.ok_or_else(|| {
            let account = &self.account;
            let keychain_text = match cfg!(target_os = "macos") {
                true => format!("a keychain item `sinew` with the account `{account}`, "),
                false => String::new(),
            };
            let variable = match variable {
                "" => "the variable that `key_variable` names".to_owned(),
                variable => format!("the variable {variable}"),
            };
            format!("no key: put it in {keychain_text}`key_file` (mode 0600) or {variable}")
        })
    }
}

/// Password of a keychain item, or the status with which the keychain refused it (`OSStatus`).
type KeychainAnswer = Result<Vec<u8>, i32>;

/// Status of a keychain without such an item.
const ITEM_NOT_FOUND: i32 = -25300;

/// Returns the key of a keychain item, or none if there is no item. The error states why the keychain returned no key.
fn read_keychain_answer(answer: KeychainAnswer) -> Result<Option<ApiKey>, String> {
    let reason = match answer {
        Ok(password) => match std::str::from_utf8(&password).ok().and_then(ApiKey::parse) {
            Some(key) => return Ok(Some(key)),
            None => "its item `sinew` does not contain a key".to_owned(),
        },
        Err(ITEM_NOT_FOUND) => return Ok(None),
        Err(-25308) => "it is locked and cannot ask for its password here: unlock it once".to_owned(),
        Err(-25293) => "its password was wrong".to_owned(),
        Err(-128) => "the access was denied in its window".to_owned(),
        Err(status) => format!("status {status}"),
    };
    Err(format!("the keychain gave no key: {reason}"))
}

/// Reads the keychain item `sinew` with this account.
#[cfg(target_os = "macos")]
fn keychain_password(account: &str) -> KeychainAnswer {
    security_framework::passwords::get_generic_password("sinew", account).map_err(|error| error.code())
}

/// Finds no item: only macOS has a keychain.
#[cfg(not(target_os = "macos"))]
fn keychain_password(_account: &str) -> KeychainAnswer {
    Err(ITEM_NOT_FOUND)
}

/// Reads the key from a file. Refuses a file that other users can read: it is no secret, and using it would
/// hide that.
fn read_key_file(path: &Path) -> Result<ApiKey, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the key file `{shown}` cannot be read: {error}");
    // A FIFO must not block until a writer opens it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Err(format!("the key file `{shown}` is not a regular file"));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(format!("the key file `{shown}` is accessible to other users: run `chmod 600` on it"));
    }
    let mut text = String::new();
    file.take(MAX_KEY_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    ApiKey::parse(&text).ok_or_else(|| format!("the key file `{shown}` does not contain a key"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn key_file_must_be_private_and_contain_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let places = KeySources { file: Some(file.clone()), ..KeySources::default() };
        let check = |content: &str, mode: u32, expect: Result<&str, &str>| {
            write(&file, content).unwrap();
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            match (places.find(), expect) {
                (Ok(key), Ok(expect)) => assert_eq!(key.reveal(), expect),
                (Err(reason), Err(expect)) => {
                    assert!(reason.contains(expect) && !reason.contains("abc"), "{reason}")
                }
                (found, expect) => panic!("{found:?} instead of {expect:?}"),
            }
            set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        };
        check(" abc-123\n", 0o600, Ok("abc-123"));
        check("abc-123", 0o400, Ok("abc-123"));
        check("abc-123", 0o640, Err("chmod 600"));
        check("abc-123", 0o604, Err("chmod 600"));
        check("", 0o600, Err("does not contain a key"));
        check("abc\r\nX-Evil: 1", 0o600, Err("does not contain a key"));
        std::fs::remove_file(&file).unwrap();
        assert!(places.find().unwrap_err().contains("cannot be read"));
        let variable = |name: Option<&str>| {
            KeySources { variable: name.map(str::to_owned), ..KeySources::default() }.find().unwrap_err()
        };
        assert!(variable(Some("SINEW_NO_SUCH_KEY")).contains("the variable SINEW_NO_SUCH_KEY"));
        assert!(variable(None).contains("`key_variable`"));
    }

    #[test]
    fn special_files_are_refused_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("key");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&fifo).status();
        assert!(made.unwrap().success());
        for file in [fifo, folder.path().to_owned()] {
            let places = KeySources { file: Some(file), ..KeySources::default() };
            assert!(places.find().unwrap_err().contains("is not a regular file"));
        }
    }

    #[test]
    fn each_answer_of_a_keychain_is_told_apart() {
        let read = |answer| read_keychain_answer(answer);
        let found = |answer: &[u8]| read(Ok(answer.to_vec()));
        assert_eq!(found(b"abc-123\n").unwrap().unwrap().reveal(), "abc-123");
        assert_eq!(read(Err(ITEM_NOT_FOUND)), Ok(None), "no item is no error");
        for bad in [&b""[..], b"two words", b"\xff\xfe", b"a\nb"] {
            let reason = found(bad).unwrap_err();
            assert!(reason.contains("does not contain a key") && !reason.contains("two"), "{reason}");
        }
        for (status, expect) in [(-25308, "locked"), (-25293, "wrong"), (-128, "denied"), (-34018, "-34018")]
        {
            assert!(read(Err(status)).unwrap_err().contains(expect), "{status}");
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", ApiKey::parse("abc-123")), "Some([key])");
    }
}
