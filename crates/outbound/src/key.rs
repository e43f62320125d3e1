//! A key: from the keychain, from a file that nobody else can read, or from a variable, in this order. It is read when it is
//! needed and printed nowhere.

mod keychain;

use std::fmt;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// No key is longer.
const LONGEST: u64 = 4096;

/// Where a key is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPlaces {
    /// The account of the keychain item `sinew`.
    pub account: String,
    /// A file of mode 0600.
    pub file: Option<PathBuf>,
    /// A variable of the daemon.
    pub variable: Option<String>,
}

/// One word of plain ASCII that proves who asks. It has no form that could be printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key itself, for whoever sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// A key on one line.
    fn of(text: &str) -> Option<Key> {
        let key = text.trim();
        let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic());
        is_word.then(|| Key(key.to_owned()))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl KeyPlaces {
    /// The key, or where it would be looked for. May block: a keychain asks its owner.
    pub fn find(&self) -> Result<Key, String> {
        if let Some(key) = keychain::find(&self.account).as_deref().and_then(Key::of) {
            return Ok(key);
        }
        if let Some(file) = &self.file {
            return read(file);
        }
        let variable = self.variable.as_deref().unwrap_or_default();
        let named = std::env::var(variable).ok().as_deref().and_then(Key::of);
        named.ok_or_else(|| {
            let account = &self.account;
            let place = match cfg!(target_os = "macos") {
                true => format!("a keychain item `sinew` with the account `{account}`, "),
                false => String::new(),
            };
            let variable = match variable {
                "" => "the variable that `key_variable` names".to_owned(),
                variable => format!("the variable {variable}"),
            };
            format!("no key: put it in {place}`key_file` (mode 0600) or {variable}")
        })
    }
}

/// The key in a file. What others can read is no secret, and using it would hide that.
fn read(path: &Path) -> Result<Key, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the key file `{shown}` cannot be read: {error}");
    // A FIFO must not keep us waiting for whoever writes to it.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() {
        return Err(format!("the key file `{shown}` is no file"));
    }
    if facts.mode() & 0o077 != 0 {
        return Err(format!("the key file `{shown}` can be read by others: chmod 600 it"));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(unreadable)?;
    Key::of(&text).ok_or_else(|| format!("the key file `{shown}` holds no key"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_is_private_and_holds_one_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let places = KeyPlaces { file: Some(file.clone()), ..KeyPlaces::default() };
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
        check("", 0o600, Err("holds no key"));
        check("abc\r\nX-Evil: 1", 0o600, Err("holds no key"));
        std::fs::remove_file(&file).unwrap();
        assert!(places.find().unwrap_err().contains("cannot be read"));
        let variable = |name: Option<&str>| {
            KeyPlaces { variable: name.map(str::to_owned), ..KeyPlaces::default() }.find().unwrap_err()
        };
        assert!(variable(Some("SINEW_NO_SUCH_KEY")).contains("the variable SINEW_NO_SUCH_KEY"));
        assert!(variable(None).contains("`key_variable`"));
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("key");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&fifo).status();
        assert!(made.unwrap().success());
        for file in [fifo, folder.path().to_owned()] {
            let places = KeyPlaces { file: Some(file), ..KeyPlaces::default() };
            assert!(places.find().unwrap_err().contains("is no file"));
        }
    }

    #[test]
    fn a_key_is_not_printed() {
        assert_eq!(format!("{:?}", Key::of("abc-123")), "Some([key])");
    }
}
