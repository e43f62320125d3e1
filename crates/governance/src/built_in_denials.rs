//! Built-in denials: paths that no policy file can allow.
//!
//! They protect names, not existing files, because an attack may create a start-up file that does not exist
//! yet. The lists are data, in `lists.rs`. Names are compared without case on every system, because a
//! case-insensitive volume can be mounted anywhere.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use tool::definition::PathAccess;
use tool::{RefusalCode, RuleRef};

use crate::glob::{PatternTrie, PatternTrieBuilder, brace_alternatives};
use crate::normalized_path::{FolderPrefix, NormalizedPath, fold_case};
use crate::pattern::{PatternError, descendants_pattern};
use crate::policy_environment::ProtectedFolders;

mod lists;

use lists::{
    ACCESS_DENIED, DenialGroup, NON_FOLDER_DENIED, TOOL_READ_DENIED, TOOL_WRITE_DENIED, WRITE_DENIED,
};

/// Compiled lists, built once because they are the same for every policy.
static COMPILED_DENIALS: LazyLock<Result<CompiledDenials, PatternError>> =
    LazyLock::new(CompiledDenials::compile);

/// Built-in denials, compiled, with Sinew's own folders.
#[derive(Debug)]
pub(crate) struct BuiltInDenials {
    /// Sinew's own folders, under the configured and the canonical name, case-folded and without a trailing
    /// slash.
    own_folder_names: BTreeSet<FolderPrefix>,
    /// Canonical names of Sinew's own folders.
    own_folders: Vec<PathBuf>,
    compiled: &'static CompiledDenials,
}

#[derive(Debug)]
struct CompiledDenials {
    access_denied: DenialList,
    write_denied: DenialList,
    tool_read_denied: DenialList,
    tool_write_denied: DenialList,
    non_folder_denied: DenialList,
}

/// Kind of the object under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEntryKind {
    /// Folder.
    Folder,
    /// Anything else, such as a file or a link.
    Other,
}

/// Returns true if other programs run or load the object under this name automatically.
///
/// A sandboxed program must not change such an object or leave one behind.
pub fn is_run_automatically(path: &Path, kind: PathEntryKind) -> bool {
    // Fails closed: if the lists do not compile or the name is not canonical, the object counts as protected.
    let (Ok(fixed), Some(name)) = (COMPILED_DENIALS.as_ref(), NormalizedPath::canonical(path)) else {
        return true;
    };
    let name = name.case_folded();
    let is_in = |list: &DenialList| list.find(&name).is_some();
    is_in(&fixed.write_denied) || (kind == PathEntryKind::Other && is_in(&fixed.non_folder_denied))
}

/// Built-in denial of access to a name: refusal code, rule and reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BuiltInDenial {
    pub(crate) code: RefusalCode,
    pub(crate) rule: RuleRef,
    pub(crate) reason: &'static str,
}

/// Extent of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternScope {
    /// The name alone.
    Exact,
    /// The name and everything below it. The sandbox blocks a folder of that name as a whole, and tools must
    /// not reach more than a sandboxed program.
    Subtree,
}

#[derive(Debug)]
struct DenialList {
    trie: PatternTrie,
    /// Id and reason of the group of each pattern, indexed by the pattern's number in `trie`.
    groups: Vec<(&'static str, &'static str)>,
}

impl BuiltInDenials {
    /// Combines the compiled lists with Sinew's own folders, under their configured and their canonical
    /// names.
    pub(crate) fn new(protected: &ProtectedFolders) -> Result<Self, PatternError> {
        let (mut own, mut folders) = (BTreeSet::new(), Vec::new());
        for folder in &protected.folders {
            let real = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
            let spellings = [folder, &real].map(|spelling| fold_case(&spelling.to_string_lossy()));
            own.extend(spellings.map(|spelling| FolderPrefix::new(spelling.trim_end_matches('/').into())));
            folders.push(real);
        }
        Ok(BuiltInDenials {
            own_folder_names: own,
            own_folders: folders,
            compiled: COMPILED_DENIALS.as_ref().map_err(Clone::clone)?,
        })
    }

    /// Returns the canonical names of Sinew's own folders.
    pub(crate) fn own_folders(&self) -> &[PathBuf] {
        &self.own_folders
    }

    /// Returns the denial that applies to this access to this name, if there is one.
    pub(crate) fn find_denial(&self, name: &NormalizedPath, access: PathAccess) -> Option<BuiltInDenial> {
        let name = name.case_folded();
        if self.own_folder_names.iter().any(|folder| folder.contains(&name)) {
            let rule = rule_ref("sinew");
            return Some(BuiltInDenial {
                code: RefusalCode::ControlPlane,
                rule,
                reason: "it belongs to Sinew",
            });
        }
        let written = || match access {
            PathAccess::Write | PathAccess::Remove => {
                self.compiled.write_denied.find(&name).or_else(|| self.compiled.tool_write_denied.find(&name))
            }
            PathAccess::Read => None,
        };
        let (group, why) = self.compiled.access_denied.find(&name).or_else(written)?;
        Some(BuiltInDenial { code: RefusalCode::PathForbidden, rule: rule_ref(group), reason: why })
    }

    /// Returns the denial of a name to a sandboxed program.
    pub(crate) fn find_program_denial(&self, name: &NormalizedPath, access: PathAccess) -> bool {
        let is_run = access.is_modifying() && self.compiled.write_denied.find(&name.case_folded()).is_some();
        is_run || self.find_denial(name, PathAccess::Read).is_some()
    }

