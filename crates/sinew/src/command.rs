//! Commands, one file each.

mod allow;
mod approvals;
mod bugreport;
pub(crate) mod call;
mod call_ids;
mod callers;
mod check;
mod completions;
mod config;
mod console;
mod demo;
mod doctor;
mod explain;
#[cfg(feature = "fleet")]
mod fleet;
mod help;
mod hook;
mod init;
mod ledger;
mod logs;
mod manifest;
mod mode;
mod pin;
mod policy;
mod ps;
mod reload;
mod restart;
mod schema;
mod serve;
mod service;
mod sessions;
mod status;
mod stop;
mod tools;
mod trace;
mod undo;
mod uninstall;
mod workspace;

pub(crate) use completions::{ToolNameCompleter, handle_completion_request};

use serde_json::{Value, json};

use crate::cli::{ApprovalsCommand, CliCommand, ConfigCommand, LedgerCommand, ModeCommand, PolicyCommand};
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::terminal::paged;

/// Runs a command, with a pager if its output may be long.
pub(crate) fn run(command: CliCommand) -> Result<ExitKind, CommandError> {
    match is_pageable(&command) {
        true => paged(|| run_one(command)),
        false => run_one(command),
    }
}

/// Returns true for a command that only prints, ends by itself and may print more than a screen.
fn is_pageable(command: &CliCommand) -> bool {
    match command {
        CliCommand::Ledger(LedgerCommand::Tail { follow, .. }) => !follow,
        CliCommand::Ledger(LedgerCommand::Query { .. } | LedgerCommand::Show { .. })
        | CliCommand::Tools(_)
        | CliCommand::Explain(_)
        | CliCommand::Trace(_)
        | CliCommand::Schema(_)
        | CliCommand::Check(_)
        | CliCommand::Doctor(_)
        | CliCommand::Help(_)
        | CliCommand::Mode(ModeCommand::History { .. })
        | CliCommand::Config(ConfigCommand::Show(_))
        | CliCommand::Approvals(ApprovalsCommand::List(_) | ApprovalsCommand::Show { .. })
        | CliCommand::Policy(PolicyCommand::Reach { .. }) => true,
        CliCommand::Logs(args) => !args.follow,
        _ => false,
    }
}

fn run_one(command: CliCommand) -> Result<ExitKind, CommandError> {
    match command {
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Call(args) => call::run(args),
        CliCommand::Explain(args) => explain::run(args),
        CliCommand::Tools(command) => tools::run(command),
        CliCommand::Status(output) => status::run(output),
        CliCommand::Wait(args) => status::wait(&args),
        CliCommand::Approvals(command) => approvals::run(command),
        CliCommand::Approve(args) => approvals::approve(&args),
        CliCommand::Deny(args) => approvals::deny(&args),
        CliCommand::Console(args) => console::run(args),
        CliCommand::Pin(command) => pin::run(&command),
        CliCommand::Mode(command) => mode::run(command),
        CliCommand::Ps(output) => ps::run(output),
        CliCommand::Cancel(args) => ps::cancel(&args),
        CliCommand::Callers(command) => callers::run(command),
        CliCommand::Sessions(command) => sessions::run(command),
        CliCommand::Reload(args) => reload::run(&args),
        CliCommand::Lockdown(change) => mode::lockdown(change),
        CliCommand::Restart(output) => restart::run(&output),
        CliCommand::Uninstall(args) => uninstall::run(&args),
        CliCommand::Service(command) => service::run(command),
        CliCommand::Mcp(args) => serve::serve_mcp(&args),
        CliCommand::Hook(command) => hook::run(command),
        CliCommand::Init(args) => init::run(&args),
        CliCommand::Config(command) => config::run(&command),
        CliCommand::Check(output) => check::run(output),
        CliCommand::Allow(args) => allow::run(&args),
        CliCommand::Policy(command) => policy::run(command),
        CliCommand::Manifest(command) => manifest::run(&command),
        CliCommand::Workspace(command) => workspace::run(command),
        CliCommand::Undo(args) => undo::run(&args),
        CliCommand::Ledger(command) => ledger::run(command),
        CliCommand::Trace(args) => trace::run(&args),
        CliCommand::Logs(args) => logs::run(&args),
        CliCommand::Schema(args) => schema::run(&args),
        CliCommand::Completions(args) => completions::run(&args),
        CliCommand::Manual(args) => help::write_manual(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Bugreport(args) => bugreport::run(&args),
        CliCommand::Version(output) => stop::version(output),
        CliCommand::Stop(output) => stop::run(output),
        #[cfg(feature = "fleet")]
        CliCommand::Fleet(command) => fleet::run(command),
        CliCommand::Demo => demo::run(),
        CliCommand::Help(args) => help::run(&args),
    }
}

/// Calls `one` for each id. A failure of one does not stop the others. With `json`, prints all replies under `key`, failures included, so that a reader
/// can pair ids with replies. Stops only if the daemon is unreachable.
fn each<Id: std::fmt::Display>(
    ids: &[Id],
    key: &str,
    json: bool,
    mut one: impl FnMut(&Id) -> Result<Value, CommandError>,
) -> Result<ExitKind, CommandError> {
    let (mut exit, mut replies) = (ExitKind::Done, Vec::new());
    for id in ids {
        match one(id) {
            Ok(reply) => replies.push(reply),
            Err(problem) if problem.exit == ExitKind::Unreachable => return Err(problem),
            Err(problem) => {
                replies.push(json!({"id": id.to_string(), "error": problem.message}));
                if !json {
                    crate::print_error(&problem);
                }
                exit = problem.exit;
            }
        }
    }
    if json {
        render::print_json(json!({key: replies}))?;
    }
    Ok(exit)
}
