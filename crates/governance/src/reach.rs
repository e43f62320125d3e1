//! What can run without a human: every tool in every mode, and how far it goes.

use serde::Serialize;
use tool::{Mode, RuleRef, ToolDefinition};

use crate::host_rules::Private;
use crate::policy::Policy;
use crate::situation::{Counts, Situation, Workspaces};
use crate::standing::{Attendance, Standing};
use crate::trail::{Notes, Trail};

/// What a tool can do by itself in a mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reach {
    /// The tool.
    pub tool: String,
    /// The mode.
    pub mode: Mode,
    /// Whether it changes what it reaches.
    pub writes: bool,
    /// Where it goes: patterns as they are written, or `workspaces`. Empty for a tool without paths.
    pub paths: Vec<String>,
    /// Where it never goes, whatever the above says, besides the floor.
    pub except: Vec<String>,
    /// What it may start. Empty for a tool that starts nothing.
    pub commands: Vec<String>,
    /// Where on the network it may go. Empty for a tool that does not leave the machine.
    pub hosts: Vec<String>,
    /// How often, in an hour.
    pub per_hour: Option<u32>,
    /// The rules that let it.
    pub rules: Vec<RuleRef>,
}

impl Policy {
    /// Everything that can run in a mode without anybody being asked.
    pub fn reach<'a>(
        &self,
        definitions: impl IntoIterator<Item = &'a ToolDefinition>,
        mode: Mode,
    ) -> Vec<Reach> {
        definitions.into_iter().filter_map(|definition| self.reach_of(definition, mode)).collect()
    }

    fn reach_of(&self, definition: &ToolDefinition, mode: Mode) -> Option<Reach> {
        let standing = Standing::of(self, definition);
        let workspaces = Workspaces::default();
        let situation = Situation { mode, workspaces: &workspaces, counts: Counts::default() };
        let mut trail = Trail::off();
        let mut notes = Notes::on(&mut trail);
        standing.admit(&situation, &mut notes).ok()?;
        let rules = standing.rules;
        let asked =
            |attendance| !standing.approvals(mode, attendance, &mut Notes::on(&mut Trail::off())).is_empty();
        let unattended = match asked(Attendance::Asked) {
            false => None,
            // Only where nobody is asked, and only if nothing else asks.
            true => Some(rules.map(|rules| &*rules.unattended).filter(|list| !list.written().is_empty())?),
        };
        if unattended.is_some() && asked(Attendance::LeftOut) {
            return None;
        }
        let texts = |globs: &crate::glob::PathGlobs| globs.written().iter().map(|w| w.text.clone()).collect();
        let has_paths = !definition.path_arguments().is_empty();
        let paths = match rules.and_then(|rules| rules.allowed_paths.as_ref()) {
            _ if !has_paths => Vec::new(),
            _ if unattended.is_some() => unattended.map_or_else(Vec::new, texts),
            Some(list) => texts(&list.globs),
            None => vec!["workspaces".to_owned()],
        };
        let commands = rules.and_then(|rules| rules.commands.allowed.as_ref());
        let out = self.safety.outbound_per_hour.get(mode).as_ref().is_none_or(|(most, _)| *most > 0);
        Some(Reach {
            tool: definition.name().to_string(),
            mode,
            writes: standing.changes_things(),
            paths,
            except: rules.filter(|_| has_paths).map_or_else(Vec::new, |rules| texts(&rules.forbidden_paths)),
            commands: commands
                .map_or_else(Vec::new, |list| list.rules.iter().map(ToString::to_string).collect()),
            hosts: if standing.goes_out() && out { self.hosts_of(&standing) } else { Vec::new() },
            per_hour: standing.per_hour(),
            rules: notes.passed,
        })
    }

    fn hosts_of(&self, standing: &Standing<'_>) -> Vec<String> {
        let gateway = &self.safety.gateway;
        let own = standing.rules.and_then(|rules| rules.hosts.as_deref()).unwrap_or(&gateway.allowed);
        let local = match gateway.private {
            Private::Allowed => Some("the local network".to_owned()),
            Private::Denied(_) => None,
        };
        own.hosts.iter().map(|host| host.pattern.to_string()).chain(local).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge_tests::{definition, machine};

    #[test]
    fn who_starts_programs_changes_things() {
        let policy = machine("tools: {run: {category: self_check, allowed_commands: [ls]}}\n").policy();
        for (tool, changes) in [("run", true), ("write_file", true), ("read_file", false), ("search", false)]
        {
            let found = policy.reach(&[definition(tool)], Mode::Normal);
            assert_eq!(found.iter().map(|one| one.writes).collect::<Vec<_>>(), [changes], "{tool}");
        }
    }
}
