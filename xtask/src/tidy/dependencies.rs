//! Dependencies are declared once, in the root manifest, with one version for all; a crate only writes
//! `name.workspace = true`. The check `edges` decides which crate may import which. A package that is its own
//! workspace is not checked, because it has no workspace to inherit from.

use crate::tidy::Finding;
use crate::tidy::lints::is_apart;
use crate::tree::{File, Tree};

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending("/Cargo.toml").filter(|manifest| !is_apart(manifest)).flat_map(check_manifest).collect()
}

fn check_manifest(manifest: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    for (number, line) in manifest.lines() {
        let line = line.split_once('#').map_or(line, |(before, _)| before).trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            inside = section.ends_with("dependencies");
            if section.contains("dependencies.") {
                let message = "write the dependency on one line, as `name = { workspace = true, … }`";
                findings.push(Finding::error(&manifest.path, number, message));
            }
        } else if inside && !line.is_empty() && !is_inherited(line) {
            let message = format!(
                "`{line}` states its own source: put it into [workspace.dependencies] and write `name.workspace = true`"
            );
            findings.push(Finding::error(&manifest.path, number, message));
        }
    }
    findings
}

fn is_inherited(line: &str) -> bool {
    let Some((name, value)) = line.split_once('=') else { return false };
    let value = value.trim();
    if name.trim().ends_with(".workspace") {
        return value == "true";
    }
    let inner = value.strip_prefix('{').and_then(|value| value.strip_suffix('}'));
    inner.is_some_and(|inner| inner.split(',').any(|part| part.replace(' ', "") == "workspace=true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    fn check_text(manifest: &str, expect: &[(&str, usize, &str)]) {
        assert_findings(&check(&Tree::of(&[("crates/a/Cargo.toml", manifest)])), expect);
    }

    #[test]
    fn a_separate_workspace_declares_its_own() {
        check_text("[workspace]\n\n[package]\nname = \"peer\"\n\n[dependencies]\nserde = \"1.0\"\n", &[]);
    }

    #[test]
    fn inherited_dependencies_pass() {
        check_text(
            "[package]\nversion = \"1.0\"\n\n[dependencies]\n# why\nserde.workspace = true\n\
             tokio = { workspace = true, features = [\"fs\"] } # for files\n\n[lints]\nworkspace = true\n",
            &[],
        );
    }

    #[test]
    fn any_other_source_is_reported() {
        let own = "states its own source";
        check_text("[dependencies]\nserde = \"1.0\"\n", &[("crates/a/Cargo.toml", 2, own)]);
        check_text("[dev-dependencies]\nserde = { version = \"1\" }\n", &[("crates/a/Cargo.toml", 2, own)]);
        check_text("[build-dependencies]\ncc = { git = \"x\" }\n", &[("crates/a/Cargo.toml", 2, own)]);
        check_text(
            "[target.'cfg(target_os = \"linux\")'.dependencies]\nlandlock = \"0.4\"\n",
            &[("crates/a/Cargo.toml", 2, own)],
        );
        check_text("[dependencies]\nserde.workspace = false\n", &[("crates/a/Cargo.toml", 2, own)]);
    }

    #[test]
    fn a_section_for_one_dependency_is_reported() {
        check_text("[dependencies.serde]\nversion = \"1\"\n", &[("crates/a/Cargo.toml", 1, "on one line")]);
    }
}
