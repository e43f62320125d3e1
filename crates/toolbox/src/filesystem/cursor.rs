//! Position in a paged listing. It names the last entry itself, so entries that appear or disappear between
//! two calls are neither repeated nor skipped.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tool::{Failure, FailureKind};

/// Position of an entry: its rank, then its path among entries of the same rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    pub(super) rank: u64,
    pub(super) path: PathBuf,
}

impl Cursor {
    pub(super) fn new(rank: u64, path: &Path) -> Self {
        Cursor { rank, path: path.to_owned() }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let parts = text.split_once('.').and_then(|(rank, path)| {
            let path = URL_SAFE_NO_PAD.decode(path).ok()?;
            Some((u64::from_str_radix(rank, 16).ok()?, PathBuf::from(OsString::from_vec(path))))
        });
        let unknown = || {
            let message = format!("`cursor` is not valid: `{}`", tool::text::shorten(text, 40));
            Failure::new(FailureKind::Conflict, message)
                .with_hint("pass next_cursor of an earlier result unchanged, or omit cursor")
        };
        parts.map(|(rank, path)| Cursor { rank, path }).ok_or_else(unknown)
    }
}

impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}.{}", self.rank, URL_SAFE_NO_PAD.encode(self.path.as_os_str().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursor_survives_formatting_and_parsing() {
        for path in [OsString::from("a/b c"), OsString::from_vec(vec![0xff, b'/', b'.']), OsString::new()] {
            let cursor = Cursor::new(u64::MAX - 7, Path::new(&path));
            assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
        }
        for text in ["", "x", "1.", "zz.YQ", "1.$$", &"1".repeat(5000)] {
            assert_eq!(Cursor::parse(text).is_ok(), text == "1.", "{text:.20}");
        }
    }

    #[test]
    fn cursors_sort_in_directory_walk_order() {
        let check = |one: &str, other: &str| {
            assert!(Cursor::new(0, Path::new(one)) < Cursor::new(0, Path::new(other)))
        };
        check("a", "a/b");
        check("a/b", "a.txt");
        check("a/z", "b");
    }
}
