//! The interface of a crate fits on one screen: `lib.rs` exports at most thirty names. A public module counts
//! as one name, so it has to be a unit that a reader can pass over.

use crate::tidy::{Finding, rust_source};
use crate::tree::Tree;

const LIMIT: usize = 30;

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let libraries = tree.ending("/src/lib.rs").filter(|file| file.path.starts_with("crates/"));
    libraries
        .filter_map(|file| {
            let count = exported_names(&rust_source::code_only(&file.text));
            let message = format!("{count} exported names, the limit is {LIMIT}: make some of them private");
            (count > LIMIT).then(|| Finding::error(&file.path, 1, message))
        })
        .collect()
}

/// Counts the names after `pub use`, `pub mod`, `pub type` and the like. `pub(crate)` is not part of the
/// interface.
fn exported_names(code: &str) -> usize {
    let statements = code.split(';').map(|statement| {
        statement.lines().map(str::trim).filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join(" ")
    });
    statements
        .filter_map(|statement| {
            let exported = statement.trim().strip_prefix("pub ")?;
            // Only a `use` lists names: the commas of a type alias separate its parameters.
            let Some(names) = exported.strip_prefix("use ") else { return Some(1) };
            Some(names.split(',').filter(|part| !part.trim_matches([' ', '}']).is_empty()).count())
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const LIB: &str = "crates/a/src/lib.rs";

    fn names(count: usize) -> String {
        let names: Vec<String> = (0..count).map(|n| format!("Name{n}")).collect();
        format!(
            "//! Docs, with a comma.\n\nmod b;\npub(crate) use b::Inner;\npub use b::{{\n    {},\n}};\n",
            names.join(", ")
        )
    }

    #[test]
    fn more_than_thirty_exports_are_too_many() {
        assert_findings(&check(&Tree::of(&[(LIB, &names(30))])), &[]);
        assert_findings(
            &check(&Tree::of(&[(LIB, &names(31))])),
            &[(LIB, 1, "31 exported names, the limit is 30")],
        );
        let alias = format!("{}pub type Pair = Map<String, String>;\n", names(29));
        assert_findings(&check(&Tree::of(&[(LIB, &alias)])), &[]);
        let more = format!("{}pub mod c;\n", names(30));
        assert_findings(&check(&Tree::of(&[(LIB, &more)])), &[(LIB, 1, "31 exported names")]);
    }
}
