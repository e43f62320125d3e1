//! `sinew callers`: lists suspended callers and lets them call again. The daemon holds the suspensions.

use serde_json::json;

use crate::cli::{CallersCommand, JsonArgs, PinArgs};
use crate::command::pin::PinSource;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render::{self, text_field};
use crate::table::Column;
use crate::terminal::{escape_invisible_line, print_result_line};
use crate::units;

pub(crate) fn run(command: CallersCommand) -> Result<ExitKind, CommandError> {
    match command {
        CallersCommand::List(output) => list(output),
        CallersCommand::Resume { id, pin, output } => resume(&id, pin, output),
    }
}

fn list(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let reply = CommandContext::from_environment()?.request_control("control/callers.list", json!({}))?;
    let header = [
        Column::whole("CALLER"),
        Column::optional("CLIENT", 2),
        Column::optional("SINCE", 1),
        Column::whole("LEFT"),
        Column::from("REASON"),
    ];
    render::reply(output, reply, |reply| {
        let suspended = render::items(reply, "suspended");
        render::print_list(suspended, "no caller is suspended", header, |suspended| {
            [
                text_field(suspended, "id"),
                text_field(&suspended["caller"], "client"),
                units::local_time_text(suspended["since"].as_str().unwrap_or_default()),
                units::span(suspended["seconds_left"].as_u64().unwrap_or_default()),
                text_field(suspended, "reason"),
            ]
        })
    })
}

fn resume(id: &str, pin: PinArgs, output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let params = json!({"caller": id});
    let reply = PinSource::from_args(pin).request_control(&context, "control/callers.resume", params)?;
    render::reply(output, reply, |_| {
        print_result_line(format!("{} may call again", escape_invisible_line(id)))
    })
}
