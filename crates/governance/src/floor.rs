//! The floor: what no file can allow.
//!
//! Names are protected, not files: a start-up file that does not exist yet is exactly the one worth creating.
//! The list is data. Letters are compared without case on every system, because a volume that ignores case can
//! be mounted anywhere.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use globset::{Candidate, GlobBuilder, GlobSet, GlobSetBuilder};
use tool::{PathAccess, RefusalCode, RuleRef};

use crate::name::{Folder, Name, fold};
use crate::pattern::{everything_below, is_wild};
use crate::surroundings::Protected;

mod names;

pub use names::git_acts_on;
use names::{GITS_OWN, Group, NEVER_TOUCHED, NEVER_WRITTEN, ONLY_FOLDERS};

/// The fixed part, compiled once: it is the same for every policy.
static FIXED: LazyLock<Result<Fixed, globset::Error>> = LazyLock::new(Fixed::compile);

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
    let asked = Asked::of(&name);
    fixed.written.has(&asked) || (stands == Stands::Other && fixed.only_folders.has(&asked))
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
    set: GlobSet,
    /// The group of each glob, in the order of the set.
    groups: Vec<(&'static str, &'static str)>,
    /// Where all of it lies, by the first part of the name; `None` where any part may be the first.
    roots: Option<BTreeSet<String>>,
}

/// A name with its case taken out, as the lists are asked about it.
struct Asked<'a> {
    name: &'a Path,
    /// Its first part.
    root: &'a [u8],
    /// What expressions are asked about, once one is.
    candidate: OnceCell<Candidate<'a>>,
}

impl<'a> Asked<'a> {
    fn of(folded: &'a Name) -> Self {
        let name = folded.as_path();
        let mut parts = name.as_os_str().as_bytes().split(|byte| *byte == b'/').skip(1);
        Asked { name, root: parts.next().unwrap_or_default(), candidate: OnceCell::new() }
    }

    fn candidate(&self) -> &Candidate<'a> {
        self.candidate.get_or_init(|| Candidate::new(self.name))
    }
}

impl Floor {
    /// Compiles the list and adds Sinew's own folders, under the names given and the names they lead to.
    pub(crate) fn new(protected: &Protected) -> Result<Self, globset::Error> {
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
        let asked = Asked::of(&name);
        if self.own.iter().any(|folder| folder.holds(&name)) {
            let rule = rule("sinew");
            return Some(FloorRule { code: RefusalCode::ControlPlane, rule, why: "it is Sinew's own" });
        }
        let written = || match access {
            PathAccess::Write | PathAccess::Remove => {
                self.fixed.written.find(&asked).or_else(|| self.fixed.gits_own.find(&asked))
            }
            PathAccess::Read => None,
        };
        let (group, why) = self.fixed.touched.find(&asked).or_else(written)?;
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
    fn compile() -> Result<Self, globset::Error> {
        Ok(Fixed {
            touched: Guarded::compile(NEVER_TOUCHED, Reach::Below)?,
            written: Guarded::compile(NEVER_WRITTEN, Reach::Below)?,
            gits_own: Guarded::compile(GITS_OWN, Reach::Below)?,
            only_folders: Guarded::compile(ONLY_FOLDERS, Reach::Alone)?,
        })
    }
}

impl Guarded {
    fn compile(list: &[Group], reach: Reach) -> Result<Self, globset::Error> {
        let mut set = GlobSetBuilder::new();
        let (mut groups, mut roots) = (Vec::new(), Vec::new());
        for group in list {
            for text in group.names.iter().flat_map(|pattern| spellings(pattern, reach)) {
                set.add(glob(&text)?);
                groups.push((group.id, group.why));
                roots.push(root(&text));
            }
        }
        Ok(Guarded { set: set.build()?, groups, roots: roots.into_iter().collect() })
    }

    fn has(&self, asked: &Asked<'_>) -> bool {
        // Most names lie elsewhere, and to compare one part is far cheaper than to ask expressions.
        let here = |roots: &BTreeSet<String>| roots.iter().any(|root| root.as_bytes() == asked.root);
        self.roots.as_ref().is_none_or(here) && self.set.is_match_candidate(asked.candidate())
    }

    fn find(&self, asked: &Asked<'_>) -> Option<(&'static str, &'static str)> {
        if !self.has(asked) {
            return None;
        }
        let first = self.set.matches_candidate(asked.candidate()).into_iter().min()?;
        self.groups.get(first).copied()
    }
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

/// The first part of whatever a pattern matches, where it says so itself.
fn root(text: &str) -> Option<String> {
    let first = text.strip_prefix('/')?.split('/').next()?;
    (!is_wild(first)).then(|| fold(first))
}

fn glob(text: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(&fold(text)).literal_separator(true).empty_alternates(true).build()
}

pub(crate) fn rule(group: &str) -> RuleRef {
    RuleRef { file: BUILT_IN_FLOOR.into(), line: 0, id: format!("floor.{group}").into() }
}

/// What stands for the file of a rule that no file can change.
pub(crate) const BUILT_IN_FLOOR: &str = "built-in floor";

#[cfg(test)]
mod tests;
