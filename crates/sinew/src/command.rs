//! Commands, one file each.

mod allow;
mod approvals;
mod call;
mod check;
mod completions;
mod config;
mod demo;
mod doctor;
mod each;
mod explain;
mod help;
mod hook;
mod init;
mod ledger;
mod logs;
mod manifest;
mod manual;
mod mcp;
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
mod wait;
mod workspace;

pub(crate) use completions::{ToolNames, answered};

use crate::cli::Command;
use crate::exit::{Exit, Problem};

/// Runs a command.
pub(crate) fn run(command: Command) -> Result<Exit, Problem> {
    match command {
        Command::Serve(args) => serve::run(&args),
        Command::Call(args) => call::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Tools(command) => tools::run(command),
        Command::Status(output) => status::run(output),
        Command::Wait(args) => wait::run(&args),
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
        Command::Mcp(args) => mcp::run(&args),
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
        Command::Manual(args) => manual::run(&args),
        Command::Doctor(output) => doctor::run(output),
        Command::Demo => demo::run(),
        Command::Help(args) => help::run(&args),
    }
}
