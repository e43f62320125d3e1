//! Quarantined files in tool results: files created by a program that were moved out of the workspace.

use std::path::Path;

use sandbox::Quarantined;
use schemars::JsonSchema;
use serde::Serialize;
use tool::visible_line;

#[derive(Serialize, JsonSchema)]
pub(super) struct Aside {
    /// Path where it was created.
    path: String,
    /// Path in quarantine; absent if it could not be moved.
    moved_to: Option<String>,
}

pub(super) fn list(quarantined: &[Quarantined]) -> Vec<Aside> {
    let list = quarantined.iter();
    list.map(|one| Aside { path: shown(&one.path), moved_to: one.moved_to.as_deref().map(shown) }).collect()
}

/// Returns the original and the new path of every moved file, for the record of the call.
pub(super) fn touched(quarantined: &[Quarantined]) -> Vec<String> {
    let moved =
        quarantined.iter().filter_map(|one| Some([shown(&one.path), shown(one.moved_to.as_deref()?)]));
    moved.flatten().collect()
}

/// Escapes control characters, because the program chose the name and an operator may read it on a terminal.
fn shown(path: &Path) -> String {
    visible_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(shown(Path::new("/w/a\u{1b}[31m\u{202e}/é")), "/w/a\\u{1b}[31m\\u{202e}/é");
    }
}
