//! What is allowed in a policy and probably not meant: rules that can never match, and rules that others make idle.

mod between;
mod wider;

use document::DocumentError;
use tool::{Mode, Outward, RuleRef, ToolDefinition};

use self::wider::Wider;
use crate::glob::{PathGlobs, Purpose, Written};
use crate::host_rules::HostPattern;
use crate::policy::Policy;
use crate::standing::Standing;
use crate::tool_rules::ToolRules;
use crate::trail::{Notes, Trail};

/// The findings in one file of the policy, each at its line.
struct Findings<'a> {
    policy: &'a Policy,
    found: Vec<DocumentError>,
}

impl Policy {
    /// Every rule that can never match, is idle because another covers it, or binds nothing of its tool.
    pub fn lint<'a>(&self, definitions: impl IntoIterator<Item = &'a ToolDefinition>) -> Vec<DocumentError> {
        let mut findings = Findings { policy: self, found: Vec::new() };
        for mode in Mode::ALL {
            findings.approvals(mode);
        }
        for definition in definitions {
            let standing = Standing::of(self, definition);
            let Some(rules) = standing.rules else { continue };
            let rules = rules.shadow.as_deref().unwrap_or(rules);
            findings.modes(&standing, rules);
            findings.paths(definition, rules);
            findings.commands(definition, rules);
            findings.hosts(&standing, rules);
            if let Some((0, rule)) = &rules.rate {
                findings.add(
                    rule,
                    "0 lets the tool never run",
                    "remove the line, or forbid the tool's modes",
                );
            }
        }
        findings.found.sort_by(|a, b| (&a.file, a.line, &a.message).cmp(&(&b.file, b.line, &b.message)));
        findings.found.dedup();
        findings.found
    }
}

impl Findings<'_> {
    fn add(&mut self, rule: &RuleRef, message: &str, fix: &str) {
        let documents = &self.policy.files().documents;
        let all = [&documents.modes, &documents.tools, &documents.safety];
        if let Some(document) = all.into_iter().find(|document| document.name() == &*rule.file) {
            let error = document.error_at(rule.line, 1, &format!("`{}`: {message}", rule.id));
            self.found.push(DocumentError { suggestion: Some(fix.to_owned()), ..error });
        }
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
        let approvals = &self.policy.modes.get(mode).approvals;
        let all = approvals.iter().find(|(what, _)| what.to_string() == "all_actions");
        let Some((_, by)) = all.cloned() else { return };
        for (what, rule) in approvals.clone().iter().filter(|(what, _)| what.to_string() != "all_actions") {
            self.idle(rule, &what.to_string(), &by);
        }
    }

    /// Modes that one list takes away from another, and modes in which the mode itself lets the tool never run.
    fn modes(&mut self, standing: &Standing<'_>, rules: &ToolRules) {
        let allowed = rules.allowed_modes.iter().flat_map(|list| &list.modes);
        for (mode, rule) in allowed.clone().chain(&rules.approval_modes) {
            if let Some((_, by)) = rules.forbidden_modes.iter().find(|(other, _)| other == mode) {
                self.never(rule, mode.as_str(), by);
            }
            let mut trail = Trail::off();
            if standing.admit_category(*mode, &mut Notes::on(&mut trail)).is_err() {
                let message =
                    format!("`{mode}` never matches: modes.yaml lets no tool of its category run there");
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
        let lists = rules
            .allowed_paths
            .iter()
            .map(|list| &list.globs)
            .chain([&*rules.forbidden_paths, &*rules.unattended]);
        if definition.path_arguments().is_empty() {
            let written = lists.flat_map(PathGlobs::written).next();
            if let Some(first) = written {
                self.add(&first.rule, "the tool has no argument that is a path", "remove the list");
            }
            return;
        }
        self.covered(rules.forbidden_paths.written(), Purpose::Forbid);
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
            let message = "no argument of the tool is a command, and every call of it is refused";
            return self.add(first, message, "remove the list");
        }
        let allowed = rules.commands.allowed.iter().flat_map(|list| &list.rules).collect::<Vec<_>>();
        for (at, rule) in allowed.iter().enumerate() {
            if let Some(by) = rules.commands.forbidden.iter().find(|by| by.covers(rule)) {
                self.never(&rule.rule, &rule.to_string(), &by.rule);
            }
            let wider = |(other, by): &(usize, &&crate::command_rules::CommandRule)| {
                *other != at && by.covers(rule) && (!rule.covers(by) || *other < at)
            };
            if let Some((_, by)) = allowed.iter().enumerate().find(wider) {
                self.idle(&rule.rule, &rule.to_string(), &by.rule);
            }
            if rule.words.is_empty() {
                self.add(
                    &rule.rule,
                    "`*` allows every program of the machine",
                    "name the programs that are meant",
                );
            }
        }
    }

    fn hosts(&mut self, standing: &Standing<'_>, rules: &ToolRules) {
        let Some(own) = rules.hosts.as_deref() else { return };
        if !standing.goes_out() {
            let message = "the tool does not leave the machine, and every call of it is refused";
            return self.add(&own.rule, message, "remove the list");
        }
        let gateway = &self.policy.safety.gateway;
        for host in &own.hosts {
            let text = host.pattern.to_string();
            if let Some(by) = gateway.blocked.iter().find(|by| by.pattern.blocks_all_of(&host.pattern)) {
                self.never(&host.rule, &text, &by.rule.clone());
            } else if !gateway.allowed.hosts.iter().any(|by| by.pattern.meets(&host.pattern)) {
                let message =
                    format!("`{text}` never matches: the outbound gateway of safety.yaml lets nobody there");
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
