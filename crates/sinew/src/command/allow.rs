//! `sinew allow`: proposes the narrowest policy change that permits a refused call, and up to two wider ones.
//!
//! The command edits the policy in memory, checks that the result loads, and replays the recorded facts of the call
//! against it. It shows a change only after the replay succeeds, with what else becomes possible by it, and writes
//! it only after the operator confirms it.

mod proposal;
mod recent_calls;
mod refused_call;
mod refused_calls;

use execution::ConfigSnapshot;
use governance::files::VerdictKind;
use policy_tools::{PolicyDifference, PolicyEffect, compare_policies};
use serde_json::{Value, json};

use self::proposal::PolicyProposal;
pub(crate) use self::proposal::unified;
use self::recent_calls::{RecentCalls, RecentChanges};
use self::refused_call::RefusedCallRecord;
use crate::cli::AllowArgs;
use crate::command::reload;
use crate::command_context::CommandContext;
use crate::compose::{self, WorkspaceSelection};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::{
    DIM_STYLE, ERROR_STYLE, HEADING_STYLE, SUCCESS_STYLE, WARNING_STYLE, confirm, escape_invisible,
    escape_invisible_line, is_interactive, paint, print_message, print_result_line,
};

/// Proposal with its effects.
struct ShownProposal {
    proposal: PolicyProposal,
    diff: String,
    /// Effects that become possible, by the rules.
    reach: Vec<String>,
    /// Other recorded calls that become possible.
    recent: RecentChanges,
}

pub(crate) fn run(args: &AllowArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let Some(id) = &args.call_id else { return refused_calls::list(&context, args.output) };
    let refused = RefusedCallRecord::find(&context, id)?;
    let snapshot = compose::config_snapshot(&context, &context.settings()?, WorkspaceSelection::Configured)?;
    let found = refused.replay(&snapshot, &snapshot.policy, &snapshot.workspaces)?;
    if found.verdict == VerdictKind::Allow {
        print_result_line(if args.output.json {
            json!({"schema_version": 1, "call_id": refused.id, "becomes": "allow", "written": false, "diff": ""})
                .to_string()
        } else {
            paint(SUCCESS_STYLE, "the policy already permits this call")
        })?;
        return Ok(ExitKind::Done);
    }
    let proposals = refused.propose(&context, &snapshot, &found)?;
    let recent = RecentCalls::read(&context)?;
    let shown: Result<Vec<ShownProposal>, CommandError> = proposals
        .into_iter()
        .map(|proposal| ShownProposal::new(&context, &snapshot, &refused, proposal, &recent))
        .collect();
    let shown = shown?;
    if !args.output.json {
        show_proposals(&refused, &shown)?;
    }
    let number = usize::from(args.choose);
    let Some(chosen) = shown.get(number.saturating_sub(1)) else {
        return Err(CommandError::usage(format!("there are {} proposals, not {number}", shown.len())));
    };
    let written = is_confirmed(args, shown.len());
    if written {
        chosen.proposal.write(&context, &snapshot.policy)?;
    }
    if args.output.json {
        render::print_json(json!({"call_id": refused.id, "written": written,
            "becomes": chosen.proposal.replay_result.verdict, "rules": chosen.proposal.rules, "diff": chosen.diff,
            "proposals": shown.iter().map(ShownProposal::to_json).collect::<Vec<_>>()}))?;
    } else if written {
        print_result_line(paint(SUCCESS_STYLE, "written"))?;
        reload::show_edit(&context)?;
    } else {
        print_message("nothing was written");
    }
    Ok(if written { ExitKind::Done } else { ExitKind::Approval })
}

