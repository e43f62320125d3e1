//! Finds rules that load but are probably mistakes: rules that can never match and rules that others make
//! redundant.

mod between;
mod wider;

use governance::Policy;
use governance::rules::{CommandRule, HostPattern, Purpose, Standing, ToolRules, Written, own_part};
use strict_yaml::DocumentError;
use tool::{Mode, Outward, RuleRef, ToolDefinition};

pub use self::between::lint_between;
use self::wider::Wider;

/// Lint findings of a policy, each with file and line.
struct Findings<'a> {
    policy: &'a Policy,
    found: Vec<DocumentError>,
}

/// Returns every rule that can never match, is covered by another rule, or does not apply to its tool.
pub fn lint<'a>(
    policy: &Policy,
    definitions: impl IntoIterator<Item = &'a ToolDefinition>,
) -> Vec<DocumentError> {
    let mut findings = Findings { policy, found: Vec::new() };
    for mode in Mode::ALL {
        findings.approvals(mode);
    }
    for definition in definitions {
        let standing = Standing::of(policy, definition);
        let Some(rules) = standing.rules else { continue };
        let rules = rules.shadow.as_deref().unwrap_or(rules);
        findings.modes(&standing, rules);
        findings.paths(definition, rules);
        findings.commands(definition, rules);
        findings.hosts(&standing, rules);
        if let Some((0, rule)) = &rules.rate {
            findings.add(
                rule,
                "a limit of 0 means that the tool can never run",
                "remove the line, or forbid the tool's modes",
            );
        }
    }
    findings.found.sort_by(|a, b| (&a.file, a.line, &a.message).cmp(&(&b.file, b.line, &b.message)));
    findings.found.dedup();
    findings.found
}

impl Findings<'_> {
    fn add(&mut self, rule: &RuleRef, message: &str, fix: &str) {
        let error = self.policy.error_at(rule, &format!("`{}`: {message}", rule.id));
        self.found.push(DocumentError { suggestion: Some(fix.to_owned()), ..error });
    }

    fn idle(&mut self, rule: &RuleRef, what: &str, by: &RuleRef) {
        let message = format!("`{what}` changes nothing: line {} covers it", by.line);
        self.add(rule, &message, "remove it");
    }

    fn never(&mut self, rule: &RuleRef, what: &str, by: &RuleRef) {
        let message = format!("`{what}` never matches: `{}` (line {}) forbids all of it", by.id, by.line);
        self.add(rule, &message, "remove one of the two");
    }

    fn approvals(&mut self, mode: Mode) {
        let approvals = &self.policy.mode_rules(mode).approvals;
        let all = approvals.iter().find(|(what, _)| what.to_string() == "all_actions");
        let Some((_, by)) = all.cloned() else { return };
        for (what, rule) in approvals.clone().iter().filter(|(what, _)| what.to_string() != "all_actions") {
            self.idle(rule, &what.to_string(), &by);
        }
    }

    /// Reports modes that one list takes away from another, and modes that do not allow the category of the
    /// tool.
    fn modes(&mut self, standing: &Standing<'_>, rules: &ToolRules) {
        let allowed = rules.allowed_modes.iter().flat_map(|list| &list.modes);
        for (mode, rule) in allowed.clone().chain(&rules.approval_modes) {
            if let Some((_, by)) = rules.forbidden_modes.iter().find(|(other, _)| other == mode) {
                self.never(rule, mode.as_str(), by);
            }
            if !standing.is_category_allowed_in(*mode) {
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
                self.idle(rule, mode.as_str(), by);
            }
        }
    }

    fn paths(&mut self, definition: &ToolDefinition, rules: &ToolRules) {
        let own_forbidden = own_part(&rules.forbidden_paths);
        if definition.path_arguments().is_empty() {
            let allowed = rules.allowed_paths.iter().flat_map(|list| list.globs.written());
            let mut written = allowed.chain(own_forbidden).chain(rules.unattended.written());
            if let Some(first) = written.next() {
                self.add(&first.rule, "the tool has no argument that is a path", "remove the list");
            }
            return;
        }
        self.covered(own_forbidden, Purpose::Forbid);
        self.covered(rules.unattended.written(), Purpose::Allow);
        let Some(list) = &rules.allowed_paths else { return };
        self.covered(list.globs.written(), Purpose::Allow);
        let forbidding = Wider::of(rules.forbidden_paths.written(), Purpose::Forbid);
        for allowed in list.globs.written() {
            if let Some((_, by)) = forbidding.covering(&allowed.pattern).next() {
                self.never(&allowed.rule, &allowed.text, &by.rule);
            }
        }
    }

    fn covered(&mut self, list: &[Written], purpose: Purpose) {
        let wider = Wider::of(list, purpose);
        for (at, written) in list.iter().enumerate() {
            let is_other = |(other, by): &(usize, &Written)| {
                *other != at && (by.pattern != written.pattern || *other < at)
            };
            if let Some((_, by)) = wider.covering(&written.pattern).find(is_other) {
                self.idle(&written.rule, &written.text, &by.rule);
            }
        }
    }

    fn commands(&mut self, definition: &ToolDefinition, rules: &ToolRules) {
        let Some(first) = rules.commands.bind() else { return };
        if !definition.outward_arguments().iter().any(|argument| argument.kind == Outward::Command) {
            let message = "no argument of the tool is a command, so every call is refused";
            return self.add(first, message, "remove the list");
        }
        let allowed = rules.commands.allowed.iter().flat_map(|list| &list.rules).collect::<Vec<_>>();
        for (at, rule) in allowed.iter().enumerate() {
            if let Some(by) = rules.commands.forbidden.iter().find(|by| by.covers(rule)) {
                self.never(&rule.rule, &rule.to_string(), &by.rule);
            }
            let wider = |(other, by): &(usize, &&CommandRule)| {
                *other != at && by.covers(rule) && (!rule.covers(by) || *other < at)
            };
            if let Some((_, by)) = allowed.iter().enumerate().find(wider) {
                self.idle(&rule.rule, &rule.to_string(), &by.rule);
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

    fn hosts(&mut self, standing: &Standing<'_>, rules: &ToolRules) {
        let Some(own) = rules.hosts.as_deref() else { return };
        if !standing.goes_out() {
            let message = "the tool makes no outbound calls, so every call is refused";
            return self.add(&own.rule, message, "remove the list");
        }
        let gateway = &self.policy.safety_rules().gateway;
        for host in &own.hosts {
            let text = host.pattern.to_string();
            if let Some(by) = gateway.blocked.iter().find(|by| by.pattern.blocks_all_of(&host.pattern)) {
                self.never(&host.rule, &text, &by.rule.clone());
            } else if !gateway.allowed.hosts.iter().any(|by| by.pattern.meets(&host.pattern)) {
                let message =
                    format!("`{text}` never matches: the outbound gateway in safety.yaml does not allow it");
                self.add(&host.rule, &message, "add it to outbound_gateway.allowed_domains");
            }
            let any = own.hosts.iter().find(|by| by.pattern == HostPattern::Any);
            if let Some(by) = any.filter(|_| host.pattern != HostPattern::Any) {
                self.idle(&host.rule, &text, &by.rule);
            }
        }
    }
}

#[cfg(test)]
mod tests;
