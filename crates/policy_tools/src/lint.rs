//! Finds rules that load but are probably mistakes: rules that can never match and rules that others make
//! redundant.

mod cover_index;
mod cross_tool;

use std::path::Path;

use governance::Policy;
use governance::rules::{
    CommandRule, EffectivePolicy, HostPattern, ListPurpose, ListedPattern, ToolRules, own_part,
};
use strict_yaml::DocumentError;
use tool::definition::ExternalTargetKind;
use tool::{Mode, RuleRef, ToolDefinition};

use self::cover_index::CoverIndex;
pub use self::cross_tool::{lint_between, lint_host_lists};

/// Lint findings of a policy, each with file and line.
struct LintFindings<'a> {
    policy: &'a Policy,
    findings: Vec<DocumentError>,
}

/// Returns every rule that can never match, is covered by another rule, or does not apply to its tool.
pub fn lint<'a>(
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<DocumentError> {
    let mut findings = LintFindings { policy, findings: Vec::new() };
    for mode in Mode::ALL {
        findings.check_approvals(mode);
    }
    for definition in definitions {
        let effective_policy = EffectivePolicy::new(policy, definition);
        let Some(rules) = effective_policy.rules else { continue };
        let rules = rules.shadow.as_deref().unwrap_or(rules);
        findings.check_modes(&effective_policy, rules);
        findings.check_paths(definition, rules);
        findings.check_commands(definition, rules);
        findings.check_hosts(&effective_policy, rules);
        if let Some((0, rule)) = &rules.calls_per_hour {
            findings.add(
                rule,
                "a limit of 0 means that the tool can never run",
                "remove the line, or forbid the tool's modes",
            );
        }
    }
    findings.findings.sort_by(|a, b| (&a.file, a.line, &a.message).cmp(&(&b.file, b.line, &b.message)));
    findings.findings.dedup();
    findings.findings
}

/// Returns the folder of a pattern if it does not exist.
fn missing_folder(allowed: &ListedPattern) -> Option<&Path> {
    let prefix = allowed.literal_prefix.as_path();
    let is_literal = allowed.pattern.literal_prefix().1.is_empty();
    let folder = prefix.parent().filter(|_| is_literal).unwrap_or(prefix);
    // An error other than a missing file does not prove that the folder is missing.
    folder.try_exists().is_ok_and(|exists| !exists).then_some(folder)
}

