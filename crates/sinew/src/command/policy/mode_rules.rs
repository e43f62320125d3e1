//! Mode rules of a policy replayed over the recorded calls, for `policy replay`.

use execution::ConfigSnapshot;
use execution::ledger_queries::{RuleReaction, RuleRehearsal, RuleResponse};
use governance::Policy;
use jiff::Timestamp;
use ledger::{LedgerReader, LedgerRecord, RecordFilter};

use crate::command::ledger::read_error;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::CommandError;
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{
    DIM_STYLE, SUCCESS_STYLE, WARNING_STYLE, escape_invisible_line, paint, print_result_line,
};
use crate::units;

/// Kinds of records that contain what the rules count.
const KINDS: [&str; 3] = ["refusal", "outcome", "retention"];
/// Number of reactions shown. All are in the JSON output.
const SHOWN_REACTIONS: usize = 5;

/// Replays the records of the period under the rules of a policy.
pub(super) fn rehearse(
    context: &CommandContext,
    snapshot: &ConfigSnapshot,
    policy: &Policy,
    since: Timestamp,
) -> Result<RuleRehearsal, CommandError> {
    let folder = compose::ledger_dir(context);
    let reader = LedgerReader::new(&folder);
    let mut records: Vec<LedgerRecord> = Vec::new();
    for kind in KINDS {
        let filter =
            RecordFilter { kind: Some(kind.to_owned()), since: Some(since), ..RecordFilter::default() };
        records.extend(reader.query(&filter).map_err(read_error(&folder))?);
    }
    records.sort_by_key(|record| record.seq);
    Ok(RuleRehearsal::replay(snapshot, policy.transitions(), &records))
}

pub(super) fn show(rehearsal: &RuleRehearsal) -> Result<(), CommandError> {
    if rehearsal.peaks.is_empty() {
        return Ok(());
    }
    match rehearsal.reactions.len() {
        0 => print_result_line(paint(SUCCESS_STYLE, "mode rules: none reacts to the recorded calls"))?,
        count => {
            let noun = if count == 1 { "reaction" } else { "reactions" };
            let title = format!("mode rules: {count} {noun} to the recorded calls");
            print_result_line(paint(WARNING_STYLE, title))?;
        }
    }
    for reaction in rehearsal.reactions.iter().take(SHOWN_REACTIONS) {
        show_reaction(reaction)?;
    }
    if let Some(more) = rehearsal.reactions.len().checked_sub(SHOWN_REACTIONS).filter(|more| *more > 0) {
        print_result_line(format!("  and {more} more; `--json` lists all"))?;
    }
    let mut table = Table::default();
    table.set_header([Column::from("CONDITION"), Column::whole("HIGHEST"), Column::whole("RULE")]);
    for peak in &rehearsal.peaks {
        let highest = peak.highest.map_or("–".to_owned(), |value| format!("{value}"));
        let name = peak.rule.rsplit('.').next().unwrap_or_default();
        table.add_row([peak.condition.clone(), highest, escape_invisible_line(name)]);
    }
    render::print_table(&table)?;
    print_result_line(paint(
        DIM_STYLE,
        "as if the mode had been NORMAL before each call; the load of the machine is not recorded",
    ))
}

fn show_reaction(reaction: &RuleReaction) -> Result<(), CommandError> {
    let response = match &reaction.response {
        RuleResponse::Change(mode) => format!("the mode changes to {}", render::format_mode(mode.as_str())),
        RuleResponse::Propose(mode) => format!("{} is proposed", render::format_mode(mode.as_str())),
        RuleResponse::Suspend(caller) => format!("{} is suspended", escape_invisible_line(caller)),
    };
    let (time, reason) = (units::local_time(reaction.time), escape_invisible_line(&reaction.reason));
    print_result_line(format!("  {time} {response}: {reason}"))
}
