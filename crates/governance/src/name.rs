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

    /// The name of an opened object. `None` if it is no canonical name, which then nothing may be allowed by.
    pub(crate) fn canonical(path: &Path) -> Option<Name> {
        let plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
        (path.is_absolute() && plain).then(|| Name(path.components().collect()))
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.0
    }
}