impl LintFindings<'_> {
    fn add(&mut self, rule: &RuleRef, message: &str, fix: &str) {
        let error = self.policy.error_at(rule, &format!("`{}`: {message}", rule.id));
        self.findings.push(DocumentError { suggestion: Some(fix.to_owned()), ..error });
    }

    fn add_redundant(&mut self, rule: &RuleRef, what: &str, by: &RuleRef) {
        let message = format!("`{what}` changes nothing: line {} covers it", by.line);
        self.add(rule, &message, "remove it");
    }

    fn add_unmatchable(&mut self, rule: &RuleRef, what: &str, by: &RuleRef) {
        let message = format!("`{what}` never matches: `{}` (line {}) forbids all of it", by.id, by.line);
        self.add(rule, &message, "remove one of the two");
    }

    fn check_approvals(&mut self, mode: Mode) {
        let approvals = &self.policy.mode_rules(mode).approvals;
        let all = approvals.iter().find(|(what, _)| what.to_string() == "all_actions");
        let Some((_, by)) = all.cloned() else { return };
        for (what, rule) in approvals.clone().iter().filter(|(what, _)| what.to_string() != "all_actions") {
            self.add_redundant(rule, &what.to_string(), &by);
        }
    }

    /// Reports modes that one list takes away from another, and modes that do not allow the category of the
    /// tool.
    fn check_modes(&mut self, effective_policy: &EffectivePolicy<'_>, rules: &ToolRules) {
        let allowed = rules.allowed_modes.iter().flat_map(|list| &list.modes);
        for (mode, rule) in allowed.clone().chain(&rules.approval_modes) {
            if let Some((_, by)) = rules.forbidden_modes.iter().find(|(other, _)| other == mode) {
                self.add_unmatchable(rule, mode.as_str(), by);
            }
            if !effective_policy.is_category_allowed_in(*mode) {
                let message =
                    format!("`{mode}` never matches: modes.yaml allows no tool of its category there");
                self.add(
                    rule,
                    &message,
                    "remove it, or add the category to the mode's allowed_tool_categories",
                );
            }
        }
        for (mode, rule) in allowed {
            if let Some((_, by)) = rules.approval_modes.iter().find(|(other, _)| other == mode) {
                self.add_redundant(rule, mode.as_str(), by);
            }
        }
    }

    fn check_paths(&mut self, definition: &ToolDefinition, rules: &ToolRules) {
        let own_forbidden = own_part(&rules.forbidden_paths);
        if definition.path_arguments().is_empty() {
            let allowed = rules.allowed_paths.iter().flat_map(|list| list.globs.patterns());
            let mut written = allowed.chain(own_forbidden).chain(rules.unattended_paths.patterns());
            if let Some(first) = written.next() {
                self.add(&first.rule, "the tool has no argument that is a path", "remove the list");
            }
            return;
        }
        self.check_covered(own_forbidden, ListPurpose::Forbid);
        self.check_covered(rules.unattended_paths.patterns(), ListPurpose::Allow);
        let Some(list) = &rules.allowed_paths else { return };
        self.check_covered(list.globs.patterns(), ListPurpose::Allow);
        let forbidding = CoverIndex::new(rules.forbidden_paths.patterns(), ListPurpose::Forbid);
        for allowed in list.globs.patterns() {
            if let Some((_, by)) = forbidding.covering(&allowed.pattern).next() {
                self.add_unmatchable(&allowed.rule, &allowed.text, &by.rule);
            }
        }
        self.check_folders_exist(definition, list.globs.patterns());
    }

    /// Reports patterns below a folder that does not exist, which is usually a typo. A list of a tool that only
    /// reads may name folders of several systems, so it is reported only if none of them exists.
    fn check_folders_exist(&mut self, definition: &ToolDefinition, allowed: &[ListedPattern]) {
        let missing: Vec<(&ListedPattern, &Path)> =
            allowed.iter().filter_map(|allowed| Some((allowed, missing_folder(allowed)?))).collect();
        let modifies = definition.path_arguments().iter().any(|path| path.access.is_modifying());
        if !modifies && missing.len() < allowed.len() {
            return;
        }
        for (allowed, folder) in missing {
            // Another finding on the line explains more.
            let is_of_line =
                |found: &DocumentError| found.line == allowed.rule.line && found.file == *allowed.rule.file;
            if !self.findings.iter().any(is_of_line) {
                let message =
                    format!("`{}` matches no folder: {} does not exist", allowed.text, folder.display());
                self.add(
                    &allowed.rule,
                    &message,
                    "correct the line, or create the folder; a write with `create_dirs: true` creates it too",
                );
            }
        }
    }

    fn check_covered(&mut self, list: &[ListedPattern], purpose: ListPurpose) {
        let wider = CoverIndex::new(list, purpose);
        for (at, written) in list.iter().enumerate() {
            let is_other = |(other, by): &(usize, &ListedPattern)| {
                *other != at && (by.pattern != written.pattern || *other < at)
            };
            if let Some((_, by)) = wider.covering(&written.pattern).find(is_other) {
                self.add_redundant(&written.rule, &written.text, &by.rule);
            }
        }
    }

    fn check_commands(&mut self, definition: &ToolDefinition, rules: &ToolRules) {
        let Some(first) = rules.commands.first_rule() else { return };
        if !definition
            .external_target_arguments()
            .iter()
            .any(|argument| argument.kind == ExternalTargetKind::Command)
        {
            let message = "no argument of the tool is a command, so every call is refused";
            return self.add(first, message, "remove the list");
        }
        let allowed = rules.commands.allowed.iter().flat_map(|list| &list.rules).collect::<Vec<_>>();
        for (at, rule) in allowed.iter().enumerate() {
            if let Some(by) = rules.commands.forbidden.iter().find(|by| by.covers(rule)) {
                self.add_unmatchable(&rule.rule, &rule.to_string(), &by.rule);
            }
            let wider = |(other, by): &(usize, &&CommandRule)| {
                *other != at && by.covers(rule) && (!rule.covers(by) || *other < at)
            };
            if let Some((_, by)) = allowed.iter().enumerate().find(wider) {
                self.add_redundant(&rule.rule, &rule.to_string(), &by.rule);
            }
            if rule.words.is_empty() {
                self.add(
                    &rule.rule,
                    "`*` allows every program on the machine",
                    "list the programs that the tool needs",
                );
            }
        }
    }

    fn check_hosts(&mut self, effective_policy: &EffectivePolicy<'_>, rules: &ToolRules) {
        let Some(own) = rules.hosts.as_deref() else { return };
        if !effective_policy.is_outbound() {
            let message = "the tool makes no outbound calls, so every call is refused";
            return self.add(&own.rule, message, "remove the list");
        }
        let gateway = &self.policy.safety_rules().gateway;
        for host in &own.hosts {
            let text = host.pattern.to_string();
            if let Some(by) = gateway.blocked.iter().find(|by| by.pattern.blocks_all_of(&host.pattern)) {
                self.add_unmatchable(&host.rule, &text, &by.rule.clone());
            } else if !gateway.allowed.hosts.iter().any(|by| by.pattern.overlaps(&host.pattern)) {
                let message =
                    format!("`{text}` never matches: the outbound gateway in safety.yaml does not allow it");
                self.add(&host.rule, &message, "add it to outbound_gateway.allowed_domains");
            }
            let any = own.hosts.iter().find(|by| by.pattern == HostPattern::Any);
            if let Some(by) = any.filter(|_| host.pattern != HostPattern::Any) {
                self.add_redundant(&host.rule, &text, &by.rule);
            }
        }
    }
}

#[cfg(test)]
mod tests;
