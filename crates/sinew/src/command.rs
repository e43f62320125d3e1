//! Commands, one file each.

mod allow;
mod approvals;
mod call;
mod check;
mod completions;
mod config;
mod demo;
mod doctor;
mod explain;
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
mod schema;
mod serve;
mod service;
mod sessions;
mod status;
mod tools;
mod trace;
mod undo;
mod workspace;

pub(crate) use completions::{ToolNames, answered};

use serde_json::{Value, json};

use crate::cli::Command;
use crate::exit::{Exit, Problem};
use crate::render;
use crate::terminal::say;

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Exit, Problem> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Call(args) => call::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Tools(command) => tools::run(command),
        Command::Status(output) => status::run(output),
        Command::Wait(args) => status::wait(&args),
        Command::Approvals(command) => approvals::run(command),
        Command::Approve(args) => approvals::approve(&args),
        Command::Deny(args) => approvals::deny(&args),
        Command::Pin(command) => pin::run(&command),
        Command::Mode(command) => mode::run(command),
        Command::Ps(output) => ps::run(output),
        Command::Cancel(args) => ps::cancel(&args),
        Command::Sessions(command) => sessions::run(command),
        Command::Reload(args) => reload::run(&args),
        Command::Lockdown(change) => mode::lockdown(change),
        Command::Service(command) => service::run(command),
        Command::Mcp(args) => serve::serve_mcp(&args),
        Command::Hook(command) => hook::run(command),
        Command::Init(args) => init::run(&args),
        Command::Config(command) => config::run(&command),
        Command::Check(output) => check::run(output),
        Command::Allow(args) => allow::run(&args),
        Command::Policy(command) => policy::run(command),
        Command::Manifest(command) => manifest::run(&command),
        Command::Workspace(command) => workspace::run(command),
        Command::Undo(args) => undo::run(&args),
        Command::Ledger(command) => ledger::run(command),
        Command::Trace(args) => trace::run(&args),
        Command::Logs(args) => logs::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Manual(args) => help::write_manual(&args),
        Command::Doctor(output) => doctor::run(output),
        Command::Demo => demo::run(),
        Command::Help(args) => help::run(&args),
    }
}

/// Calls `one` for each id. A failure of one does not stop the others. With `json`, prints all replies under `key`, failures included, so that a reader
/// can pair ids with replies. Stops only if the daemon is unreachable.
fn each<Id: std::fmt::Display>(
    ids: &[Id],
    key: &str,
    json: bool,
    mut one: impl FnMut(&Id) -> Result<Value, Problem>,
) -> Result<Exit, Problem> {
    let (mut exit, mut replies) = (Exit::Done, Vec::new());
    for id in ids {
        match one(id) {
            Ok(reply) => replies.push(reply),
            Err(problem) if problem.exit == Exit::Unreachable => return Err(problem),
            Err(problem) => {
                replies.push(json!({"id": id.to_string(), "error": problem.message}));
                crate::complain(&problem);
                exit = problem.exit;
            }
        }
    }
    if json {
        say(render::versioned(json!({key: replies})))?;
    }
    Ok(exit)
}
