//! Names that a program created and that were put out of reach, as a caller sees them.

use std::path::Path;

use sandbox::Quarantined;
use schemars::JsonSchema;
use serde::Serialize;
use tool::visible_line;

#[derive(Serialize, JsonSchema)]
pub(super) struct Aside {
    /// As it was created.
    path: String,
    /// Where it is now; absent if it could not be moved.
    moved_to: Option<String>,
}

pub(super) fn list(quarantined: &[Quarantined]) -> Vec<Aside> {
    let list = quarantined.iter();
    list.map(|one| Aside { path: shown(&one.path), moved_to: one.moved_to.as_deref().map(shown) }).collect()
}

/// What Sinew moved, for the record of the call: both names of each.
pub(super) fn touched(quarantined: &[Quarantined]) -> Vec<String> {
    let moved =
        quarantined.iter().filter_map(|one| Some([shown(&one.path), shown(one.moved_to.as_deref()?)]));
    moved.flatten().collect()
}

/// The program chose the name, and a person may read it.
fn shown(path: &Path) -> String {
    visible_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_nothing_to_a_screen() {
        assert_eq!(shown(Path::new("/w/a\u{1b}[31m\u{202e}/é")), "/w/a\\u{1b}[31m\\u{202e}/é");
    }
}
