//! Every package inherits the lints of the workspace. Without that entry, none of them would apply to it. A
//! package that is its own workspace is not checked, because it has no workspace to inherit from.

use crate::tidy::Finding;
use crate::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let members = tree.ending("/Cargo.toml").filter(|manifest| !inherits(manifest) && !is_apart(manifest));
    let message = "add the two lines `[lints]` and `workspace = true`";
    members.map(|manifest| Finding::error(&manifest.path, 1, message)).collect()
}

fn inherits(manifest: &File) -> bool {
    let lines: Vec<&str> = manifest.text.lines().map(str::trim).collect();
    lines.windows(2).any(|pair| pair == ["[lints]", "workspace = true"])
}

/// Returns true if a package is its own workspace.
pub(super) fn is_apart(manifest: &File) -> bool {
    manifest.lines().any(|(_, line)| line.trim() == "[workspace]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    #[test]
    fn a_package_without_the_lints_is_found() {
        let check_text = |text: &str, expect: &[(&str, usize, &str)]| {
            assert_findings(&check(&Tree::of(&[("crates/a/Cargo.toml", text), ("Cargo.toml", "")])), expect);
        };
        check_text("[package]\n\n[lints]\nworkspace = true\n", &[]);
        check_text("[workspace]\n\n[package]\n", &[]);
        check_text("[package]\n", &[("crates/a/Cargo.toml", 1, "add the two lines")]);
        check_text("[lints]\nworkspace = false\n", &[("crates/a/Cargo.toml", 1, "`workspace = true`")]);
    }
}
