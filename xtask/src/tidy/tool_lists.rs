//! A built-in tool is one file in an area's folder and one line in the area's list; an area is one line in
//! the list of areas. A file without its line would be a tool that cannot be called, and no other check would
//! report that.

use crate::tidy::{Finding, rust_source};
use crate::tree::{File, Tree};

const TOOLBOX: &str = "crates/toolbox/src/";

/// Marks of a tool's file, which contains at least one of them.
const MARKS: [&str; 3] = ["ToolEntry::new", "ToolSpec::new", "impl ToolExecutor for"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.ending(".rs") {
        let Some(inside) = file.path.strip_prefix(TOOLBOX) else { continue };
        match inside.rsplit_once('/') {
            Some((area, _)) if is_tool(file) => findings.extend(missing_tool(tree, file, area)),
            None if tree.holds(&format!("{TOOLBOX}{}/", file.stem())) => {
                findings.extend(missing_area(tree, file))
            }
            _ => {}
        }
    }
    findings
}

fn is_tool(file: &File) -> bool {
    let code = rust_source::code_only(&file.text);
    MARKS.iter().any(|mark| code.contains(mark))
}

/// Reports a tool that its area does not list: `filesystem/read_file.rs` belongs into `filesystem.rs`.
fn missing_tool(tree: &Tree, tool: &File, area: &str) -> Option<Finding> {
    let list = format!("{TOOLBOX}{area}.rs");
    let listed = tree.file(&list).is_some_and(|list| uses(list, tool.stem()));
    let message = format!("the tool is not in the list of `{list}`: add a line with `{}::`", tool.stem());
    (!listed).then(|| Finding::error(&tool.path, 1, message))
}

/// Reports an area such as `filesystem.rs` that no other file at the top lists.
fn missing_area(tree: &Tree, area: &File) -> Option<Finding> {
    let at_top = |file: &&File| file.path.strip_prefix(TOOLBOX).is_some_and(|inside| !inside.contains('/'));
    let listed = tree.files().filter(at_top).any(|file| file.path != area.path && uses(file, area.stem()));
    let message = format!("no list of areas has `{}::`: none of its tools can be called", area.stem());
    (!listed).then(|| Finding::error(&area.path, 1, message))
}

/// Returns true if code other than an import names something of the module.
fn uses(list: &File, module: &str) -> bool {
    let code = rust_source::code_only(&list.text);
    let name = format!("{module}::");
    code.lines().any(|line| line.contains(&name) && !line.trim_start().starts_with("use "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const TOOL: &str = "pub(super) fn tool() -> ToolEntry { ToolEntry::new(spec, read) }\n";
    const AREAS: (&str, &str) = ("crates/toolbox/src/register.rs", "for entry in filesystem::tools() {}\n");
    const AREA: &str = "crates/toolbox/src/filesystem.rs";
    const FILE: &str = "crates/toolbox/src/filesystem/read_file.rs";

    fn check_list(list: &str, expect: &[(&str, usize, &str)]) {
        let text = "crates/toolbox/src/filesystem/text.rs";
        let tree = Tree::of(&[AREAS, (AREA, list), (FILE, TOOL), (text, "// ToolEntry::new is elsewhere\n")]);
        assert_findings(&check(&tree), expect);
    }

    #[test]
    fn a_tool_is_in_the_list_of_its_area() {
        check_list("mod read_file;\nlet all = [read_file::tool()];\n", &[]);
        check_list("mod read_file;\n", &[(FILE, 1, "add a line with `read_file::`")]);
        check_list(
            "mod read_file;\nuse read_file::tool;\n// read_file::tool()\n",
            &[(FILE, 1, "not in the list")],
        );
    }

    #[test]
    fn an_area_is_in_a_list_too() {
        let area = (AREA, "let all = [read_file::tool()];\n");
        assert_findings(&check(&Tree::of(&[area, (FILE, TOOL), AREAS])), &[]);
        assert_findings(&check(&Tree::of(&[area, (FILE, TOOL)])), &[(AREA, 1, "no list of areas")]);
        assert_findings(&check(&Tree::of(&[AREAS, (FILE, TOOL)])), &[(FILE, 1, "not in the list")]);
    }
}
