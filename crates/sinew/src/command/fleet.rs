//! `sinew fleet`: sets up and operates a fleet of hosts. The commands of the operator work on fleet.yaml and the keys
//! beside it; those of a host work on its state.

mod admin;
mod beats;
mod doctor;
mod enrolment;
mod hosts;
mod ledgers;
mod membership;
mod mode;
mod policy;

use fleet::FleetError;
use tokio::runtime::Runtime;

use crate::cli::FleetCommand;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};

pub(crate) fn run(command: FleetCommand) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    match command {
        FleetCommand::Init { file, print } => admin::init(&context, &file.path, print),
        FleetCommand::Invite { host, group, file } => enrolment::invite(&file.path, &host, &group),
        FleetCommand::Join { token } => membership::join(&context, &token),
        FleetCommand::Admit { host, fingerprint, file } => {
            enrolment::admit(&context, &file.path, &host, fingerprint.as_deref())
        }
        FleetCommand::Remove { host, file } => enrolment::remove(&file.path, &host),
        FleetCommand::Leave => membership::leave(&context),
        FleetCommand::Hosts { file, seconds, output } => hosts::run(&context, &file.path, seconds, output),
        FleetCommand::Doctor(output) => doctor::run(&context, output),
        FleetCommand::Policy(command) => policy::run(&context, command),
        FleetCommand::Mode { mode, change } => mode::set(&context, mode, &change),
        FleetCommand::Lockdown(change) => mode::set(&context, crate::cli::FleetModeName::Lockdown, &change),
        FleetCommand::Beacon { file } => mode::beacon(&context, &file.path),
        FleetCommand::Ledger(command) => ledgers::run(&context, command),
    }
}

/// Converts an error of the fleet into one of a command.
fn failed(error: FleetError) -> CommandError {
    match &error {
        FleetError::Connection { .. } => CommandError::new(ExitKind::Unreachable, error.to_string())
            .with_hint("check that the server runs with the newest nats.conf, and reload it after a change"),
        FleetError::Name(_) => CommandError::usage(error.to_string()),
        _ => CommandError::failed(error),
    }
}

fn runtime(context: &CommandContext) -> Result<Runtime, CommandError> {
    context.runtime()
}
