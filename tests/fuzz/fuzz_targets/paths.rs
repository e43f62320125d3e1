//! Paths of calls, opened in a folder with links that lead outside: the canonical name is absolute and
//! has no `..`, and opening it again gives the same object.

#![no_main]

use std::path::{Component, Path};
use std::sync::{Arc, OnceLock};

use file_access::{PathRequest, PathSource};
use tool::definition::PathAccess;

struct Call(PathRequest);

impl PathSource for Call {
    fn path_requests(&self) -> Vec<PathRequest> {
        vec![self.0.clone()]
    }
}

/// Folder with a file, a folder and links in all directions.
fn base() -> &'static Arc<Path> {
    static BASE: OnceLock<(tempfile::TempDir, Arc<Path>)> = OnceLock::new();
    &BASE
        .get_or_init(|| {
            let folder = tempfile::tempdir().expect("a folder");
            let base = folder.path().canonicalize().expect("a name").join("w");
            std::fs::create_dir_all(base.join("d/e")).expect("folders");
            std::fs::write(base.join("d/f"), "x").expect("a file");
            for (target, name) in
                [("d", "in"), ("..", "up"), ("/etc", "etc"), ("loop", "loop"), ("none", "gone")]
            {
                std::os::unix::fs::symlink(target, base.join(name)).expect("a link");
            }
            (folder, base.into())
        })
        .1
}

/// Canonical name, kind, and true if the object exists.
fn open(text: &str) -> Option<(std::path::PathBuf, file_access::ObjectKind, bool)> {
    let access = PathAccess::Read;
    let request = PathRequest { key: "path".into(), text: text.into(), access, base: base().clone() };
    let opened = file_access::open(Call(request)).ok()?;
    let path = opened.paths().first()?;
    Some((path.canonical().to_owned(), path.kind(), path.metadata().is_some()))
}

libfuzzer_sys::fuzz_target!(|text: &str| {
    let Some((name, kind, exists)) = open(text) else { return };
    assert!(name.is_absolute(), "{name:?}");
    if exists {
        assert!(!name.components().any(|part| part == Component::ParentDir), "{text:?}: {name:?}");
        let again = name.to_str().and_then(open);
        assert!(again.is_none_or(|(other, same, _)| other == name && same == kind), "{text:?}: {name:?} {kind:?}");
    }
});
