//! Names inside a writable folder that something runs by itself: git, shells, editors, agents. What is there already
//! cannot be changed from inside; what a program newly creates is put out of reach before its result is handed on.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

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
    ".xsessionrc",
    ".login",
    ".xinitrc",
    ".pam_environment",
    // version control runs what it names
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".hgrc",
    // agents and editors run what stands there
    ".mcp.json",
    ".claude",
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
    ".password-store",
];

/// Names that are protected inside one folder: the rest of it is a program's own business, as the objects of a
/// repository are git's.
const INSIDE: &[(&str, &[&str])] = &[
    (".git", &["hooks", "config", "config.worktree", "commondir", "info", "modules", "worktrees"]),
    ("info", &["alternates", "attributes"]),
    (".gemini", &["settings.json"]),
    (".config", &["git", "fish", "environment.d", "systemd", "autostart", "autostart-scripts", "nvim"]),
    ("share", &["systemd", "keyrings"]),
    ("library", &["launchagents", "keychains"]),
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
        ends && ["hooks", "config", "info"].iter().any(|known| same(name, known))
    };
    ANYWHERE.iter().any(|known| same(name, known))
        || folder.is_some_and(|folder| inside(folder) || is_bare(folder))
}

/// Whether a name sends git to a repository elsewhere, where it is no folder.
pub(crate) fn leads_git(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"))
}

/// Renames what a program created, beside where it was, so that nothing finds it under the name it acts on.
pub(crate) fn quarantine(path: &Path) -> Quarantined {
    Quarantined { path: path.to_owned(), moved_to: set_aside(path).ok() }
}

fn set_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let folder = open_folder(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
    for number in 0..1000_u32 {
        let mut aside = name.to_owned();
        aside.push(format!(".{SUFFIX}-{number}"));
        match renameat_with(&folder, name, &folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(path.with_file_name(aside)),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// The folder itself, through no link: a program that is still there could put one in its place and have us rename
/// what is behind it.
#[cfg(target_os = "linux")]
fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, folder, flags, Mode::empty(), resolve)?)
}

/// The same as far as this system goes: the last name is no link.
#[cfg(not(target_os = "linux"))]
fn open_folder(folder: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
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
            ("/w/.claude", true),
            ("/w/.git/modules", true),
            ("/w/.git/objects/info/alternates", true),
            ("/w/.local/share/keyrings", true),
            ("/w/Library/LaunchAgents", true),
            ("/w/b.git/info", true),
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
        let (elsewhere, link) = (folder.join("elsewhere"), folder.join("link"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::write(elsewhere.join(".bashrc"), "not the program's").unwrap();
        std::os::unix::fs::symlink(&elsewhere, &link).unwrap();
        assert_eq!(quarantine(&link.join(".bashrc")).moved_to, None, "no link is gone through");
        assert!(elsewhere.join(".bashrc").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
