//! The floor: what no file can allow.
//!
//! Names are protected, not files: a start-up file that does not exist yet is exactly the one worth creating.
//! The list is data. Letters are compared without case on every system, because a volume that ignores case can
//! be mounted anywhere.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tool::{PathAccess, RefusalCode, RuleRef};

use crate::glob::{Tree, TreeBuilder, alternatives};
use crate::name::{Folder, Name, fold};
use crate::pattern::{BadPattern, everything_below};
use crate::surroundings::Protected;

mod names;

pub use names::git_acts_on;
use names::{GITS_OWN, Group, NEVER_TOUCHED, NEVER_WRITTEN, ONLY_FOLDERS};

/// The fixed part, compiled once: it is the same for every policy.
static FIXED: LazyLock<Result<Fixed, BadPattern>> = LazyLock::new(Fixed::compile);

/// The floor, compiled.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Sinew's own folders, under every name they have, with case and a final slash taken out.
    own: BTreeSet<Folder>,
    /// Sinew's own folders, by the names they lead to.
    folders: Vec<PathBuf>,
    fixed: &'static Fixed,
}

#[derive(Debug)]
struct Fixed {
    touched: Guarded,
    written: Guarded,
    gits_own: Guarded,
    only_folders: Guarded,
}

/// What stands under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// A folder.
    Folder,
    /// Anything else: a file, a link.
    Other,
}

/// Whether something on a machine runs what stands under this name by itself, so that a confined program may neither
/// change nor leave it.
pub fn runs_by_itself(path: &Path, stands: Stands) -> bool {
    // A list that could not be read frees nothing.
    let (Ok(fixed), Some(name)) = (FIXED.as_ref(), Name::canonical(path)) else { return true };
    let name = name.folded();
    let is_in = |list: &Guarded| list.find(&name).is_some();
    is_in(&fixed.written) || (stands == Stands::Other && is_in(&fixed.only_folders))
}

/// What the floor says of a name it protects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FloorRule {
    pub(crate) code: RefusalCode,
    pub(crate) rule: RuleRef,
    pub(crate) why: &'static str,
}

/// How far a name reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// To itself.
    Alone,
    /// To everything below it too. Walls close a folder of that name as a whole: what they keep from a program is kept from
    /// tools.
    Below,
}

#[derive(Debug)]
struct Guarded {
    tree: Tree,
    /// The group of each pattern, by the number that the tree knows it by.
    groups: Vec<(&'static str, &'static str)>,
}

impl Floor {
    /// Compiles the list and adds Sinew's own folders, under the names given and the names they lead to.
    pub(crate) fn new(protected: &Protected) -> Result<Self, BadPattern> {
        let (mut own, mut folders) = (BTreeSet::new(), Vec::new());
        for folder in &protected.folders {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            let spellings = [folder, &real].map(|spelling| fold(&spelling.to_string_lossy()));
            own.extend(spellings.map(|spelling| Folder::new(spelling.trim_end_matches('/').into())));
            folders.push(real);
        }
        Ok(Floor { own, folders, fixed: FIXED.as_ref().map_err(Clone::clone)? })
    }

    /// Sinew's own folders.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// The rule that protects this name from this access.
    pub(crate) fn protects(&self, name: &Name, access: PathAccess) -> Option<FloorRule> {
        let name = name.folded();
        if self.own.iter().any(|folder| folder.holds(&name)) {
            let rule = rule("sinew");
            return Some(FloorRule { code: RefusalCode::ControlPlane, rule, why: "it is Sinew's own" });
        }
        let written = || match access {
            PathAccess::Write | PathAccess::Remove => {
                self.fixed.written.find(&name).or_else(|| self.fixed.gits_own.find(&name))
            }
            PathAccess::Read => None,
        };
        let (group, why) = self.fixed.touched.find(&name).or_else(written)?;
        Some(FloorRule { code: RefusalCode::PathForbidden, rule: rule(group), why })
    }

    /// The groups that were looked at before this one was found; all of them if none was.
    pub(crate) fn before(&self, access: PathAccess, found: Option<&RuleRef>) -> Vec<(RuleRef, String)> {
        let written = match access {
            PathAccess::Write | PathAccess::Remove => NEVER_WRITTEN,
            PathAccess::Read => &[],
        };
        let groups = NEVER_TOUCHED.iter().chain(written).map(|group| (rule(group.id), group.why.to_owned()));
        let own = std::iter::once((rule("sinew"), "it is Sinew's own".to_owned()));
        own.chain(groups).take_while(|(rule, _)| Some(rule) != found).collect()
    }
}

impl Fixed {
    fn compile() -> Result<Self, BadPattern> {
        Ok(Fixed {
            touched: Guarded::compile(NEVER_TOUCHED, Reach::Below)?,
            written: Guarded::compile(NEVER_WRITTEN, Reach::Below)?,
            gits_own: Guarded::compile(GITS_OWN, Reach::Below)?,
            only_folders: Guarded::compile(ONLY_FOLDERS, Reach::Alone)?,
        })
    }
}

impl Guarded {
    fn compile(list: &[Group], reach: Reach) -> Result<Self, BadPattern> {
        let (mut tree, mut groups) = (TreeBuilder::new(), Vec::new());
        for group in list {
            for text in group.names.iter().flat_map(|pattern| spellings(pattern, reach)) {
                for plain in spelt_out(&fold(&text)) {
                    tree.add(&plain, groups.len())?;
                }
                groups.push((group.id, group.why));
            }
        }
        Ok(Guarded { tree: tree.build()?, groups })
    }

    /// The group of the first pattern that matches a name with its case taken out.
    fn find(&self, folded: &Name) -> Option<(&'static str, &'static str)> {
        let first = self.tree.first(folded.as_path().as_os_str().as_bytes())?;
        self.groups.get(first).copied()
    }
}

/// A pattern once for each text in its braces, which may hold slashes: what is left has no expression to be compiled at each
/// start.
fn spelt_out(pattern: &str) -> Vec<String> {
    alternatives(pattern).unwrap_or_else(|| vec![pattern.to_owned()])
}

/// A pattern, the folder it is about or what is below it, and all of it below `/private`, where a Mac keeps what `/etc` and
/// `/var` link to.
fn spellings(pattern: &str, reach: Reach) -> Vec<String> {
    let folder = pattern.strip_suffix("/**").map(str::to_owned);
    let below = everything_below(pattern).filter(|_| reach == Reach::Below);
    let plain = [Some(pattern.to_owned()), folder, below].into_iter().flatten();
    let linked = pattern.starts_with("/etc/") || pattern.starts_with("/var/");
    plain.flat_map(|text| [linked.then(|| format!("/private{text}")), Some(text)]).flatten().collect()
}

pub(crate) fn rule(group: &str) -> RuleRef {
    RuleRef { file: BUILT_IN_FLOOR.into(), line: 0, id: format!("floor.{group}").into() }
}

/// What stands for the file of a rule that no file can change.
pub(crate) const BUILT_IN_FLOOR: &str = "built-in floor";

#[cfg(test)]
mod tests;
