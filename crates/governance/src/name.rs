//! Absolute names without `.`, `..`, `//` or a final slash: the only ones that patterns are matched against.

use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use resources::PathRequest;

/// A clean absolute name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(PathBuf);

impl Name {
    /// What a text says, read as letters: `..` takes away the part before it, though a link may lead elsewhere.
    ///
    /// Good enough to refuse by, never to allow by.
    pub(crate) fn lexical(request: &PathRequest) -> Name {
        let whole = request.absolute();
        if is_clean(&whole) {
            return Name(whole);
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
        Name(name)
    }

    /// The folders that a text goes into and leaves again by `..`, read as letters.
    pub(crate) fn left_behind(request: &PathRequest) -> Vec<Name> {
        if detours(&request.base) == 0 && detours(Path::new(&*request.text)) == 0 {
            return Vec::new();
        }
        let mut name = PathBuf::from("/");
        let mut left = Vec::new();
        for part in request.absolute().components() {
            match part {
                Component::ParentDir => {
                    left.push(Name(name.clone()));
                    name.pop();
                }
                Component::Normal(part) => name.push(part),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        left
    }

    /// The name of an opened object. `None` if it is no canonical name, which then nothing may be allowed by.
    pub(crate) fn canonical(path: &Path) -> Option<Name> {
        if is_clean(path) {
            return Some(Name(path.to_owned()));
        }
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        (path.is_absolute() && plain).then(|| Name(path.components().collect()))
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    /// Whether it is this folder or in it.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        self.begins_with(folder) || self.0.starts_with(folder)
    }

    /// Whether it is this folder or in it, letter by letter. The name is clean, and so is whatever it begins with.
    fn begins_with(&self, folder: &Path) -> bool {
        let rest = self.0.as_os_str().as_bytes().strip_prefix(folder.as_os_str().as_bytes());
        matches!(rest, Some([] | [b'/', ..]))
    }

    /// The name with case taken out, for comparing where a volume may ignore it.
    pub(crate) fn folded(&self) -> Name {
        let folded = PathBuf::from(fold(&spelt(&self.0)));
        if is_clean(&folded) {
            return Name(folded);
        }
        // Without the characters that nobody sees a part can be empty, or mean a folder: a clean name has none of those.
        let named = |part: &Component| matches!(part, Component::RootDir | Component::Normal(_));
        Name(folded.components().filter(named).collect())
    }
}

/// A folder that many names are held against: whether its letters say it all is seen once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Folder {
    path: PathBuf,
    is_clean: bool,
}

impl Folder {
    pub(crate) fn new(path: PathBuf) -> Self {
        Folder { is_clean: is_clean(&path), path }
    }

    /// Whether a name is this folder or in it.
    pub(crate) fn holds(&self, name: &Name) -> bool {
        // Where both are clean, there is no other spelling.
        name.begins_with(&self.path) || (!self.is_clean && name.is_in(&self.path))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// What [`Path::to_string_lossy`] says, which looks at each byte of a name alone: most names are text, and are seen to be
/// sooner.
pub(crate) fn spelt(path: &Path) -> Cow<'_, str> {
    path.to_str().map_or_else(|| path.to_string_lossy(), Cow::Borrowed)
}

/// How many parts of a path are `..`.
pub(crate) fn detours(path: &Path) -> usize {
    parts(path).filter(|part| *part == b"..").count()
}

/// Whether a path is absolute and nothing of it can be left out. Most are, and to put a name together part by part takes
/// longer than to see that.
fn is_clean(path: &Path) -> bool {
    path.is_absolute() && parts(path).skip(1).all(|part| !matches!(part, b"" | b"." | b".."))
}

fn parts(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/')
}

/// Takes out of a text what file systems that are not exact about names do not see: case (`ß` is `ss`, the long `ſ` an
/// `s`, the Kelvin sign a `k`), the normal form (`é` in one character or two), and characters without a width. Going
/// by way of upper case finds the first; what all this finds beyond them only forbids more.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    let seen: String = text.chars().filter(|c| !is_unseen(*c)).collect();
    let apart = DecomposingNormalizerBorrowed::new_nfd().normalize(&seen);
    // Together again at the end, so that one character of a pattern stands for one of a name.
    ComposingNormalizerBorrowed::new_nfc().normalize(&apart.to_uppercase().to_lowercase()).into_owned()
}

/// Characters that some file systems leave out when they compare names.
fn is_unseen(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use tool::PathAccess;

    use super::*;

    #[test]
    fn lexical_names_are_clean_and_absolute() {
        let check = |base: &str, text: &str, expect: &str| {
            let name = Name::lexical(&PathRequest {
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

    /// Letter by letter: patterns are matched against the letters.
    #[test]
    fn only_canonical_names_are_canonical() {
        for bad in ["relative", "/a/../b", "", "../a", "/..", "."] {
            assert_eq!(Name::canonical(Path::new(bad)), None, "{bad}");
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
            assert_eq!(Name::canonical(Path::new(path)).unwrap().as_path().as_os_str(), expect, "{path}");
        }
    }

    #[test]
    fn a_name_is_in_the_folders_above_it_and_no_others() {
        let name = Name::canonical(Path::new("/ws/a")).unwrap();
        for folder in ["/ws/a", "/ws", "/", "/ws/", "/ws/.", "//ws"] {
            assert!(name.is_in(Path::new(folder)) && Folder::new(folder.into()).holds(&name), "{folder}");
        }
        for folder in ["/w", "/ws/a/b", "/ws/b", "ws", "/ws/a.txt", "/ws/.."] {
            assert!(!name.is_in(Path::new(folder)) && !Folder::new(folder.into()).holds(&name), "{folder}");
        }
    }

    #[test]
    fn folding_goes_beyond_ascii() {
        for (text, expect) in
            [(".ENV", ".env"), (".\u{df}h", ".ssh"), (".ba\u{17f}hrc", ".bashrc"), ("\u{212a}ey", "key")]
        {
            assert_eq!(fold(text), expect);
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
            assert_eq!(fold(same[0]), fold(same[1]), "{same:?}");
        }
        assert_ne!(fold("\u{e9}"), fold("e"));
    }

    #[test]
    fn a_name_stays_clean_without_the_characters_that_nobody_sees() {
        for text in ["/h/\u{200b}/.sinew/c", "/h/.\u{200b}/.sinew/c", "/h/.\u{200b}./.SINEW/c"] {
            let name = Name::canonical(Path::new(text)).unwrap().folded();
            assert_eq!(name.as_path(), Path::new("/h/.sinew/c"), "{text:?}");
            assert!(Folder::new("/h/.sinew".into()).holds(&name), "{text:?}");
        }
    }
}
