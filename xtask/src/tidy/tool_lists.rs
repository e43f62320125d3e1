//! A built-in tool is one file in an area's folder and one line in the area's list. A file without its line would be
//! a tool that nobody can call, and nothing else would notice.

use crate::tidy::{Finding, rust_source};
use crate::tree::{File, Tree};

const TOOLBOX: &str = "crates/toolbox/src/";

/// What only the file of a tool contains.
const MARK: &str = "impl ToolExecutor for";

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let tools = tree.ending(".rs").filter(|file| rust_source::code_only(&file.text).contains(MARK));
    tools
        .filter_map(|file| Some((file, area_of(file)?)))
        .filter_map(|(file, area)| missing(tree, file, &area))
        .collect()
}

/// The list of the folder that holds this file: `filesystem.rs` for `filesystem/read_file.rs`.
fn area_of(file: &File) -> Option<String> {
    let (folder, _) = file.path.strip_prefix(TOOLBOX)?.rsplit_once('/')?;
    Some(format!("{TOOLBOX}{folder}.rs"))
}

fn missing(tree: &Tree, tool: &File, area: &str) -> Option<Finding> {
    let listed = |list: &File| {
        let code = rust_source::code_only(&list.text);
        let uses = |line: &str| {
            line.contains(&format!("{}::", tool.stem())) && !line.trim_start().starts_with("use ")
        };
        code.lines().any(uses)
    };
    let present = tree.file(area).is_some_and(listed);
    let message = format!("the tool is not in the list of `{area}`: add a line with `{}::`", tool.stem());
    (!present).then(|| Finding::error(&tool.path, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::assert_findings;

    const TOOL: &str = "impl ToolExecutor for ReadFile {}\n";

    fn check_list(list: &str, expect: &[(&str, usize, &str)]) {
        let tree = Tree::of(&[
            ("crates/toolbox/src/filesystem.rs", list),
            ("crates/toolbox/src/filesystem/read_file.rs", TOOL),
            ("crates/toolbox/src/filesystem/text.rs", "// impl ToolExecutor for nobody\n"),
        ]);
        assert_findings(&check(&tree), expect);
    }

    #[test]
    fn a_tool_is_in_the_list_of_its_area() {
        check_list("mod read_file;\nlet all = [read_file::tool()];\n", &[]);
        let file = "crates/toolbox/src/filesystem/read_file.rs";
        check_list("mod read_file;\n", &[(file, 1, "add a line with `read_file::`")]);
        check_list(
            "mod read_file;\nuse read_file::ReadFile;\n// read_file::tool()\n",
            &[(file, 1, "not in the list")],
        );
    }

    #[test]
    fn an_area_without_a_list_is_found() {
        let file = "crates/toolbox/src/web/fetch.rs";
        assert_findings(&check(&Tree::of(&[(file, TOOL)])), &[(file, 1, "`crates/toolbox/src/web.rs`")]);
    }
}
