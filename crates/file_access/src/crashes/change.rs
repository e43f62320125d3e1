//! The tested changes, and the state of the workspace before and after each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use tool::{CallId, PathAccess};

use crate::testing::World;
use crate::{Descent, Expected, Protects};

/// Environment variable that tells a child which change to make.
pub(super) const WHICH: &str = "RESOURCES_TEST_CHANGE";

/// Call that makes the change, or whose change is undone.
const CALL: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// A change to make and interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
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

impl Change {
    const ALL: [Change; 14] = [
        Change::Overwrite,
        Change::Create,
        Change::RemoveFile,
        Change::RemoveFolder,
        Change::RemoveLink,
        Change::UndoOverwrite,
        Change::UndoCreate,
        Change::UndoRemoval,
        Change::UndoLinkRemoval,
        Change::CreateBelow,
        Change::MakeFolders,
        Change::UndoCreateBelow,
        Change::UndoMakeFolders,
        Change::UndoPartOfThem,
    ];

    pub(super) fn of_parent() -> Change {
        let name = std::env::var(WHICH).unwrap();
        Change::ALL.into_iter().find(|change| format!("{change:?}") == name).unwrap()
    }

    pub(super) fn is_undo(self) -> bool {
        self.undone().is_some()
    }

    /// Returns the change that this one undoes.
    fn undone(self) -> Option<Change> {
        match self {
            Change::UndoOverwrite => Some(Change::Overwrite),
            Change::UndoCreate => Some(Change::Create),
            Change::UndoRemoval => Some(Change::RemoveFolder),
            Change::UndoLinkRemoval => Some(Change::RemoveLink),
            Change::UndoCreateBelow | Change::UndoPartOfThem => Some(Change::CreateBelow),
            Change::UndoMakeFolders => Some(Change::MakeFolders),
            Change::Overwrite
            | Change::Create
            | Change::CreateBelow
            | Change::MakeFolders
            | Change::RemoveFile
            | Change::RemoveFolder
            | Change::RemoveLink => None,
        }
    }

    /// Returns a fixture in which the change can be made.
    pub(super) fn prepared(self) -> World {
        let world = World::new();
        world.file("ws/f", "old");
        world.file("ws/d/inner", "inner");
        world.link("ws/link", "f");
        if let Some(undone) = self.undone() {
            undone.make(&world).unwrap();
        }
        if self == Change::UndoPartOfThem {
            world.file("ws/n/others", "others");
        }
        world
    }

    /// Returns the state of the workspace before and after the change.
    pub(super) fn ends(self) -> (State, State) {
        let world = self.prepared();
        let before = state(&world);
        self.make(&world).unwrap();
        (before, state(&world))
    }

    pub(super) fn make(self, world: &World) -> Result<(), String> {
        let saving = world.undo().for_call(CALL.parse().unwrap());
        let open = |name: &str, access| world.try_open(name, access).map_err(|error| format!("{error:?}"));
        let write = |name: &str| {
            let opened = open(name, PathAccess::Write)?;
            opened.replace(b"new", &Expected::Anything, &saving).map(drop).map_err(|error| error.to_string())
        };
        let remove = |name: &str| {
            let (opened, protects) = (open(name, PathAccess::Remove)?, Protects::nothing());
            let removed = opened.remove(&Expected::Anything, Descent::Whole, &protects, &saving);
            removed.map(drop).map_err(|error| error.to_string())
        };
        match self {
            Change::Overwrite => write("f"),
            Change::Create => write("created"),
            Change::CreateBelow => {
                let made = open("n/o/p/new", PathAccess::Write)?.replace_with_folders(
                    b"new",
                    &Expected::Absent,
                    &saving,
                );
                made.map(drop).map_err(|error| error.to_string())
            }
            Change::MakeFolders => {
                let made = open("n/o/p", PathAccess::Write)?.make_folders(&saving);
                made.map(drop).map_err(|error| error.to_string())
            }
            Change::RemoveFile => remove("f"),
            Change::RemoveFolder => remove("d"),
            Change::RemoveLink => remove("link"),
            Change::UndoOverwrite
            | Change::UndoCreate
            | Change::UndoRemoval
            | Change::UndoLinkRemoval
            | Change::UndoCreateBelow
            | Change::UndoMakeFolders
            | Change::UndoPartOfThem => self.take_back(world),
        }
    }

    pub(super) fn take_back(self, world: &World) -> Result<(), String> {
        let call: CallId = CALL.parse().unwrap();
        world.undo().revert(call, &world.saving()).map(drop).map_err(|error| error.to_string())
    }
}

/// Files, links and folders of a workspace by their paths, without temporary names.
pub(super) type State = BTreeMap<String, String>;

pub(super) fn state(world: &World) -> State {
    let mut found = State::new();
    look(&world.path("ws"), "", &mut found);
    found
}

fn look(folder: &Path, above: &str, found: &mut State) {
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
            look(&path, &relative, found);
            found.insert(relative, "folder".to_owned());
        } else {
            found.insert(relative, fs::read_to_string(path).unwrap());
        }
    }
}
