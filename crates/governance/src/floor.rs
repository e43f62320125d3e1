//! Built-in denials: paths that no policy file can allow.
//!
//! They protect names, not existing files, because an attack may create a start-up file that does not exist
//! yet. The lists are data, in `lists.rs`. Names are compared without case on every system, because a
//! case-insensitive volume can be mounted anywhere.

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

use names::{GITS_OWN, Group, NEVER_TOUCHED, NEVER_WRITTEN, ONLY_FOLDERS};

/// Compiled lists, built once because they are the same for every policy.
static FIXED: LazyLock<Result<Fixed, BadPattern>> = LazyLock::new(Fixed::compile);

/// Built-in denials, compiled, with Sinew's own folders.
#[derive(Debug)]
pub(crate) struct Floor {
    /// Sinew's own folders, under the configured and the canonical name, case-folded and without a trailing
    /// slash.
    own: BTreeSet<Folder>,
    /// Canonical names of Sinew's own folders.
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

/// Kind of the object under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stands {
    /// Folder.
    Folder,
    /// Anything else, such as a file or a link.
    Other,
}

/// Returns true if other programs run or load the object under this name automatically.
///
/// A sandboxed program must not change such an object or leave one behind.
pub fn runs_by_itself(path: &Path, stands: Stands) -> bool {
    // Fails closed: if the lists do not compile or the name is not canonical, the object counts as protected.
    let (Ok(fixed), Some(name)) = (FIXED.as_ref(), Name::canonical(path)) else { return true };
    let name = name.folded();
    let is_in = |list: &Guarded| list.find(&name).is_some();
    is_in(&fixed.written) || (stands == Stands::Other && is_in(&fixed.only_folders))
}

/// Built-in denial of access to a name: refusal code, rule and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FloorRule {
    pub(crate) code: RefusalCode,
    pub(crate) rule: RuleRef,
    pub(crate) why: &'static str,
}

/// Extent of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// The name alone.
    Alone,
    /// The name and everything below it. The sandbox blocks a folder of that name as a whole, and tools must
    /// not reach more than a sandboxed program.
    Below,
}

#[derive(Debug)]
struct Guarded {
    tree: Tree,
    /// Id and reason of the group of each pattern, indexed by the pattern's number in `trie`.
    groups: Vec<(&'static str, &'static str)>,
}

impl Floor {
    /// Combines the compiled lists with Sinew's own folders, under their configured and their canonical
    /// names.
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

    /// Returns the canonical names of Sinew's own folders.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    /// Returns the denial that applies to this access to this name, if there is one.
    pub(crate) fn protects(&self, name: &Name, access: PathAccess) -> Option<FloorRule> {
        let name = name.folded();
        if self.own.iter().any(|folder| folder.holds(&name)) {
            let rule = rule("sinew");
            return Some(FloorRule { code: RefusalCode::ControlPlane, rule, why: "it belongs to Sinew" });
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

    /// Returns the groups that were evaluated before the one that matched; all of them if none matched.
    pub(crate) fn before(&self, access: PathAccess, found: Option<&RuleRef>) -> Vec<(RuleRef, String)> {
        let written = match access {
            PathAccess::Write | PathAccess::Remove => NEVER_WRITTEN,
            PathAccess::Read => &[],
        };
        let groups = NEVER_TOUCHED.iter().chain(written).map(|group| (rule(group.id), group.why.to_owned()));
        let own = std::iter::once((rule("sinew"), "it belongs to Sinew".to_owned()));
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

    /// Returns the group of the first pattern that matches a case-folded name.
    fn find(&self, folded: &Name) -> Option<(&'static str, &'static str)> {
        let first = self.tree.first(folded.as_path().as_os_str().as_bytes())?;
        self.groups.get(first).copied()
    }
}

/// Expands the braces of a pattern, whose alternatives may contain slashes.
///
/// The results need no regular expression, which would have to be compiled at every start.
fn spelt_out(pattern: &str) -> Vec<String> {
    alternatives(pattern).unwrap_or_else(|| vec![pattern.to_owned()])
}

/// Returns a pattern with its variants: the folder of `dir/**`, everything below the name if `scope` includes
/// it, and each of them below `/private`, because macOS links `/etc` and `/var` there.
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

/// File name that rule references use for built-in denials.
pub(crate) const BUILT_IN_FLOOR: &str = "built-in floor";

#[cfg(test)]
mod tests;
