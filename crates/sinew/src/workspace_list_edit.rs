//! Edits the `workspaces` list in the text of `sinew.yaml` and keeps every other line, including comments.
//!
//! Pure text editing: the caller parses the settings before and after.

use server::settings::WorkspaceAccessSetting;

/// Workspace entry to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkspaceItem {
    pub(crate) path: String,
    pub(crate) access: WorkspaceAccessSetting,
}

impl WorkspaceItem {
    /// Formats the entry. A JSON string is also a valid YAML string for any path.
    fn lines(&self) -> [String; 2] {
        [
            format!("  - path: {}", serde_json::Value::from(self.path.as_str())),
            format!("    access: {}", access_keyword(self.access)),
        ]
    }
}

/// Returns the keyword of an access in the file.
pub(crate) fn access_keyword(access: WorkspaceAccessSetting) -> &'static str {
    match access {
        WorkspaceAccessSetting::ReadOnly => "read_only",
        WorkspaceAccessSetting::ReadWrite => "read_write",
    }
}

/// Change of the list. Indexes count its items from 0.
pub(crate) enum WorkspaceListChange<'a> {
    /// Adds an item at the end.
    Append(&'a WorkspaceItem),
    /// Replaces an item.
    Replace(usize, &'a WorkspaceItem),
    /// Removes an item.
    Remove(usize),
}

/// Returns the text after the change. `current` is the parsed list, which is needed to rewrite a one-line
/// list. Returns `None` if the list is written in a form that must be edited by hand.
pub(crate) fn edit_workspace_list(
    text: &str,
    current: &[WorkspaceItem],
    change: &WorkspaceListChange<'_>,
) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let key = match lines.iter().position(|line| line.starts_with("workspaces:")) {
        Some(key) => key,
        None => {
            lines.push("workspaces:".to_owned());
            lines.len() - 1
        }
    };
    expand_inline_list(&mut lines, key, current)?;
    let items = item_ranges(&lines, key);
    if items.len() != current.len() {
        return None;
    }
    match change {
        WorkspaceListChange::Append(item) => {
            let end = items.last().map_or(key + 1, |last| last.end);
            lines.splice(end..end, item.lines());
        }
        WorkspaceListChange::Replace(index, item) => {
            lines.splice(items.get(*index)?.clone(), item.lines());
        }
        WorkspaceListChange::Remove(index) => {
            lines.drain(items.get(*index)?.clone());
            if items.len() == 1 {
                *lines.get_mut(key)? = "workspaces: []".to_owned();
            }
        }
    }
    Some(lines.join("\n") + "\n")
}

/// Rewrites `workspaces: [a, b]` as one item per line.
fn expand_inline_list(lines: &mut Vec<String>, key: usize, current: &[WorkspaceItem]) -> Option<()> {
    let value = lines.get(key)?.trim_start_matches("workspaces:").trim().to_owned();
    let is_comment = value.is_empty() || value.starts_with('#');
    if is_comment {
        return Some(());
    }
    if !(value.starts_with('[') && value.split(']').count() == 2) {
        return None;
    }
    let written = current.iter().flat_map(WorkspaceItem::lines);
    lines.splice(key..=key, std::iter::once("workspaces:".to_owned()).chain(written));
    Some(())
}

/// Returns the line range of each item below the key, without trailing comments.
fn item_ranges(lines: &[String], key: usize) -> Vec<std::ops::Range<usize>> {
    let mut ranges: Vec<std::ops::Range<usize>> = Vec::new();
    let mut dash_column = None;
    for (number, line) in lines.iter().enumerate().skip(key + 1) {
        let (content, column) = (line.trim_start(), line.len() - line.trim_start().len());
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let is_dash = content == "-" || content.starts_with("- ");
        if is_dash && dash_column.is_none_or(|known| known == column) {
            dash_column = Some(column);
            ranges.push(number..number + 1);
        } else if column > dash_column.unwrap_or(0) {
            if let Some(range) = ranges.last_mut() {
                range.end = number + 1;
            }
        } else {
            break;
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(path: &str) -> WorkspaceItem {
        WorkspaceItem { path: path.into(), access: WorkspaceAccessSetting::ReadWrite }
    }

    fn check(text: &str, current: &[&str], change: &WorkspaceListChange<'_>, expect: Option<&str>) {
        let current: Vec<WorkspaceItem> = current.iter().map(|path| item(path)).collect();
        assert_eq!(edit_workspace_list(text, &current, change).as_deref(), expect, "{text}");
    }

    #[test]
    fn items_change_and_comments_are_kept() {
        let new = WorkspaceItem { path: "/new \"x\"".into(), access: WorkspaceAccessSetting::ReadOnly };
        let written = "  - path: \"/new \\\"x\\\"\"\n    access: read_only\n";
        let add = WorkspaceListChange::Append(&new);
        check(
            "# c\nworkspaces: []\nlog: {}\n",
            &[],
            &add,
            Some(&format!("# c\nworkspaces:\n{written}log: {{}}\n")),
        );
        check("log: {}\n", &[], &add, Some(&format!("log: {{}}\nworkspaces:\n{written}")));
        check("workspaces: # mine\n", &[], &add, Some(&format!("workspaces: # mine\n{written}")));
        let block = "workspaces:\n  # first\n  - /a\n  # second\n  - path: /b\n    access: read_only\n# end\nlog: {}\n";
        check(block, &["/a", "/b"], &add, Some(&block.replace("# end", &format!("{written}# end"))));
        let without_a = block.replace("  - /a\n", "");
        check(block, &["/a", "/b"], &WorkspaceListChange::Remove(0), Some(&without_a));
        check(
            block,
            &["/a", "/b"],
            &WorkspaceListChange::Replace(0, &new),
            Some(&block.replace("  - /a\n", written)),
        );
        check("workspaces:\n- /a\n", &["/a"], &WorkspaceListChange::Remove(0), Some("workspaces: []\n"));
        let folded = "workspaces:\n  - path: \"/a\"\n    access: read_write\n";
        check("workspaces: [/a]\n", &["/a"], &add, Some(&format!("{folded}{written}")));
    }

    #[test]
    fn unsupported_list_forms_are_not_edited() {
        let new = item("/new");
        check("workspaces: [/a,\n  /b]\n", &["/a", "/b"], &WorkspaceListChange::Append(&new), None);
        check("workspaces: *other\n", &["/a"], &WorkspaceListChange::Append(&new), None);
        check("workspaces:\n  - /a\n", &["/a", "/b"], &WorkspaceListChange::Append(&new), None);
    }
}
