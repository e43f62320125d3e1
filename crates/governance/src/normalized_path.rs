//! Normalized absolute paths, without `.`, `..`, `//` or a final slash. Patterns are only matched against
//! these.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use file_access::PathRequest;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use tool::git::is_ignored_in_names;

/// Normalized absolute path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NormalizedPath(PathBuf);

impl NormalizedPath {
    /// Normalizes the text of a request lexically: `..` removes the preceding part, although a symbolic link
    /// may lead elsewhere.
    ///
    /// The result may be used to refuse a call, never to allow one.
    pub(crate) fn lexical(request: &PathRequest) -> NormalizedPath {
        let whole = request.absolute();
        if is_normalized(&whole) {
            return NormalizedPath(whole);
        }
        let mut name = PathBuf::with_capacity(whole.as_os_str().len() + 2);
        name.push("/");
        for part in whole.components() {
            match part {
                Component::ParentDir => {
                    name.pop();
                }
                Component::Normal(part) => name.push(part),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        NormalizedPath(name)
    }

    /// Returns the folders that a text enters and leaves again by `..`, resolved lexically.
    pub(crate) fn folders_left(request: &PathRequest) -> Vec<NormalizedPath> {
        if count_parent_parts(&request.base) == 0 && count_parent_parts(Path::new(&*request.text)) == 0 {
            return Vec::new();
        }
        let mut name = PathBuf::from("/");
        let mut folders_left = Vec::new();
        for part in request.absolute().components() {
            match part {
                Component::ParentDir => {
                    folders_left.push(NormalizedPath(name.clone()));
                    name.pop();
                }
                Component::Normal(part) => name.push(part),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        folders_left
    }

    /// Returns the normalized path of an opened object. `None` if the path is not canonical; no rule may then
    /// allow it.
    pub(crate) fn canonical(path: &Path) -> Option<NormalizedPath> {
        if is_normalized(path) {
            return Some(NormalizedPath(path.to_owned()));
        }
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        (path.is_absolute() && plain).then(|| NormalizedPath(path.components().collect()))
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    /// Returns true if the path is this folder or inside it.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        self.has_prefix(folder) || self.0.starts_with(folder)
    }

    /// Returns true if the path is this folder or inside it, comparing bytes. The path is normalized, so a
    /// prefix that ends at a separator is normalized too.
    fn has_prefix(&self, folder: &Path) -> bool {
        let rest = self.0.as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes());
        matches!(rest, Some([] | [b'/', ..]))
    }

    /// Returns the path with its case folded, for comparison on volumes that may ignore case.
    pub(crate) fn case_folded(&self) -> NormalizedPath {
        let folded = PathBuf::from(fold_case(&path_text(&self.0)));
        if is_normalized(&folded) {
            return NormalizedPath(folded);
        }
        // Removing ignorable characters can leave a part empty, `.` or `..`, which a normalized path must not
        // contain.
        let named = |part: &Component| matches!(part, Component::RootDir | Component::Normal(_));
        NormalizedPath(folded.components().filter(named).collect())
    }
}

/// Folder that many paths are compared with. Caches whether it is normalized, so that a byte comparison is
/// enough.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FolderPrefix {
    path: PathBuf,
    is_normalized: bool,
}

impl FolderPrefix {
    pub(crate) fn new(path: PathBuf) -> Self {
        FolderPrefix { is_normalized: is_normalized(&path), path }
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.path
    }

    /// Returns true if the path is this folder or inside it.
    pub(crate) fn contains(&self, name: &NormalizedPath) -> bool {
        // Two normalized paths have only one spelling, so the byte comparison is exact.
        name.has_prefix(&self.path) || (!self.is_normalized && name.is_in(&self.path))
    }
}

impl std::fmt::Display for NormalizedPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Converts a path to text like [`Path::to_string_lossy`]. The UTF-8 check first is faster, because most
/// paths are valid UTF-8.
pub(crate) fn path_text(path: &Path) -> Cow<'_, str> {
    path.to_str().map_or_else(|| path.to_string_lossy(), Cow::Borrowed)
}

/// Returns the number of `..` parts of a path.
pub(crate) fn count_parent_parts(path: &Path) -> usize {
    path_parts(path).filter(|part| *part == b"..").count()
}

/// Returns true if the path is absolute and already normalized. Most paths are, and this check is cheaper
/// than rebuilding the path part by part.
fn is_normalized(path: &Path) -> bool {
    path.is_absolute() && path_parts(path).skip(1).all(|part| !matches!(part, b"" | b"." | b".."))
}

fn path_parts(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/')
}

/// Folds the differences that lenient file systems ignore in names: case (`ß` equals `ss`, the long `ſ`
/// equals `s`, the Kelvin sign equals `k`), the normal form (`é` in one character or two), and zero-width
/// characters. Converting through upper case folds the special letters. Folding more than a file system does
/// only makes rules forbid more.
pub(crate) fn fold_case(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let visible: String = text.chars().filter(|c| !is_ignored_in_names(*c)).collect();
    let decomposed = DecomposingNormalizerBorrowed::new_nfd().normalize(&visible);
    // Composed again at the end, so that one character of a pattern matches one character of a name.
    ComposingNormalizerBorrowed::new_nfc().normalize(&decomposed.to_uppercase().to_lowercase()).into_owned()
}

#[cfg(test)]
mod tests {
    use tool::definition::PathAccess;

