//! `sinew hook`: the command that a host runs before and after it uses one of its own tools.
//!
//! The host defines the contract: its JSON on standard input, exactly one JSON object on standard output in
//! every case, exit code 0 with a decision, 2 to block. Panics, hangs and malformed input also end in one of
//! the two.

mod host_event;
mod host_reply;
mod install;
mod json_edit;
mod post_tool_use;
mod pre_tool_use;
mod settings_file;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use server::{ProcessEnvironment, SinewHome};

use self::host_reply::HostReply;
pub(super) use self::install::InstalledHooks;
use crate::cli::{FailMode, HookArgs, HookCommand};
use crate::command_context::serve_error;
use crate::exit::{CommandError, ExitKind};

/// Deadline of a hook, including reading its input. The host waits longer: see `install.rs`.
pub(crate) const DEADLINE: Duration = Duration::from_secs(8);

pub(crate) fn run(command: HookCommand) -> Result<ExitKind, CommandError> {
    Ok(match command {
        HookCommand::PreToolUse { fail, args } => {
            let (limit, host) = (effective_deadline(&args), args.host);
            run_with_deadline(limit, move || pre_tool_use::run(&args, limit))
                .unwrap_or_else(HostReply::CannotJudge)
                .send(host, fail)
        }
        HookCommand::PostToolUse(args) => {
            let (limit, host) = (effective_deadline(&args), args.host);
            run_with_deadline(limit, move || post_tool_use::run(&args))
                .unwrap_or_else(HostReply::CannotReview)
                .send(host, FailMode::Open)
        }
        HookCommand::Install(args) => return install::install(&args),
        HookCommand::Uninstall(args) => return install::uninstall(&args),
    })
}

/// Returns the deadline for this run. `--deadline-ms` can only shorten it.
fn effective_deadline(args: &HookArgs) -> Duration {
    args.deadline_ms.map_or(DEADLINE, |wish| Duration::from_millis(wish).min(DEADLINE))
}

/// Runs `work` on its own thread, so that a hang or panic cannot prevent the reply to the host. The error
/// says why there is no verdict.
fn run_with_deadline(
    limit: Duration,
    work: impl FnOnce() -> Result<HostReply, String> + Send + 'static,
) -> Result<HostReply, String> {
    // A panic message may contain data that the host sent, so only its location is printed.
    std::panic::set_hook(Box::new(|panic| {
        if let Some(place) = panic.location() {
            crate::terminal::print_message(format!("sinew hook: internal fault at {place}"));
        }
    }));
    let (sender, receiver) = mpsc::sync_channel(1);
    let started = std::thread::Builder::new().name("hook".to_owned()).spawn(move || sender.send(work()));
    started.map_err(|error| format!("no thread could be started: {error}"))?;
    match receiver.recv_timeout(limit) {
        Ok(answer) => answer,
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("there was no verdict within {} ms", limit.as_millis()))
        }
        Err(RecvTimeoutError::Disconnected) => Err("a fault inside Sinew".to_owned()),
    }
}

/// Returns the home that the hook was installed for, else the home of the environment.
fn home(args: &HookArgs) -> Result<SinewHome, String> {
    let environment: ProcessEnvironment = std::env::vars_os().collect();
    let located = match &args.home {
        // Keep HOME, which determines the meaning of `~`.
        Some(home) => {
            let mut environment = environment;
            environment.insert("SINEW_HOME".into(), home.into());
            SinewHome::locate(&environment)
        }
        None => SinewHome::locate(&environment),
    };
    located.map_err(|error| to_reason(&serve_error(&error)))
}

/// Formats a problem and its hint as one reason.
fn to_reason(problem: &CommandError) -> String {
    match &problem.hint {
        Some(hint) => format!("{}; try: {hint}", problem.message),
        None => problem.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::HostName;

    #[test]
    fn panic_and_hang_still_produce_a_reply() {
        let answered =
            |work: fn() -> Result<HostReply, String>| run_with_deadline(Duration::from_secs(20), work);
        assert_eq!(answered(|| Ok(HostReply::NoDecision)), Ok(HostReply::NoDecision));
        assert!(answered(|| panic!("with a secret inside")).unwrap_err().contains("a fault"));
        let hangs = run_with_deadline(Duration::from_millis(200), || {
            loop {
                std::thread::park();
            }
        });
        assert_eq!(hangs, Err("there was no verdict within 200 ms".to_owned()));
        drop(std::panic::take_hook());
    }

    #[test]
    fn requested_deadline_only_shortens() {
        let wish = |deadline_ms| {
            effective_deadline(&HookArgs { deadline_ms, home: None, host: HostName::ClaudeCode })
        };
        assert_eq!(wish(None), DEADLINE);
        assert_eq!(wish(Some(5)), Duration::from_millis(5));
        assert_eq!(wish(Some(u64::MAX)), DEADLINE);
    }
}
