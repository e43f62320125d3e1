//! The names a tool answers to: the one place that decides whether a word means a tool.

use crate::{ToolDefinition, ToolName};

impl ToolDefinition {
    /// Whether a caller who writes `spelling` means this tool: its name, an alias, or the name without dots, each
    /// also with `@major`, in any case. Never a part of a name.
    pub fn answers_to(&self, spelling: &str) -> bool {
        let (name, major) = match spelling.split_once('@') {
            Some((name, major)) => (name, Some(major)),
            None => (spelling, None),
        };
        let Ok(name) = ToolName::new(name) else { return false };
        self.spellings().any(|own| own == name) && major.is_none_or(|major| major == self.major.to_string())
    }

    /// Every name it is found by, without a version: its own first, then its aliases, then the one without dots.
    pub fn spellings(&self) -> impl Iterator<Item = ToolName> {
        let undotted = || ToolName::new(&self.dotless()).ok().filter(|name| *name != self.name);
        let named = std::iter::once(&self.name).chain(&self.aliases).cloned();
        named.chain(std::iter::once_with(undotted).flatten())
    }

    /// Function-calling dialects allow no dot in a name; `__` reads as one.
    pub(crate) fn dotless(&self) -> String {
        self.name.as_str().replace('.', "__")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Category, RiskLevel, ToolSpec};

    #[test]
    fn a_tool_answers_to_its_names_and_to_no_part_of_them() {
        let mut spec = ToolSpec::new("git.status", "Status", Category::READ_ONLY, RiskLevel::Low);
        (spec.aliases, spec.version) = (vec!["gs".into()], "2.1.0".into());
        let tool = spec.check().unwrap();
        for own in
            ["git.status", "GIT.Status", "gs", "GS", "git__status", "Git.Status@2", "gs@2", "git__status@2"]
        {
            assert!(tool.answers_to(own), "{own}");
        }
        let others = [
            "",
            "git",
            "status",
            "git.status2",
            "git_status",
            "git status",
            "git.status ",
            "git.status@1",
            "git.status@",
            "git.status@+2",
            "git.status@02",
            "git.status@2.1.0",
            "git.status@2@2",
            "@2",
            "gs.",
        ];
        for other in others {
            assert!(!tool.answers_to(other), "{other}");
        }
        let spellings: Vec<_> = tool.spellings().map(|name| name.to_string()).collect();
        assert_eq!(spellings, ["git.status", "gs", "git__status"]);
    }

    #[test]
    fn a_name_without_dots_is_told_once() {
        let tool = ToolSpec::new("read_file", "Read", Category::READ_ONLY, RiskLevel::Low).check().unwrap();
        assert_eq!(tool.spellings().count(), 1);
    }
}
