//! Finds the rule that requires a sandbox for a tool, for hosts that run their own tools without one.

use tool::{RuleRef, ToolDefinition};

use crate::policy::Policy;
use crate::problems::rule_at;
use crate::tools_file::NetworkAccess;

/// Folders that every sandboxed program may read and execute from: the system and installed software, but no
/// home folders.
pub const SYSTEM_FOLDERS: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/opt",
    "/nix/store",
    "/etc",
    "/run/systemd/resolve",
];

impl Policy {
    /// Returns the rule by which this tool must run sandboxed: `requires_sandbox`, `min_isolation`, or a
    /// limit that only the sandbox can enforce, unless the entry sets `requires_sandbox: false`. While a change
    /// waits, the rule of either policy applies.
    pub fn sandbox_rule(&self, definition: &ToolDefinition) -> Option<RuleRef> {
        self.conjuncts().find_map(|policy| policy.own_sandbox_rule(definition))
    }

    fn own_sandbox_rule(&self, definition: &ToolDefinition) -> Option<RuleRef> {
        let rules = self.tools.get(definition.name());
        if let Some(rule) = rules.and_then(|rules| rules.sandbox_rule.clone()) {
            return Some(rule);
        }
        let name = definition.name().as_str();
        let mut entries = self.files().tools.tools.iter();
        let entry = entries.find(|(key, _)| key.eq_ignore_ascii_case(name));
        let limited = entry.filter(|(_, entry)| entry.requires_sandbox.is_none()).and_then(|(key, entry)| {
            let limits = [
                ("network", entry.network.is_some_and(|network| network != NetworkAccess::Full)),
                ("memory_mb", entry.memory_mb.is_some()),
                ("max_processes", entry.max_processes.is_some()),
                ("cpu_seconds", entry.cpu_seconds.is_some()),
            ];
            let (limit, _) = limits.into_iter().find(|(_, given)| *given)?;
            Some(rule_at(&self.files().documents.tools, key, format!("{name}.{limit}")))
        });
        limited.or_else(|| {
            let id = format!("{name}.requires_sandbox").into();
            let rule = || RuleRef { file: "tool definition".into(), line: 0, id };
            definition.requires_sandbox().then(rule)
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::judge_tests::{definition, machine};

    #[test]
    fn rule_that_requires_a_sandbox_is_named() {
        let check = |tool: &str, entry: &str, expect: Option<&str>| {
            let others = "  other: {memory_mb: 5}\n";
            let policy = machine(&format!("tools:\n{others}  {tool}: {{{entry}}}\n")).policy();
            let found =
                policy.sandbox_rule(&definition(tool)).map(|rule| format!("{} {}", rule.line, rule.id));
            assert_eq!(found.as_deref(), expect, "{tool} {entry}");
        };
        check("read_file", "", None);
        check("read_file", "network: full", None);
        check("read_file", "network: loopback", Some("3 read_file.network"));
        check("read_file", "memory_mb: 5", Some("3 read_file.memory_mb"));
        check("read_file", "max_processes: 5", Some("3 read_file.max_processes"));
        check("read_file", "cpu_seconds: 5", Some("3 read_file.cpu_seconds"));
        check("read_file", "cpu_seconds: 5, requires_sandbox: false", None);
        check("read_file", "requires_sandbox: true", Some("3 read_file.requires_sandbox"));
        check("read_file", "min_isolation: reduced", Some("3 read_file.min_isolation"));
        check("confined", "", Some("0 confined.requires_sandbox"));
        check("confined", "network: full", Some("0 confined.requires_sandbox"));
    }

    #[test]
    fn waiting_policy_requires_a_sandbox_too() {
        let load = |entry: &str| machine(&format!("tools: {{read_file: {{{entry}}}}}\n")).policy();
        let rule = |policy: &crate::Policy| policy.sandbox_rule(&definition("read_file"));
        assert!(rule(&load("").tightened_by(load("network: off"))).is_some());
        assert!(rule(&load("network: off").tightened_by(load(""))).is_some());
        assert!(rule(&load("").tightened_by(load(""))).is_none());
    }
}
