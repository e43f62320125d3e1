//! Names by which a tool can be called. The only place that decides if a name refers to a tool.

use crate::{ToolDefinition, ToolName};

impl ToolDefinition {
    /// Returns true if `spelling` refers to this tool: its name, an alias, or the name without dots, each
    /// optionally with `@major`, in any letter case. A part of a name never matches.
    pub fn matches_name(&self, spelling: &str) -> bool {
        let (name, major) = match spelling.split_once('@') {
            Some((name, major)) => (name, Some(major)),
            None => (spelling, None),
        };
        let Ok(name) = ToolName::new(name) else { return false };
        self.callable_names().any(|own| own == name)
            && major.is_none_or(|major| major == self.major.to_string())
    }

    /// Returns all names without a version: the canonical name, then the aliases, then the name without dots.
    pub fn callable_names(&self) -> impl Iterator<Item = ToolName> {
        let undotted = || ToolName::new(&self.name_without_dots()).ok().filter(|name| *name != self.name);
        let named = std::iter::once(&self.name).chain(&self.aliases).cloned();
        named.chain(std::iter::once_with(undotted).flatten())
    }

    /// Returns the name with `__` for each dot, which function-calling formats do not allow.
    pub(crate) fn name_without_dots(&self) -> String {
        self.name.as_str().replace('.', "__")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Category, RiskLevel, ToolSpec};

    #[test]
    fn tool_matches_its_names_and_no_part_of_them() {
        let mut spec = ToolSpec::new("git.status", "Status", Category::READ_ONLY, RiskLevel::Low);
        (spec.aliases, spec.version) = (vec!["gs".into()], "2.1.0".into());
        let tool = spec.check().unwrap();
        for own in
            ["git.status", "GIT.Status", "gs", "GS", "git__status", "Git.Status@2", "gs@2", "git__status@2"]
        {
            assert!(tool.matches_name(own), "{own}");
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
            assert!(!tool.matches_name(other), "{other}");
        }
        let spellings: Vec<_> = tool.callable_names().map(|name| name.to_string()).collect();
        assert_eq!(spellings, ["git.status", "gs", "git__status"]);
    }

    #[test]
    fn name_without_dots_is_listed_once() {
        let tool = ToolSpec::new("read_file", "Read", Category::READ_ONLY, RiskLevel::Low).check().unwrap();
        assert_eq!(tool.callable_names().count(), 1);
    }
}
