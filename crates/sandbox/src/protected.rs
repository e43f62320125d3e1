//! Names inside a writable folder that something runs by itself: git, shells, editors, agents. What is there already
//! cannot be changed from inside; what a program newly creates is put out of reach before its result is handed on.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// A name a program created, and what it is called now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// As it was created.
    pub path: PathBuf,
    /// Where it is now, inert; absent if it could not be moved.
    pub moved_to: Option<PathBuf>,
}

/// What is added to a name that is put out of reach.
const SUFFIX: &str = "quarantined";

/// Names that are protected wherever they stand.
const ANYWHERE: &[&str] = &[
    // every new shell runs it
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".bash_completion",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".envrc",
    ".direnvrc",
    ".tmux.conf",
    ".screenrc",
    ".xprofile",
    ".xsession",
    ".xinitrc",
    ".pam_environment",
    // version control runs what it names
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".hgrc",
    // agents and editors run what stands there
    ".mcp.json",
    ".claude.json",
    ".vscode",
    ".idea",
    ".codex",
    ".cursor",
    ".zed",
    ".vimrc",
    ".exrc",
    ".gvimrc",
    ".nvimrc",
    ".emacs",
    ".emacs.d",
    ".gdbinit",
    ".lldbinit",
    // who may log in, and with what
    ".ssh",
    ".gnupg",
];

/// Names that are protected inside one folder: the rest of it is a program's own business, as the objects of a
/// repository are git's.
const INSIDE: &[(&str, &[&str])] = &[
    (".git", &["hooks", "config", "config.worktree", "commondir", "info"]),
    (".claude", &["settings.json", "settings.local.json", "hooks"]),
    (".gemini", &["settings.json"]),
    (".config", &["git", "fish", "environment.d", "systemd", "autostart", "nvim"]),
];

/// Whether a name is protected. Letters are compared without case: a volume that ignores it can be mounted anywhere.
pub(crate) fn is_protected(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let folder = path.parent().and_then(Path::file_name);
    let same = |name: &OsStr, known: &str| name.eq_ignore_ascii_case(known);
    let inside = |folder: &OsStr| {
        let known = INSIDE.iter().filter(|(known, _)| same(folder, known));
        known.flat_map(|(_, names)| *names).any(|known| same(name, known))
    };
    // A bare repository is one by what is in it, not by its name, so its usual ending is all there is to go by.
    let is_bare = |folder: &OsStr| {
        let ends = folder.to_string_lossy().to_ascii_lowercase().ends_with(".git");
        ends && ["hooks", "config"].iter().any(|known| same(name, known))
    };
    ANYWHERE.iter().any(|known| same(name, known))
        || folder.is_some_and(|folder| inside(folder) || is_bare(folder))
}

/// Renames what a program created, beside where it was, so that nothing finds it under the name it acts on.
pub(crate) fn quarantine(path: &Path) -> Quarantined {
    Quarantined { path: path.to_owned(), moved_to: set_aside(path).ok() }
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    for number in 0..1000_u32 {
        let mut aside = name.to_owned();
        aside.push(format!(".{SUFFIX}-{number}"));
        let aside = path.with_file_name(aside);
        if aside.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            std::fs::rename(path, &aside)?;
            return Ok(aside);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_something_runs_are_protected() {
        for (path, expect) in [
            ("/w/.bashrc", true),
            ("/w/sub/.BashRC", true),
            ("/w/.mcp.json", true),
            ("/w/.vscode", true),
            ("/w/.git/hooks", true),
            ("/w/.git/config", true),
            ("/w/.GIT/Config", true),
            ("/w/.git/index", false),
            ("/w/.git", false),
            ("/w/mirror.git/config", true),
            ("/w/mirror.git/objects", false),
            ("/w/hooks", false),
            ("/w/config", false),
            ("/w/.config/fish", true),
            ("/w/.config/app", false),
            ("/w/bashrc", false),
            ("/", false),
        ] {
            assert_eq!(is_protected(Path::new(path)), expect, "{path}");
        }
    }

    #[test]
    fn what_is_set_aside_keeps_its_content_and_never_replaces_anything() {
        let folder = std::env::temp_dir().join(format!("sinew-quarantine-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(".bashrc");
        for round in ["first", "second"] {
            std::fs::write(&path, round).unwrap();
            let moved = quarantine(&path).moved_to.unwrap();
            assert!(!path.exists());
            assert_eq!(std::fs::read_to_string(moved).unwrap(), round);
        }
        assert_eq!(std::fs::read_to_string(folder.join(".bashrc.quarantined-0")).unwrap(), "first");
        assert_eq!(quarantine(&path).moved_to, None, "nothing is there");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