    /// Returns the compiled lists.
    pub(crate) fn tries(&self) -> [&PatternTrie; 4] {
        let lists = self.compiled;
        [
            &lists.access_denied.trie,
            &lists.write_denied.trie,
            &lists.tool_read_denied.trie,
            &lists.tool_write_denied.trie,
        ]
    }

    /// Returns the names of Sinew's own folders, case-folded.
    pub(crate) fn own_folder_names(&self) -> impl Iterator<Item = &Path> {
        self.own_folder_names.iter().map(FolderPrefix::as_path)
    }

    /// Like `find_denial`, with the names that a tool must not open but a sandboxed program may.
    pub(crate) fn find_tool_denial(
        &self,
        name: &NormalizedPath,
        access: PathAccess,
    ) -> Option<BuiltInDenial> {
        self.find_denial(name, access).or_else(|| {
            let (group, reason) = self.compiled.tool_read_denied.find(&name.case_folded())?;
            Some(BuiltInDenial { code: RefusalCode::PathForbidden, rule: rule_ref(group), reason })
        })
    }

    /// Returns the groups that were evaluated before the one that matched; all of them if none matched.
    pub(crate) fn rules_before(&self, access: PathAccess, found: Option<&RuleRef>) -> Vec<(RuleRef, String)> {
        let written = match access {
            PathAccess::Write | PathAccess::Remove => WRITE_DENIED,
            PathAccess::Read => &[],
        };
        let groups =
            ACCESS_DENIED.iter().chain(written).map(|group| (rule_ref(group.id), group.reason.to_owned()));
        let own = std::iter::once((rule_ref("sinew"), "it belongs to Sinew".to_owned()));
        own.chain(groups).take_while(|(rule, _)| Some(rule) != found).collect()
    }
}

impl CompiledDenials {
    fn compile() -> Result<Self, PatternError> {
        Ok(CompiledDenials {
            access_denied: DenialList::compile(ACCESS_DENIED, PatternScope::Subtree)?,
            write_denied: DenialList::compile(WRITE_DENIED, PatternScope::Subtree)?,
            tool_read_denied: DenialList::compile(TOOL_READ_DENIED, PatternScope::Subtree)?,
            tool_write_denied: DenialList::compile(TOOL_WRITE_DENIED, PatternScope::Subtree)?,
            non_folder_denied: DenialList::compile(NON_FOLDER_DENIED, PatternScope::Exact)?,
        })
    }
}

impl DenialList {
    fn compile(list: &[DenialGroup], scope: PatternScope) -> Result<Self, PatternError> {
        let (mut tree, mut groups) = (PatternTrieBuilder::new(), Vec::new());
        for group in list {
            for text in group.rows.iter().flat_map(|(pattern, _)| pattern_variants(pattern, scope)) {
                for plain in expand_braces(&fold_case(&text)) {
                    tree.add(&plain, groups.len())?;
                }
                groups.push((group.id, group.reason));
            }
        }
        Ok(DenialList { trie: tree.build()?, groups })
    }

    /// Returns the group of the first pattern that matches a case-folded name.
    fn find(&self, folded: &NormalizedPath) -> Option<(&'static str, &'static str)> {
        let first = self.trie.first_match(folded.as_path().as_os_str().as_bytes())?;
        self.groups.get(first).copied()
    }
}

/// Returns every pattern of the lists that tools are judged by, case-folded and without braces.
pub(crate) fn tool_patterns() -> impl Iterator<Item = String> {
    let groups = [ACCESS_DENIED, WRITE_DENIED, TOOL_READ_DENIED, TOOL_WRITE_DENIED].into_iter().flatten();
    let rows = groups.flat_map(|group| group.rows);
    let texts = rows.flat_map(|(pattern, _)| pattern_variants(pattern, PatternScope::Subtree));
    texts.flat_map(|text| expand_braces(&fold_case(&text)))
}

/// Expands the braces of a pattern, whose alternatives may contain slashes.
///
/// The results need no regular expression, which would have to be compiled at every start.
fn expand_braces(pattern: &str) -> Vec<String> {
    brace_alternatives(pattern).unwrap_or_else(|| vec![pattern.to_owned()])
}

/// Returns a pattern with its variants: the folder of `dir/**`, everything below the name if `scope` includes
/// it, and each of them below `/private`, because macOS links `/etc` and `/var` there.
fn pattern_variants(pattern: &str, scope: PatternScope) -> Vec<String> {
    let folder = pattern.strip_suffix("/**").map(str::to_owned);
    let below = descendants_pattern(pattern).filter(|_| scope == PatternScope::Subtree);
    let plain = [Some(pattern.to_owned()), folder, below].into_iter().flatten();
    let linked = pattern.starts_with("/etc/") || pattern.starts_with("/var/");
    plain.flat_map(|text| [linked.then(|| format!("/private{text}")), Some(text)]).flatten().collect()
}

pub(crate) fn rule_ref(group: &str) -> RuleRef {
    RuleRef { file: BUILT_IN_FILE_NAME.into(), line: 0, id: format!("built_in.{group}").into() }
}

/// File name that rule references use for built-in denials.
pub(crate) const BUILT_IN_FILE_NAME: &str = "built-in denials";

#[cfg(test)]
mod tests;
