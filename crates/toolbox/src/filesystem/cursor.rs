//! Where a page of a listing ended. It names the last entry itself, so that entries which come and go in between are
//! neither shown twice nor left out.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tool::{Failure, FailureKind};

/// An entry by its rank, and among those of one rank by its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cursor {
    pub(super) rank: u64,
    pub(super) path: PathBuf,
}

impl Cursor {
    pub(super) fn at(rank: u64, path: &Path) -> Self {
        Cursor { rank, path: path.to_owned() }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let parts = text.split_once('.').and_then(|(rank, path)| {
            let path = URL_SAFE_NO_PAD.decode(path).ok()?;
            Some((u64::from_str_radix(rank, 16).ok()?, PathBuf::from(OsString::from_vec(path))))
        });
        let unknown = || {
            let message = format!("`cursor` is not one that an answer gave: `{}`", tool::shorten(text, 40));
            Failure::new(FailureKind::Conflict, message)
                .hint("hand in next_cursor as it is, or leave cursor out")
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
    fn a_cursor_comes_back_as_it_was() {
        for path in [OsString::from("a/b c"), OsString::from_vec(vec![0xff, b'/', b'.']), OsString::new()] {
            let cursor = Cursor::at(u64::MAX - 7, Path::new(&path));
            assert_eq!(Cursor::parse(&cursor.to_string()).unwrap(), cursor);
        }
        for text in ["", "x", "1.", "zz.YQ", "1.$$", &"1".repeat(5000)] {
            assert_eq!(Cursor::parse(text).is_ok(), text == "1.", "{text:.20}");
        }
    }

    #[test]
    fn entries_follow_in_the_order_of_a_walk() {
        let check =
            |one: &str, other: &str| assert!(Cursor::at(0, Path::new(one)) < Cursor::at(0, Path::new(other)));
        check("a", "a/b");
        check("a/b", "a.txt");
        check("a/z", "b");
    }
}