    use super::*;

    #[test]
    fn lexical_paths_are_normalized_and_absolute() {
        let check = |base: &str, text: &str, expect: &str| {
            let name = NormalizedPath::lexical(&PathRequest {
                key: "path".into(),
                text: text.into(),
                access: PathAccess::Read,
                base: Path::new(base).into(),
            });
            assert_eq!(name.as_path().as_os_str(), expect, "{base} {text}");
        };
        check("/ws", "a", "/ws/a");
        check("/ws", "./a//b/.", "/ws/a/b");
        check("/ws", "../x", "/x");
        check("/ws", "../../../x", "/x");
        check("/ws", "/etc/", "/etc");
        check("/ws", "", "/ws");
        check("/ws/..", "a", "/a");
        check("/", "a", "/a");
        check("/", "/", "/");
        check("/ws", "//a", "/a");
        check("/ws", "a/", "/ws/a");
        check("/ws", ".a/..b", "/ws/.a/..b");
    }

    /// Compares bytes, because patterns are matched against bytes.
    #[test]
    fn only_canonical_paths_are_accepted() {
        for bad in ["relative", "/a/../b", "", "../a", "/..", "."] {
            assert_eq!(NormalizedPath::canonical(Path::new(bad)), None, "{bad}");
        }
        for (path, expect) in [
            ("/a/b", "/a/b"),
            ("/", "/"),
            ("//", "/"),
            ("/a/", "/a"),
            ("//a", "/a"),
            ("/a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a"),
            ("/.a/..b/c..", "/.a/..b/c.."),
        ] {
            assert_eq!(
                NormalizedPath::canonical(Path::new(path)).unwrap().as_path().as_os_str(),
                expect,
                "{path}"
            );
        }
    }

    #[test]
    fn path_is_only_inside_its_parent_folders() {
        let name = NormalizedPath::canonical(Path::new("/ws/a")).unwrap();
        for folder in ["/ws/a", "/ws", "/", "/ws/", "/ws/.", "//ws"] {
            assert!(
                name.is_in(Path::new(folder)) && FolderPrefix::new(folder.into()).contains(&name),
                "{folder}"
            );
        }
        for folder in ["/w", "/ws/a/b", "/ws/b", "ws", "/ws/a.txt", "/ws/.."] {
            assert!(
                !name.is_in(Path::new(folder)) && !FolderPrefix::new(folder.into()).contains(&name),
                "{folder}"
            );
        }
    }

    #[test]
    fn case_folding_covers_non_ascii() {
        for (text, expect) in
            [(".ENV", ".env"), (".\u{df}h", ".ssh"), (".ba\u{17f}hrc", ".bashrc"), ("\u{212a}ey", "key")]
        {
            assert_eq!(fold_case(text), expect);
        }
        for same in [
            ["\u{c9}t\u{e9}", "\u{e9}T\u{c9}"],
            ["\u{e9}", "e\u{301}"],
            ["\u{c9}", "e\u{301}"],
            ["\u{ac00}", "\u{1100}\u{1161}"],
            ["\u{212b}", "a\u{30a}"],
            [".g\u{200c}it", ".GIT"],
            ["a\u{323}\u{307}", "A\u{307}\u{323}"],
        ] {
            assert_eq!(fold_case(same[0]), fold_case(same[1]), "{same:?}");
        }
        assert_ne!(fold_case("\u{e9}"), fold_case("e"));
    }

    #[test]
    fn folded_path_stays_normalized() {
        for text in ["/h/\u{200b}/.sinew/c", "/h/.\u{200b}/.sinew/c", "/h/.\u{200b}./.SINEW/c"] {
            let name = NormalizedPath::canonical(Path::new(text)).unwrap().case_folded();
            assert_eq!(name.as_path(), Path::new("/h/.sinew/c"), "{text:?}");
            assert!(FolderPrefix::new("/h/.sinew".into()).contains(&name), "{text:?}");
        }
    }
}
