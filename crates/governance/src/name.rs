//! Absolute names without `.`, `..`, `//` or a final slash: the only ones that patterns are matched against.

use std::path::{Component, Path, PathBuf};

/// A clean absolute name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name(PathBuf);

impl Name {
    /// What a text says, read as letters: `..` takes away the part before it, though a link may lead elsewhere.
    ///
    /// Good enough to refuse by, never to allow by.
    pub(crate) fn lexical(base: &Path, text: &str) -> Name {
        let mut name = PathBuf::from("/");
        for part in base.join(text).components() {
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
    pub(crate) fn left_behind(base: &Path, text: &str) -> Vec<Name> {
        let mut name = PathBuf::from("/");
        let mut left = Vec::new();
        for part in base.join(text).components() {
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
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        (path.is_absolute() && plain).then(|| Name(path.components().collect()))
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }

    /// The name with case taken out, for comparing where a volume may ignore it.
    pub(crate) fn folded(&self) -> Name {
        Name(PathBuf::from(fold(&self.0.to_string_lossy())))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Takes case out of a text the way file systems that ignore it do: `ß` is `ss`, the long `ſ` an `s`, the Kelvin sign
/// a `k`. Going by way of upper case finds these; what it finds beyond them only forbids more.
pub(crate) fn fold(text: &str) -> String {
    if text.is_ascii() { text.to_ascii_lowercase() } else { text.to_uppercase().to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lexical_names_are_clean_and_absolute() {
        let check = |base: &str, text: &str, expect: &str| {
            assert_eq!(Name::lexical(Path::new(base), text).as_path(), Path::new(expect), "{base} {text}");
        };
        check("/ws", "a", "/ws/a");
        check("/ws", "./a//b/.", "/ws/a/b");
        check("/ws", "../x", "/x");
        check("/ws", "../../../x", "/x");
        check("/ws", "/etc/", "/etc");
        check("/ws", "", "/ws");
        check("/ws/..", "a", "/a");
    }

    #[test]
    fn only_canonical_names_are_canonical() {
        for bad in ["relative", "/a/../b", "", "../a"] {
            assert_eq!(Name::canonical(Path::new(bad)), None, "{bad}");
        }
        assert_eq!(Name::canonical(Path::new("/a/b")).unwrap().as_path(), Path::new("/a/b"));
        assert!(Name::canonical(Path::new("/")).is_some());
    }

    #[test]
    fn folding_goes_beyond_ascii() {
        for (text, expect) in
            [(".ENV", ".env"), (".\u{df}h", ".ssh"), (".ba\u{17f}hrc", ".bashrc"), ("\u{212a}ey", "key")]
        {
            assert_eq!(fold(text), expect);
        }
        assert_eq!(fold("\u{c9}t\u{e9}"), fold("\u{e9}T\u{c9}"));
    }
}
