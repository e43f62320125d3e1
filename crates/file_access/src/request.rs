//! Paths that a call will touch, and the checks on their text before any system call.
//!
//! The text is taken literally: `~`, `$HOME`, `%2e` and `file://` have no meaning, and the kernel resolves
//! `..`. Names that are not UTF-8 have the spelling of `tool::text::path_to_text`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tool::definition::PathAccess;
use tool::text::SharedText;

use crate::error::OpenError;
use crate::links::HardLinkSearch;
use crate::platform;

/// Maximum length of a single name on the supported file systems, in bytes.
const MAX_NAME_BYTES: usize = 255;

/// One path that a call names. Its parts are shared, since every stage keeps them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRequest {
    /// Argument that names the path.
    pub key: SharedText,
    /// Path as the caller wrote it.
    pub text: SharedText,
    /// Access that the tool declares.
    pub access: PathAccess,
    /// Absolute directory that a relative path starts from.
    pub base: Arc<Path>,
}

impl PathRequest {
    /// Returns the path that the kernel resolves: the text, joined to the base if it is relative, otherwise
    /// unchanged.
    pub fn absolute(&self) -> PathBuf {
        let (base, text) = (&*self.base, tool::text::parse_path(&self.text));
        if self.text.starts_with('/') {
            return PathBuf::from(text.into_owned());
        }
        // Same result as `join`, with a single allocation.
        let mut whole = PathBuf::with_capacity(base.as_os_str().len() + 1 + text.len());
        whole.push(base);
        whole.push(&*text);
        whole
    }
}

/// Source of the paths that a call will touch.
pub trait PathSource {
    /// Returns every path of the call, in the order of its arguments.
    fn path_requests(&self) -> Vec<PathRequest>;

    /// Returns the folders to search for other hard links of a file, or `None` if they do not matter. Called
    /// only if a file has several.
    fn link_search(&self) -> Option<HardLinkSearch> {
        None
    }
}

/// Path text that passed the checks and may be given to the kernel.
#[derive(Debug)]
pub(crate) struct CheckedPathText {
    /// Absolute path, otherwise unchanged. The kernel resolves this one.
    pub(crate) raw: PathBuf,
    /// The path without `//`, `/./` and a final slash, which do not change the object. `..` stays.
    pub(crate) normalized: PathBuf,
    /// Form of the end of the text.
    pub(crate) ending: PathEnding,
}

/// Object kind implied by the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathEnding {
    /// The text does not imply a kind.
    Unspecified,
    /// The text ends in `/` or `/.`, so it must name a directory.
    Directory,
}

impl CheckedPathText {
    pub(crate) fn check(request: &PathRequest) -> Result<Self, OpenError> {
        let (key, text) = (|| request.key.to_string(), &*request.text);
        if text.is_empty() {
            return Err(OpenError::Empty { key: key() });
        }
        if text.contains('\0') {
            return Err(OpenError::Nul { key: key() });
        }
        if !request.base.is_absolute() {
            return Err(OpenError::RelativeBase { key: key(), base: request.base.to_path_buf() });
        }
        let raw = request.absolute();
        let bytes = raw.as_os_str().len();
        if bytes > platform::MAX_PATH_BYTES {
            return Err(OpenError::PathTooLong { key: key(), bytes, limit: platform::MAX_PATH_BYTES });
        }
        let mut names = raw.as_os_str().as_bytes().split(|byte| *byte == b'/');
        if let Some(name) = names.find(|name| name.len() > MAX_NAME_BYTES) {
            let start = String::from_utf8_lossy(name).chars().take(24).collect();
            return Err(OpenError::NameTooLong {
                key: key(),
                start,
                bytes: name.len(),
                limit: MAX_NAME_BYTES,
            });
        }
        let ending = if text.ends_with('/') || text.ends_with("/.") {
            PathEnding::Directory
        } else {
            PathEnding::Unspecified
        };
        Ok(CheckedPathText { normalized: normalize(&raw), raw, ending })
    }
}

/// Drops empty and `.` components, which never change what a path resolves to. Dropping `..` could.
fn normalize(path: &Path) -> PathBuf {
    let mut names = path.as_os_str().as_bytes().split(|byte| *byte == b'/').skip(1);
    if path.is_absolute() && names.all(|name| !matches!(name, b"" | b".")) {
        return path.to_owned();
    }
    path.components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<CheckedPathText, OpenError> {
        CheckedPathText::check(&PathRequest {
            key: "path".into(),
            text: text.into(),
            access: PathAccess::Read,
            base: Path::new("/ws").into(),
        })
    }

    #[test]
    fn texts_are_taken_literally() {
        for (text, typed) in [
            ("a.txt", "/ws/a.txt"),
            ("/etc/hosts", "/etc/hosts"),
            ("~root/x", "/ws/~root/x"),
            ("$HOME/x", "/ws/$HOME/x"),
            ("%2e%2e/x", "/ws/%2e%2e/x"),
            ("file:///etc/passwd", "/ws/file:/etc/passwd"),
            (r"\\?\C:\x", r"/ws/\\?\C:\x"),
            ("a//b/./c/", "/ws/a/b/c"),
            ("//a", "/a"),
            ("a/.", "/ws/a"),
            (".a/..b", "/ws/.a/..b"),
            ("a/../f", "/ws/a/../f"),
            (".", "/ws"),
            ("/", "/"),
        ] {
            assert_eq!(check(text).unwrap().normalized.as_os_str(), typed, "{text}");
        }
    }

    #[test]
    fn bad_texts_are_refused_with_the_rule_they_break() {
        let name = |length: usize| "n".repeat(length);
        let path = |bytes: usize| format!("/{}", "a/".repeat(bytes))[..bytes].to_owned();
        for (text, detail) in [
            (String::new(), "empty"),
            ("a\0b".into(), "nul"),
            (name(256), "name_too_long"),
            (format!("a/{}/b", name(256)), "name_too_long"),
            (path(platform::MAX_PATH_BYTES + 1), "path_too_long"),
            ("a/".repeat(10_000), "path_too_long"),
        ] {
            let error = check(&text).unwrap_err();
            assert_eq!(error.detail(), detail, "{error}");
            assert!(error.to_string().contains("`path`"), "{error}");
        }
        assert!(check(&name(255)).is_ok());
        assert!(check(&path(platform::MAX_PATH_BYTES)).is_ok());
    }

    #[test]
    fn a_relative_base_is_refused() {
        let request = PathRequest {
            key: "p".into(),
            text: "x".into(),
            access: PathAccess::Read,
            base: Path::new("ws").into(),
        };
        assert_eq!(CheckedPathText::check(&request).unwrap_err().detail(), "relative_base");
    }
}
