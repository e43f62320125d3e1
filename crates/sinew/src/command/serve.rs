//! `sinew serve`: runs the daemon in the foreground, under a service manager or from a terminal. `sinew mcp`:
//! forwards MCP between standard input and output and the daemon.

use std::sync::Arc;
use std::time::Duration;

use execution::ToolExecutionLayer;
use nix::sys::resource::{Resource, setrlimit};
use nix::unistd::geteuid;
use sandbox::Sandbox;
use server::settings::Settings;
use server::{ServeError, ServeExit, Served, StopHandle};
use telemetry::LogTarget;
use tokio::task::JoinHandle;

use crate::bridge::{self, DaemonStartup};
use crate::cli::{McpArgs, ServeArgs};
use crate::command_context::{CommandContext, serve_error};
use crate::compose::{self, WorkspaceSelection};
use crate::daemon::{self, PreparedDaemon};
use crate::exit::{CommandError, ExitKind};
use crate::http_bridge::{self, HttpOptions};
use crate::program_path::stable_program_path;
use crate::restart;
use crate::terminal::print_result_line;

/// Timeout for writing the last log lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the post-run cleanup at shutdown. The next daemon completes what is left.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) fn run(args: &ServeArgs) -> Result<ExitKind, CommandError> {
    if geteuid().is_root() && !args.allow_root {
        let problem = CommandError::usage("Sinew does not run as root: its tools would have root privileges");
        return Err(
            problem.with_hint("run it as your own user, or pass `--allow-root` to run it as root anyway")
        );
    }
    if !args.debuggable {
        let failed = |error| {
            CommandError::failed(format!("cannot protect the daemon's memory from other processes: {error}"))
        };
        protect_memory().map_err(failed)?;
    }
    let context = CommandContext::from_environment()?;
    if args.check {
        return check(&context);
    }
    server::limit_malloc_arenas();
    // Determined now: an upgrade replaces the file that this process runs.
    let program = stable_program_path()?;
    let settings = context.settings()?;
    let lock = context.lock_state()?;
    let telemetry = telemetry::init(
        &settings.telemetry,
        &LogTarget::DirectoryAndStderr(context.home().log_dir().to_owned()),
    )
    .map_err(CommandError::configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(format!("cannot start: {error}")))?;
    let PreparedDaemon { layer, settings, reload_inputs: following } = daemon::prepare(&context)?;
    let served = runtime.block_on(async {
        let layer = Arc::clone(&layer);
        let stop = StopHandle::with_restart(restart::check_of(&program));
        let fleet = start_fleet(&context, &settings, &layer);
        let served = server::serve(layer, context.home(), &settings, &lock, following, stop).await;
        if let Some(fleet) = fleet {
            fleet.abort();
        }
        if !matches!(served, Ok(Served { exit: ServeExit::Forced, .. })) {
            let _ = tokio::time::timeout(CLEANUP_TIMEOUT, Sandbox::of_this_process().close()).await;
        }
        served
    });
    layer.close(close_reason(&served));
    drop(lock);
    // Do not wait for threads: one blocked in a dead network mount would keep the daemon from exiting.
    runtime.shutdown_background();
    let _ = telemetry.shutdown(FLUSH_TIMEOUT);
    match served.map_err(|error| serve_error(&error))?.sockets {
        Some(sockets) => Err(restart::replace_process(&program, sockets)),
        None => Ok(ExitKind::Done),
    }
}

/// Starts the service of the fleet. The daemon serves whether or not it succeeds.
#[cfg(feature = "fleet")]
fn start_fleet(
    context: &CommandContext,
    settings: &Settings,
    layer: &Arc<ToolExecutionLayer>,
) -> Option<JoinHandle<std::convert::Infallible>> {
    crate::fleet::start(context, settings.fleet.as_ref(), layer)
}

#[cfg(not(feature = "fleet"))]
fn start_fleet(
    _: &CommandContext,
    settings: &Settings,
    _: &Arc<ToolExecutionLayer>,
) -> Option<JoinHandle<std::convert::Infallible>> {
    if settings.fleet.is_some() {
        tracing::error!("sinew.yaml has `fleet:`, and this program was built without the feature `fleet`");
    }
    None
}

/// Returns the reason that the ledger records for the end of the daemon.
fn close_reason(served: &Result<Served, ServeError>) -> &'static str {
    match served {
        Ok(Served { exit: ServeExit::Forced, .. }) => "immediate stop requested",
        Ok(Served { exit: ServeExit::Drained, sockets: None }) => "stop requested",
        Ok(Served { exit: ServeExit::Drained, sockets: Some(_) }) => "restart requested",
        Ok(Served { exit: ServeExit::CutShort { .. }, sockets: None }) => {
            "stop requested; calls were still running when the drain timeout expired"
        }
        Ok(Served { exit: ServeExit::CutShort { .. }, sockets: Some(_) }) => {
            "restart requested; calls were still running when the drain timeout expired"
        }
        Err(_) => "serving failed",
    }
}

/// Checks that this program can read the configuration and the state. Another process may own the state, so nothing
/// is written.
fn check(context: &CommandContext) -> Result<ExitKind, CommandError> {
    server::check_state(context.home()).map_err(|error| serve_error(&error))?;
    let settings = context.settings()?;
    compose::config_snapshot(context, &settings, WorkspaceSelection::Configured)?;
    print_result_line(env!("CARGO_PKG_VERSION"))?;
    Ok(ExitKind::Done)
}

/// Stops debuggers of the same user from attaching, and disables core files. A process that could read or change
/// the daemon's memory would not need the operator PIN, and a core file would store secrets on disk. Programs
/// started later can set both again for themselves.
fn protect_memory() -> nix::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    // RLIMIT_CORE does not apply to a core that the kernel pipes to a program; the dumpable flag does.
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(())
}

/// Serves MCP on standard input and output, for hosts that start a command, or over HTTP.
pub(crate) fn serve_mcp(args: &McpArgs) -> Result<ExitKind, CommandError> {
    let daemons = if args.no_start { DaemonStartup::WaitForDaemon } else { DaemonStartup::StartIfMissing };
    let context = CommandContext::from_environment()?;
    match args.http {
        Some(address) => {
            let options = HttpOptions {
                token_file: args.token_file.as_deref(),
                session_timeout: Duration::from_secs(args.session_timeout),
            };
            http_bridge::run(context, daemons, address, options)
        }
        None => bridge::run(context, daemons).map(|()| ExitKind::Done),
    }
}
