//! `sinew mode` and `sinew lockdown`: show and change the operating mode. The daemon holds the mode and
//! records every change in the ledger; without one, this process does.

use execution::modes::ModeChangeResult;
use ledger::entry::ModeChange;
use ledger::{LedgerEntry, LedgerReader, RecordFilter};
use serde_json::{Value, json};
use tool::{CallerEndpoint, Mode};

use crate::cli::{ChangeArgs, JsonArgs, ModeCommand};
use crate::command::{call, pin};
use crate::command_context::{CommandBackend, CommandContext};
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{escape_invisible_line, print_message, print_result_line, print_warning};
use crate::units;

pub(crate) fn run(command: ModeCommand) -> Result<ExitKind, CommandError> {
    match command {
        ModeCommand::Get(output) => get(output),
        ModeCommand::Set { mode, change } => set(mode, change, "sinew mode set"),
        ModeCommand::History { limit, output } => history(limit, output),
    }
}

/// Enters LOCKDOWN, which is possible from every mode.
pub(crate) fn lockdown(change: ChangeArgs) -> Result<ExitKind, CommandError> {
    set(Mode::Lockdown, change, "sinew lockdown")
}

fn get(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let reply = match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => context.request_control("control/mode.get", json!({}))?,
        CommandBackend::Local(_state) => json!({"mode": compose::embedded_layer(&context)?.mode()}),
    };
    render::reply(output, reply, |reply| {
        print_result_line(render::format_mode(text_field(reply, "mode")))?;
        if let Some(proposal) = reply.get("proposal") {
            let (to, reason) =
                (text_field(proposal, "to"), escape_invisible_line(text_field(proposal, "reason")));
            print_warning(format!("{to} is proposed: {reason}\nrun `sinew mode set {to}` to confirm it"));
        }
        Ok(())
    })
}

/// Prints the mode changes, oldest first, from the ledger files. Needs no daemon.
fn history(limit: usize, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let filter =
        RecordFilter { kind: Some("mode".to_owned()), limit: Some(limit), ..RecordFilter::default() };
    let found = LedgerReader::new(&compose::ledger_dir(&context)).query(&filter);
    let mut found = found.map_err(CommandError::failed)?;
    found.reverse();
    if output.json {
        let changes: Vec<Value> = found.iter().map(ledger::LedgerRecord::json).collect();
        render::print_json(json!({"changes": changes}))?;
        return Ok(ExitKind::Done);
    }
    let mut table = Table::default();
    table.set_header([Column::whole("TIME"), Column::whole("CHANGE"), "BY".into(), "REASON".into()]);
    for record in &found {
        if let LedgerEntry::Mode(ModeChange { from, to, reason, by, .. }) = &record.entry {
            let transition =
                format!("{} → {}", render::format_mode(from.as_str()), render::format_mode(to.as_str()));
            let by = by.as_deref().map(escape_invisible_line).unwrap_or_default();
            table.add_row([units::local_time(record.time), transition, by, escape_invisible_line(reason)]);
        }
    }
    if found.is_empty() {
        print_message("the mode has never changed");
    } else {
        render::print_table(&table)?;
    }
    Ok(ExitKind::Done)
}

fn set(mode: Mode, change: ChangeArgs, typed: &str) -> Result<ExitKind, CommandError> {
    let reason = change.reason.unwrap_or_else(|| format!("operator ran `{typed}`"));
    let context = CommandContext::from_environment()?;
    let mut pin = pin::PinSource::from_args(change.pin);
    let reply = match context.daemon_or_state_lock()? {
        CommandBackend::Daemon => {
            let params = json!({"mode": mode, "reason": reason});
            pin.request_control(&context, "control/mode.set", params)?
        }
        CommandBackend::Local(_state) => set_in_this_process(&context, mode, &reason, &mut pin)?,
    };
    render::reply(change.output, reply, |reply| {
        let (before, now) = (text_field(reply, "previous"), text_field(reply, "mode"));
        print_result_line(match before == now {
            true => format!("{} (unchanged)", render::format_mode(now)),
            false => format!("{} → {}", render::format_mode(before), render::format_mode(now)),
        })?;
        if reply["recorded"] == false {
            let note =
                "the mode is in effect but not recorded in the ledger yet: a crash before that would lose it";
            print_warning(note);
        }
        Ok(())
    })
}

/// Changes the mode without a daemon. The next one starts in it.
fn set_in_this_process(
    context: &CommandContext,
    mode: Mode,
    reason: &str,
    pin: &mut pin::PinSource,
) -> Result<Value, CommandError> {
    let (runtime, layer) = (context.runtime()?, compose::embedded_layer(context)?);
    let needs_pin = ModeChangeResult::needs_pin(layer.mode(), mode);
    if needs_pin && layer.approvals().pin().is_set() && pin.known().is_none() {
        pin.read_pin()?;
    }
    let changed = runtime.block_on(async {
        let proof = match needs_pin {
            true => {
                let proof = layer
                    .approvals()
                    .pin()
                    .verify(CallerEndpoint::Control, pin.known().map(str::to_owned))
                    .await;
                Some(proof.map_err(|error| CommandError::new(ExitKind::Refused, error.to_string()))?)
            }
            false => None,
        };
        layer.set_mode(mode, reason, &call::caller(call::CLI_NAME), proof).await.map_err(CommandError::failed)
    })?;
    layer.close("sinew mode set finished");
    Ok(json!({"mode": mode, "previous": changed.previous, "recorded": changed.recorded}))
}

fn text_field<'a>(reply: &'a Value, key: &str) -> &'a str {
    reply[key].as_str().unwrap_or_default()
}