impl ShownProposal {
    fn new(
        context: &CommandContext,
        snapshot: &ConfigSnapshot,
        refused: &RefusedCallRecord,
        proposal: PolicyProposal,
        recent: &RecentCalls,
    ) -> Result<ShownProposal, CommandError> {
        let definitions = snapshot.registry.definitions().map(AsRef::as_ref);
        let differences =
            compare_policies((&snapshot.policy, &proposal.policy), &snapshot.workspaces, definitions);
        let loosens = |change: &PolicyDifference| change.effect == PolicyEffect::Loosens;
        let mut reach: Vec<String> =
            differences.into_iter().filter(loosens).map(|change| change.description).collect();
        reach.extend(proposal.workspace.as_ref().map(|grant| grant.reach()));
        let diff = proposal.diff(context, &snapshot.policy)?;
        let recent = recent.changes(snapshot, &proposal, refused.id);
        Ok(ShownProposal { proposal, diff, reach, recent })
    }

    fn to_json(&self) -> Value {
        json!({"becomes": self.proposal.replay_result.verdict, "diff": self.diff, "reach": self.reach,
            "command": self.proposal.workspace.as_ref().map(|grant| grant.command()),
            "recent": self.recent.to_json()})
    }

    fn show(&self) -> Result<(), CommandError> {
        if let Some(grant) = &self.proposal.workspace {
            print_result_line(paint(SUCCESS_STYLE, escape_invisible_line(&grant.command())))?;
        }
        if !self.diff.is_empty() {
            print_result_line(painted(&escape_invisible(&self.diff)))?;
        }
        for reach in &self.reach {
            print_result_line(format!("becomes possible: {}", escape_invisible_line(reach)))?;
        }
        print_result_line(paint(DIM_STYLE, escape_invisible_line(&self.recent.to_string())))?;
        print_result_line(match self.proposal.replay_result.approval_rules.first() {
            None => "with this change the call runs".to_owned(),
            Some(rule) => {
                let rule = escape_invisible_line(&render::format_rule(rule));
                format!("with this change the call needs approval, by {rule}")
            }
        })
    }
}

fn show_proposals(refused: &RefusedCallRecord, proposals: &[ShownProposal]) -> Result<(), CommandError> {
    print_result_line(format!(
        "{} {}",
        paint(ERROR_STYLE, escape_invisible_line(&refused.tool)),
        escape_invisible_line(&refused.reason)
    ))?;
    for rule in proposals.first().iter().flat_map(|first| &first.proposal.rules) {
        let rule = escape_invisible_line(&render::format_rule(rule));
        print_result_line(paint(DIM_STYLE, format!("refused by {rule}")))?;
    }
    for (index, proposal) in proposals.iter().enumerate() {
        if proposals.len() > 1 {
            let width = if index == 0 { "narrowest" } else { "wider" };
            print_result_line(paint(HEADING_STYLE, format!("\n{}. {width}", index + 1)))?;
        }
        proposal.show()?;
    }
    if refused.was_refused_before_open() {
        print_result_line(paint(
            WARNING_STYLE,
            "the call was refused before its paths were opened: they are resolved and judged when it is repeated",
        ))?;
    }
    Ok(())
}

/// Returns true if the operator confirms the change, by `--yes` or on the terminal. Without either, nothing
/// is written.
fn is_confirmed(args: &AllowArgs, proposals: usize) -> bool {
    let number = args.choose;
    if args.yes {
        return true;
    }
    if args.output.json || !is_interactive() {
        let choice = if proposals > 1 { ", and `--choose NUMBER` for a wider one" } else { "" };
        print_message(format!("run the command again with `--yes` to write the change{choice}"));
        return false;
    }
    if proposals > 1 {
        return confirm(&format!("write change {number}? (`--choose NUMBER` selects another)"));
    }
    confirm("write this change?")
}

/// Colours the lines of a diff for a terminal.
pub(crate) fn painted(diff: &str) -> String {
    let line = |line: &str| match line.chars().next() {
        Some('+') => paint(SUCCESS_STYLE, line),
        Some('-') => paint(ERROR_STYLE, line),
        Some('@') => paint(DIM_STYLE, line),
        _ => line.to_owned(),
    };
    diff.lines().map(line).collect::<Vec<_>>().join("\n")
}
