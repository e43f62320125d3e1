//! Conservative generalisation of paths that were seen in the record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use governance::Policy;
use governance::rules::{EffectivePolicy, PathPattern};
use tool::ToolDefinition;

/// Different files of one folder after which the folder is meant, not the files.
const MIN_FILES: usize = 3;

/// Returns patterns for the seen paths: each path itself, or `folder/*` where several files directly in a
/// folder were seen. A folder is never generalised if a path in it was refused, or if a forbidden pattern
/// with a fixed prefix lies below it. Patterns such as `**/.env` still forbid their files.
pub(crate) fn path_patterns(
    policy: &Policy,
    definition: &ToolDefinition,
    seen: &BTreeSet<&Path>,
    refused: &BTreeSet<&Path>,
) -> Vec<String> {
    let mut folders: BTreeMap<Option<&Path>, Vec<&Path>> = BTreeMap::new();
    for path in seen {
        folders.entry(path.parent()).or_default().push(path);
    }
    let forbidden = EffectivePolicy::new(policy, definition).forbidden_paths().patterns();
    let is_clear = |folder: &Path| {
        !refused.iter().any(|path| path.starts_with(folder))
            && !forbidden
                .iter()
                .any(|one| one.literal_prefix != Path::new("/") && one.literal_prefix.starts_with(folder))
    };
    let mut patterns = Vec::new();
    for (folder, paths) in folders {
        match folder
            .filter(|folder| paths.len() >= MIN_FILES && folder.parent().is_some() && is_clear(folder))
        {
            Some(folder) => patterns.push(format!("{}/*", PathPattern::literal(folder))),
            None => patterns.extend(paths.into_iter().map(PathPattern::literal)),
        }
    }
    patterns
}
