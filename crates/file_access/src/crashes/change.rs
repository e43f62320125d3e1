//! The tested changes, and the state of the workspace before and after each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tool::CallId;
use tool::definition::PathAccess;

use crate::testing::WorkspaceFixture;
use crate::{ContentPrecondition, FolderRemoval, RemovalGuard};

/// Environment variable that tells a child which change to make.
pub(super) const CHANGE_ENV: &str = "RESOURCES_TEST_CHANGE";

/// Call that makes the change, or whose change is undone.
const CALL: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A change to make and interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestedChange {
    Overwrite,
    Create,
    RemoveFile,
    RemoveFolder,
    RemoveLink,
    UndoOverwrite,
    UndoCreate,
    UndoRemoval,
    UndoLinkRemoval,
    CreateBelow,
    MakeFolders,
    UndoCreateBelow,
    UndoMakeFolders,
    UndoPartOfThem,
}

impl TestedChange {
    const ALL: [TestedChange; 14] = [
        TestedChange::Overwrite,
        TestedChange::Create,
        TestedChange::RemoveFile,
        TestedChange::RemoveFolder,
        TestedChange::RemoveLink,
        TestedChange::UndoOverwrite,
        TestedChange::UndoCreate,
        TestedChange::UndoRemoval,
        TestedChange::UndoLinkRemoval,
        TestedChange::CreateBelow,
        TestedChange::MakeFolders,
        TestedChange::UndoCreateBelow,
        TestedChange::UndoMakeFolders,
        TestedChange::UndoPartOfThem,
    ];

    pub(super) fn from_parent() -> TestedChange {
        let name = std::env::var(CHANGE_ENV).unwrap();
        TestedChange::ALL.into_iter().find(|change| format!("{change:?}") == name).unwrap()
    }

    pub(super) fn is_undo(self) -> bool {
        self.undone_change().is_some()
    }

    /// Returns the change that this one undoes.
    fn undone_change(self) -> Option<TestedChange> {
        match self {
            TestedChange::UndoOverwrite => Some(TestedChange::Overwrite),
            TestedChange::UndoCreate => Some(TestedChange::Create),
            TestedChange::UndoRemoval => Some(TestedChange::RemoveFolder),
            TestedChange::UndoLinkRemoval => Some(TestedChange::RemoveLink),
            TestedChange::UndoCreateBelow | TestedChange::UndoPartOfThem => Some(TestedChange::CreateBelow),
            TestedChange::UndoMakeFolders => Some(TestedChange::MakeFolders),
            TestedChange::Overwrite
            | TestedChange::Create
            | TestedChange::CreateBelow
            | TestedChange::MakeFolders
            | TestedChange::RemoveFile
            | TestedChange::RemoveFolder
            | TestedChange::RemoveLink => None,
        }
    }

    /// Returns a fixture in which the change can be made.
    pub(super) fn prepare(self) -> WorkspaceFixture {
        let test_fixture = WorkspaceFixture::new();
        test_fixture.file("ws/f", "old");
        test_fixture.file("ws/d/inner", "inner");
        test_fixture.link("ws/link", "f");
        if let Some(undone) = self.undone_change() {
            undone.apply(&test_fixture).unwrap();
        }
        if self == TestedChange::UndoPartOfThem {
            test_fixture.file("ws/n/others", "others");
        }
        test_fixture
    }

    /// Returns the state of the workspace before and after the change.
    pub(super) fn states(self) -> (WorkspaceState, WorkspaceState) {
        let test_fixture = self.prepare();
        let before = workspace_state(&test_fixture);
        self.apply(&test_fixture).unwrap();
        (before, workspace_state(&test_fixture))
    }

    pub(super) fn apply(self, test_fixture: &WorkspaceFixture) -> Result<(), String> {
        let recorder = test_fixture.undo().for_call(CALL.parse().unwrap());
        let open =
            |name: &str, access| test_fixture.try_open(name, access).map_err(|error| format!("{error:?}"));
        let write = |name: &str| {
            let opened = open(name, PathAccess::Write)?;
            opened
                .replace(b"new", &ContentPrecondition::Anything, &recorder)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        let remove = |name: &str| {
            let (opened, protects) = (open(name, PathAccess::Remove)?, RemovalGuard::none());
            let removed =
                opened.remove(&ContentPrecondition::Anything, FolderRemoval::Recursive, &protects, &recorder);
            removed.map(drop).map_err(|error| error.to_string())
        };
        match self {
            TestedChange::Overwrite => write("f"),
            TestedChange::Create => write("created"),
            TestedChange::CreateBelow => {
                let made = open("n/o/p/new", PathAccess::Write)?.replace_with_folders(
                    b"new",
                    &ContentPrecondition::Absent,
                    &recorder,
                );
                made.map(drop).map_err(|error| error.to_string())
            }
            TestedChange::MakeFolders => {
                let made = open("n/o/p", PathAccess::Write)?.create_folders(&recorder);
                made.map(drop).map_err(|error| error.to_string())
            }
            TestedChange::RemoveFile => remove("f"),
            TestedChange::RemoveFolder => remove("d"),
            TestedChange::RemoveLink => remove("link"),
            TestedChange::UndoOverwrite
            | TestedChange::UndoCreate
            | TestedChange::UndoRemoval
            | TestedChange::UndoLinkRemoval
            | TestedChange::UndoCreateBelow
            | TestedChange::UndoMakeFolders
            | TestedChange::UndoPartOfThem => self.undo(test_fixture),
        }
    }

    pub(super) fn undo(self, fixture: &WorkspaceFixture) -> Result<(), String> {
        let call: CallId = CALL.parse().unwrap();
        fixture.undo().revert(call, &fixture.recorder()).map(drop).map_err(|error| error.to_string())
    }
}

/// Files, links and folders of a workspace by their paths, without temporary names.
pub(super) type WorkspaceState = BTreeMap<String, String>;

pub(super) fn workspace_state(fixture: &WorkspaceFixture) -> WorkspaceState {
    let mut found = WorkspaceState::new();
    collect_entries(&fixture.path("ws"), "", &mut found);
    found
}

fn collect_entries(folder: &Path, above: &str, found: &mut WorkspaceState) {
    for entry in fs::read_dir(folder).unwrap() {
        let (path, name) =
            (entry.as_ref().unwrap().path(), entry.unwrap().file_name().into_string().unwrap());
        if name.starts_with(".sinew-tmp-") {
            continue;
        }
        let relative = format!("{above}/{name}");
        if path.is_symlink() {
            found.insert(relative, format!("link to {}", fs::read_link(path).unwrap().display()));
        } else if path.is_dir() {
            collect_entries(&path, &relative, found);
            found.insert(relative, "folder".to_owned());
        } else {
            found.insert(relative, fs::read_to_string(path).unwrap());
        }
    }
}
