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

    /// Parses a key from a single line.
    fn parse(text: &str) -> Option<ApiKey> {
        let key = text.trim();
        let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic());
        is_word.then(|| ApiKey(key.to_owned()))
    }
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
        if let Some(key) = find_in_keychain(&self.account).as_deref().and_then(ApiKey::parse) {
            return Ok(key);
        }
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

/// Returns the password of the keychain item `sinew` with this account. A locked keychain, or one that cannot ask
/// its owner, gives none.
#[cfg(target_os = "macos")]
fn find_in_keychain(account: &str) -> Option<String> {
    let password = security_framework::passwords::get_generic_password("sinew", account).ok()?;
    String::from_utf8(password).ok()
}

/// Returns none: only macOS has a keychain.
#[cfg(not(target_os = "macos"))]
fn find_in_keychain(_account: &str) -> Option<String> {
    None
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
                (Err(why), Err(expect)) => assert!(why.contains(expect) && !why.contains("abc"), "{why}"),
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
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", ApiKey::parse("abc-123")), "Some([key])");
    }
}
