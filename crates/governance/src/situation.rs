//! Situation in which a call is judged: mode, workspaces and recent call counts. The caller passes it in; the
//! judge reads nothing else.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tool::Mode;

use crate::glob;

/// Mode, workspaces and recent call counts of a decision.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// Operational mode.
    pub mode: Mode,
    /// Workspaces of the caller.
    pub workspaces: &'a Workspaces,
    /// Recent executed calls.
    pub counts: RateCounts,
}

/// Executed calls in the windows of the rate limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RateCounts {
    /// Calls of this tool in the last hour.
    pub tool_last_hour: u32,
    /// Calls of all tools in the last minute.
    pub all_last_minute: u32,
    /// Outbound calls of all tools in the last hour.
    pub outbound_last_hour: u32,
}

impl RateCounts {
    /// Count of a window whose ledger records are missing: higher than any limit.
    pub const UNKNOWN: u32 = u32::MAX;
}

/// Access to a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceAccess {
    /// Read access.
    ReadOnly,
    /// Read and write access.
    ReadWrite,
}

/// Workspace of the caller, by its canonical path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    access: WorkspaceAccess,
}

impl Workspace {
    /// Opens the folder that exists now. A folder that replaces it later is not this workspace.
    ///
    /// A path through a symbolic link is refused: a user who can change the link could choose the folder.
    /// Links owned by root are part of the system and are followed.
    pub fn open(folder: &Path, access: WorkspaceAccess) -> io::Result<Self> {
        let root = file_access::canonical_directory(folder)?;
        if glob::resolve_root_links(folder) != root {
            let name = root.display();
            return Err(io::Error::other(format!(
                "it leads through a link to `{name}`, and a user who can change the link could choose the folder; \
                 add the workspace by its canonical path"
            )));
        }
        Ok(Workspace { root, access })
    }

    /// Creates a workspace that need not exist, for dry runs.
    pub fn hypothetical(root: &str, access: WorkspaceAccess) -> Self {
        Workspace { root: PathBuf::from(root), access }
    }

    /// Creates a read-write workspace for a folder that a rule grants.
    pub(crate) fn read_write(root: &Path) -> Self {
        Self::granted(root, WorkspaceAccess::ReadWrite)
    }

    /// Creates a workspace for a folder that a rule grants.
    pub(crate) fn granted(root: &Path, access: WorkspaceAccess) -> Self {
        Workspace { root: root.to_owned(), access }
    }

    /// Returns the canonical path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the access to the workspace.
    pub fn access(&self) -> WorkspaceAccess {
        self.access
    }
}

/// Workspaces of the caller, and the folder that relative paths start in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspaces {
    list: Arc<[Workspace]>,
    base: Option<Arc<Path>>,
}

impl Workspaces {
    /// Creates the list. Relative paths start in the first workspace.
    pub fn new(list: Vec<Workspace>) -> Self {
        let base = list.first().map(|workspace| workspace.root.as_path().into());
        Workspaces { list: list.into(), base }
    }

    /// Returns these workspaces with relative paths starting at `cwd`. This grants nothing: below a folder
    /// outside the workspaces every relative path is denied, instead of being resolved in a folder that is
    /// not the caller's.
    pub fn with_base(&self, cwd: Option<&Path>) -> Workspaces {
        let base = cwd.filter(|path| path.is_absolute()).map(Arc::from);
        Workspaces { list: Arc::clone(&self.list), base: base.or_else(|| self.base.clone()) }
    }

    /// Returns these workspaces for a call from this folder; `None` for one from an unknown folder.
    pub(crate) fn called_from(&self, cwd: Option<&Path>) -> Workspaces {
        Workspaces { list: Arc::clone(&self.list), base: cwd.map(Arc::from) }
    }

    /// Returns the folder that relative paths start in; `None` without a workspace.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    pub(crate) fn shared_base(&self) -> Option<Arc<Path>> {
        self.base.clone()
    }

    /// Returns the access to a path: that of the deepest workspace around it.
    pub fn access_at(&self, path: &Path) -> Option<WorkspaceAccess> {
        access_at(&self.list, path)
    }

    /// Iterates over the workspaces.
    pub fn iter(&self) -> impl Iterator<Item = &Workspace> {
        self.list.iter()
    }
}

/// Returns the access to a path: that of the deepest folder around it.
pub(crate) fn access_at(list: &[Workspace], path: &Path) -> Option<WorkspaceAccess> {
    let around = list.iter().filter(|folder| path.starts_with(folder.root()));
    around.reduce(deeper_workspace).map(Workspace::access)
}

/// Returns the deeper workspace, because a nested workspace overrides the one around it. Of two at the same
/// root the read-only one wins.
pub(crate) fn deeper_workspace<'s>(one: &'s Workspace, other: &'s Workspace) -> &'s Workspace {
    let depth = |workspace: &Workspace| {
        let narrow = workspace.access() == WorkspaceAccess::ReadOnly;
        (workspace.root().components().count(), narrow)
    };
    if depth(one) > depth(other) { one } else { other }
}
