//! Quarantined files in tool results: files created by a program that were moved out of the workspace.

use std::path::Path;

use sandbox::Quarantined;
use schemars::JsonSchema;
use serde::Serialize;
use tool::text::escape_invisible_line;

#[derive(Serialize, JsonSchema)]
pub(super) struct QuarantinedFile {
    /// Path where it was created.
    path: String,
    /// Path in quarantine; absent if it could not be moved.
    moved_to: Option<String>,
}

pub(super) fn quarantined_files(quarantined: &[Quarantined]) -> Vec<QuarantinedFile> {
    let list = quarantined.iter();
    list.map(|one| QuarantinedFile {
        path: display_path(&one.path),
        moved_to: one.moved_to.as_deref().map(display_path),
    })
    .collect()
}

/// Returns the original and the new path of every moved file, for the record of the call.
pub(super) fn touched_paths(quarantined: &[Quarantined]) -> Vec<String> {
    let moved = quarantined
        .iter()
        .filter_map(|one| Some([display_path(&one.path), display_path(one.moved_to.as_deref()?)]));
    moved.flatten().collect()
}

/// Escapes control characters, because the program chose the name and an operator may read it on a terminal.
fn display_path(path: &Path) -> String {
    escape_invisible_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_names_are_escaped() {
        assert_eq!(display_path(Path::new("/w/a\u{1b}[31m\u{202e}/é")), "/w/a\\u{1b}[31m\\u{202e}/é");
    }
}
