//! Paths that are forbidden to every tool: the list at the top of `tools.yaml`, or the built-in one where the file has
//! none. It also applies to tools that the file does not name.

use std::sync::Arc;

use strict_yaml::{Document, DocumentError, Located, YamlNodeKind};
use tool::RuleRef;

use crate::glob::{ListPurpose, ListedPattern, PathGlobs};
use crate::path_list;
use crate::policy_environment::PolicyEnvironment;
use crate::problems::FileInspection;
use crate::tools_file::{ToolEntry, ToolsFile};

/// Key of the list, and id of its rules.
pub const COMMON: &str = "forbidden_paths";

/// The list, as it is written and compiled.
#[derive(Clone, Debug)]
pub(crate) struct CommonPaths {
    written: Vec<(Located<String>, RuleRef)>,
    globs: Arc<PathGlobs>,
}

impl CommonPaths {
    /// Compiles the list of a file. `None` if the file has none, or if it does not compile, which has been reported.
    pub(crate) fn check(
        file: &ToolsFile,
        around: &PolicyEnvironment,
        inspection: &mut FileInspection<'_>,
    ) -> Option<Self> {
        let list = file.forbidden_paths.as_ref()?;
        let written: Vec<(Located<String>, RuleRef)> =
            list.iter().map(|text| (text.clone(), inspection.rule_ref(text, COMMON))).collect();
        let globs = path_list::compile_rules(&written, ListPurpose::Forbid, around, inspection)?;
        Some(CommonPaths { written, globs: Arc::new(globs) })
    }

    /// Warns about a user's list that replaces the built-in one, if the result lacks some of its patterns.
    pub(crate) fn replacement_warning(
        &self,
        user: &Document,
        built_in: &CommonPaths,
    ) -> Option<DocumentError> {
        let tree = user.tree().ok()?;
        let (key, _) = tree
            .entries()
            .iter()
            .find(|(key, value)| key.value == COMMON && matches!(value.kind, YamlNodeKind::List(_)))?;
        let is_kept = |pattern: &&ListedPattern| {
            let mut listed = self.globs.patterns().iter();
            listed.any(|known| known.pattern.covers(&pattern.pattern, ListPurpose::Forbid))
        };
        let missing: Vec<&str> = built_in
            .globs
            .patterns()
            .iter()
            .filter(|pattern| !is_kept(pattern))
            .map(|pattern| pattern.text.as_str())
            .collect();
        let first = missing.first()?;
        let message = format!(
            "this list replaces the built-in list of keys and credentials: {} patterns no longer apply, such as `{first}`",
            missing.len()
        );
        let fix =
            format!("write `{COMMON}: {{add: [...]}}` to keep them, or list them in `remove` to drop them");
        Some(user.error_at(key.line, key.column, &message).with_suggestion(fix))
    }

    /// Creates an empty list.
    pub(crate) fn none() -> Self {
        CommonPaths { written: Vec::new(), globs: Arc::new(PathGlobs::empty()) }
    }

    /// Patterns for a tool without an entry in the file.
    pub(crate) fn globs(&self) -> &Arc<PathGlobs> {
        &self.globs
    }

    /// Compiles what is forbidden to one tool: its own list first, then this one without the tool's exceptions.
    pub(crate) fn with_entry(
        &self,
        tool: &str,
        entry: &ToolEntry,
        around: &PolicyEnvironment,
        inspection: &mut FileInspection<'_>,
    ) -> Option<Arc<PathGlobs>> {
        for exception in &entry.forbidden_paths_except {
            if !self.written.iter().any(|(text, _)| text.value == exception.value) {
                let message = format!(
                    "`{}` is not in the list `{COMMON}` at the top of the file, so nothing is excepted",
                    exception.value
                );
                inspection.error(exception, &message, Some("write it as it is written there".to_owned()));
            }
        }
        if entry.forbidden_paths.is_empty() && entry.forbidden_paths_except.is_empty() {
            return Some(Arc::clone(&self.globs));
        }
        let id = format!("{tool}.{COMMON}");
        let own =
            entry.forbidden_paths.iter().map(|text| (text.clone(), inspection.rule_ref(text, id.as_str())));
        let is_excepted = |text: &str| entry.forbidden_paths_except.iter().any(|one| one.value == text);
        let common = self.written.iter().filter(|(text, _)| !is_excepted(&text.value)).cloned();
        let written: Vec<(Located<String>, RuleRef)> = own.chain(common).collect();
        path_list::compile_rules(&written, ListPurpose::Forbid, around, inspection).map(Arc::new)
    }
}

/// Returns the forbidden paths that the tool's own entry contains. They come first in the list.
pub fn own_part(forbidden: &PathGlobs) -> &[ListedPattern] {
    let written = forbidden.patterns();
    let own = written.iter().take_while(|one| &*one.rule.id != COMMON).count();
    written.get(..own).unwrap_or(written)
}
