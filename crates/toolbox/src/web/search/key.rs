//! The key of a provider: from the keychain, from a file that nobody else can read, or from a variable, in this order.
//! It is read when it is needed, sent to its service and to nobody else, and printed nowhere.

mod keychain;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::word;
use crate::web::options::Provider;

/// No key is longer.
const LONGEST: u64 = 4096;

/// The key of a provider, or where it would be looked for.
pub(super) fn find(provider: &Provider) -> Result<String, String> {
    let account = word(provider.engine);
    if let Some(key) = keychain::find(account).as_deref().and_then(usable) {
        return Ok(key);
    }
    if let Some(file) = &provider.key_file {
        return read(file);
    }
    let variable = provider.key_variable.as_deref().unwrap_or_default();
    let named = std::env::var(variable).ok().as_deref().and_then(usable);
    named.ok_or_else(|| {
        let place = if cfg!(target_os = "macos") { "a keychain item `sinew`, " } else { "" };
        format!("no key: put it in {place}`key_file` (mode 0600) or the variable {variable}")
    })
}

/// A key on one line.
fn usable(text: &str) -> Option<String> {
    let key = text.trim();
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_graphic());
    is_word.then(|| key.to_owned())
}

/// The key in a file. What others can read is no secret, and using it would hide that.
fn read(path: &Path) -> Result<String, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("the key file `{shown}` cannot be read: {error}");
    let file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if !facts.is_file() || facts.mode() & 0o077 != 0 {
        return Err(format!("the key file `{shown}` can be read by others: chmod 600 it"));
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text).map_err(unreadable)?;
    usable(&text).ok_or_else(|| format!("the key file `{shown}` holds no key"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use page::Engine;

    use super::*;

    #[test]
    fn a_key_file_is_private_and_holds_one_word() {
        let folder = std::env::temp_dir().join(format!("sinew-key-{}", std::process::id()));
        let provider = Provider { key_file: Some(folder.clone()), ..Provider::of(Engine::Brave) };
        let check = |content: &str, mode: u32, expect: Result<&str, &str>| {
            write(&folder, content).unwrap();
            set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            match (find(&provider), expect) {
                (Ok(key), Ok(expect)) => assert_eq!(key, expect),
                (Err(why), Err(expect)) => assert!(why.contains(expect) && !why.contains("abc"), "{why}"),
                (found, expect) => panic!("{found:?} instead of {expect:?}"),
            }
        };
        check(" abc-123\n", 0o600, Ok("abc-123"));
        check("abc-123", 0o400, Ok("abc-123"));
        check("abc-123", 0o640, Err("chmod 600"));
        check("abc-123", 0o604, Err("chmod 600"));
        check("", 0o600, Err("holds no key"));
        check("abc\r\nX-Evil: 1", 0o600, Err("holds no key"));
        std::fs::remove_file(&folder).unwrap();
        assert!(find(&provider).unwrap_err().contains("cannot be read"));
        let variable =
            Provider { key_variable: Some("SINEW_NO_SUCH_KEY".to_owned()), ..Provider::of(Engine::Brave) };
        assert!(find(&variable).unwrap_err().contains("SINEW_NO_SUCH_KEY"));
    }
}
