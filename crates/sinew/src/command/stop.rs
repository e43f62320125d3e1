//! `sinew stop` and `sinew version`: end the daemon in order, and show which versions are in use.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::JsonArgs;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::render;
use crate::restart::drain_time;
use crate::service;
use crate::terminal::{LiveLine, print_message, print_result_line};

const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time that the daemon may take after the running calls have ended.
const CLOSING_TIME: Duration = Duration::from_secs(20);

/// Stops the daemon and waits for its end.
pub(crate) fn run(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    stop_daemon(&context)?;
    render::reply(output, json!({"stopped": true}), |_| {
        print_result_line("the daemon has stopped")?;
        if service::is_installed(context.home()) {
            print_message("its service may start it again; `sinew service stop` stops that too");
        }
        Ok(())
    })
}

/// Stops the daemon and waits until it has released the state.
pub(super) fn stop_daemon(context: &CommandContext) -> Result<(), CommandError> {
    let reply = context.request_running_daemon("control/shutdown", json!({}))?;
    let deadline = Instant::now() + drain_time(&reply) + CLOSING_TIME;
    let _line = LiveLine::start("the daemon ends its calls");
    while context.is_state_locked() {
        if Instant::now() >= deadline {
            let problem = CommandError::new(ExitKind::TimedOut, "the daemon has not ended yet");
            return Err(
                problem.with_hint("`sinew ps` shows the calls in progress, `sinew logs` what it does")
            );
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    Ok(())
}

/// Shows the version of this program, and of the daemon if one runs.
pub(crate) fn version(output: JsonArgs) -> Result<ExitKind, CommandError> {
    let context = CommandContext::from_environment()?;
    let daemon = context.request_running_daemon("control/status", json!({})).ok();
    let daemon = daemon.as_ref().and_then(|status| status["version"].as_str());
    let own = env!("CARGO_PKG_VERSION");
    render::reply(output, json!({"version": own, "daemon": daemon}), |_| {
        print_result_line(format!("sinew {own}"))?;
        match daemon {
            None => print_result_line("daemon not running"),
            Some(version) if version == own => print_result_line(format!("daemon {version}")),
            Some(version) => print_result_line(format!("daemon {version}: restart it to use version {own}")),
        }
    })
}
