//! Durability of a change at each step in case of a power cut: unsynced content may be lost, and so may a
//! name in an unsynced folder. Checked on a trace of the change, because killing a process loses neither.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::change::TestedChange;
use super::tracer::{can_trace, run_traced, syscall_name};

/// Content and names that are not durable yet.
struct UnsyncedState {
    workspace: PathBuf,
    store: PathBuf,
    contents: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
    /// True after old and new were exchanged, until the folder is synced.
    exchanged: bool,
}

/// Checks a change call by call.
pub(super) fn check(change: TestedChange) {
    if !can_trace() {
        return;
    }
    let fixture = change.prepare();
    let ran = run_traced(&fixture, change, None);
    let (workspace, store) = (fixture.path("ws"), fixture.path("undo"));
    let mut disk = UnsyncedState {
        workspace,
        store,
        contents: BTreeSet::new(),
        folders: BTreeSet::new(),
        exchanged: false,
    };
    let mut names = 0;
    for line in ran.change_calls().filter(|line| !line.contains(") = -1 ")) {
        names += usize::from(disk.apply_call(line, &ran.log));
    }
    assert!(names > 0, "{change:?} changes no name:\n{}", ran.log);
    assert!(
        !disk.folders.contains(&disk.workspace),
        "{change:?}: reported success before the change was durable\n{}",
        ran.log
    );
    assert!(!disk.has_content_in(&disk.workspace), "{change:?}\n{}", ran.log);
}

impl UnsyncedState {
    /// Processes one call. Returns true if it changed a name of the workspace.
    fn apply_call(&mut self, line: &str, log: &str) -> bool {
        let paths = paths_of_call(line);
        let (Some(call), Some(first)) = (syscall_name(line), paths.first()) else { return false };
        match (call, paths.get(1)) {
            ("openat", _) if line.contains("O_CREAT") => {
                self.assert_record_synced(first, line, log);
                self.mark_folder_unsynced(first);
                false
            }
            ("write", _) => {
                self.contents.extend(first_handle_path(line));
                false
            }
            ("fsync" | "fdatasync", _) => {
                self.contents.remove(first);
                self.folders.remove(first);
                self.exchanged &= *first != self.workspace;
                false
            }
            ("mkdirat", _) => {
                self.assert_record_synced(first, line, log);
                self.mark_folder_unsynced(first);
                self.folders.insert(first.clone());
                false
            }
            ("renameat" | "renameat2" | "linkat", Some(to)) => {
                let unsafe_below = |all: &BTreeSet<PathBuf>| all.iter().any(|path| path.starts_with(first));
                let is_safe = !unsafe_below(&self.contents) && !unsafe_below(&self.folders);
                assert!(is_safe, "a name given to unsynced content: {line}\n{log}");
                self.assert_record_synced(first, line, log);
                self.assert_record_synced(to, line, log);
                self.mark_folder_unsynced(first);
                self.mark_folder_unsynced(to);
                self.exchanged |= line.contains("RENAME_EXCHANGE");
                [first, to].iter().any(|path| self.is_in_workspace(path))
            }
            ("symlinkat", Some(link)) => {
                self.assert_record_synced(link, line, log);
                self.mark_folder_unsynced(link);
                true
            }
            ("unlinkat", _) if self.is_in_workspace(first) => {
                assert!(!self.exchanged, "old file removed before the new one is durable: {line}\n{log}");
                true
            }
            _ => false,
        }
    }

    /// Checks that the saved state and its record are durable before the workspace changes.
    fn assert_record_synced(&self, path: &Path, line: &str, log: &str) {
        if self.is_in_workspace(path) {
            let is_safe = !self.folders.contains(&self.store) && !self.has_content_in(&self.store);
            assert!(is_safe, "begun before its record was durable: {line}\n{log}");
        }
    }

    fn mark_folder_unsynced(&mut self, path: &Path) {
        self.folders.extend(path.parent().map(Path::to_owned));
    }

    fn is_in_workspace(&self, path: &Path) -> bool {
        path.starts_with(&self.workspace)
    }

    fn has_content_in(&self, folder: &Path) -> bool {
        self.contents.iter().any(|path| path.starts_with(folder))
    }
}

/// Returns the path of the first handle of a call.
fn first_handle_path(line: &str) -> Option<PathBuf> {
    let (_, rest) = line.split_once('<')?;
    rest.split_once('>').map(|(path, _)| path.into())
}

/// Returns the paths of a call: those of its handles, and of names relative to a handle.
fn paths_of_call(line: &str) -> Vec<PathBuf> {
    let arguments = line.rsplit_once(") = ").map_or(line, |(arguments, _)| arguments);
    let mut found: Vec<PathBuf> = Vec::new();
    let mut rest = arguments;
    while let Some(at) = rest.find(['<', '"']) {
        let is_handle = rest[at..].starts_with('<');
        let end = if is_handle { '>' } else { '"' };
        let Some(length) = rest[at + 1..].find(end) else { break };
        let text = &rest[at + 1..at + 1 + length];
        match (is_handle, found.last_mut()) {
            (false, Some(folder)) => *folder = folder.join(text),
            _ => found.push(text.into()),
        }
        rest = &rest[at + 2 + length..];
    }
    found
}

#[test]
fn paths_are_parsed_from_a_trace_line() {
    let check = |line: &str, expect: &[&str]| {
        assert_eq!(paths_of_call(line), expect.iter().map(PathBuf::from).collect::<Vec<_>>(), "{line}");
    };
    check("fsync(3</w/f>) = 0", &["/w/f"]);
    check(r#"renameat2(5</w>, "t", 5</w>, "f", RENAME_EXCHANGE) = 0"#, &["/w/t", "/w/f"]);
    check(r#"openat(4</w>, "t", O_WRONLY|O_CREAT, 0600) = 6</w/t>"#, &["/w/t"]);
    check(r#"mkdirat(AT_FDCWD</x>, "/u", 0700) = 0"#, &["/u"]);
}
