//! The moment a call is judged in: the mode, the caller's folders, what has run lately. Handed in, never looked up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use tool::Mode;

use crate::glob;

/// What the judge is told of the moment.
#[derive(Clone, Copy, Debug)]
pub struct Situation<'a> {
    /// The operational mode.
    pub mode: Mode,
    /// The folders the caller works in.
    pub workspaces: &'a Workspaces,
    /// What has run lately.
    pub counts: Counts,
}

/// Executed calls in the windows that are limited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Of this tool, in the last hour.
    pub tool_last_hour: u32,
    /// Of all tools, in the last minute.
    pub all_last_minute: u32,
    /// Of all tools that leave the machine, in the last hour.
    pub outbound_last_hour: u32,
}

impl Counts {
    /// The count of a window nobody knows, since records are missing: more than any limit.
    pub const UNKNOWN: u32 = u32::MAX;
}

/// What may be done in a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkspaceAccess {
    /// Reading.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// A folder the caller works in, by its canonical name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    access: WorkspaceAccess,
}

impl Workspace {
    /// The folder that is there now. What takes its place later is not this workspace.
    ///
    /// A name that leads elsewhere is refused: whoever can put a link in its way would choose the folder. Links of
    /// root's are part of the system, and followed.
    pub fn at(folder: &Path, access: WorkspaceAccess) -> io::Result<Self> {
        let root = resources::canonical_directory(folder)?;
        if glob::system_name(folder) != root {
            let name = root.display();
            return Err(io::Error::other(format!(
                "it leads through a link to `{name}`, and whoever can turn the link would choose the folder; list a \
                 workspace by its own name"
            )));
        }
        Ok(Workspace { root, access })
    }

    /// A folder that need not be there, for calls that are only supposed.
    pub(crate) fn supposed(root: &str, access: WorkspaceAccess) -> Self {
        Workspace { root: PathBuf::from(root), access }
    }

    /// A folder that a rule grants, to read and to write.
    pub(crate) fn granted(root: &Path) -> Self {
        Workspace { root: root.to_owned(), access: WorkspaceAccess::ReadWrite }
    }

    /// Its canonical name.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What may be done in it.
    pub fn access(&self) -> WorkspaceAccess {
        self.access
    }
}

/// The caller's workspaces, and where its relative paths start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspaces {
    list: Arc<[Workspace]>,
    base: Option<Arc<Path>>,
}

impl Workspaces {
    /// Relative paths start in the first.
    pub fn new(list: Vec<Workspace>) -> Self {
        let base = list.first().map(|workspace| workspace.root.as_path().into());
        Workspaces { list: list.into(), base }
    }

    /// The same workspaces with relative paths starting at `cwd`. It widens nothing: a folder outside makes every
    /// relative path lead outside, where it is denied, rather than somewhere the caller does not stand.
    pub fn based_at(&self, cwd: Option<&Path>) -> Workspaces {
        let base = cwd.filter(|path| path.is_absolute()).map(Arc::from);
        Workspaces { list: Arc::clone(&self.list), base: base.or_else(|| self.base.clone()) }
    }

    /// Where relative paths start; nowhere if there is no workspace.
    pub fn base(&self) -> Option<&Path> {
        self.base.as_deref()
    }

    pub(crate) fn shared_base(&self) -> Option<Arc<Path>> {
        self.base.clone()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Workspace> {
        self.list.iter()
    }
}
