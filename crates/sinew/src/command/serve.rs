//! `sinew serve`: the daemon, in the foreground. A service manager, or a person, decides what becomes of it.

use std::sync::Arc;
use std::time::Duration;

use nix::unistd::geteuid;
use sandbox::Sandbox;
use server::Stop;
use telemetry::LogTarget;

use crate::cli::ServeArgs;
use crate::daemon::{self, Daemon};
use crate::exit::{Exit, Problem};
use crate::own_memory;
use crate::setting::{Setting, explain};

/// How long the last log lines may take.
const FLUSH: Duration = Duration::from_secs(2);
/// How long it may take to see to what runs left behind. What is not done by then the next daemon does.
const SETTLE: Duration = Duration::from_secs(15);

pub(crate) fn run(args: &ServeArgs) -> Result<Exit, Problem> {
    if geteuid().is_root() && !args.allow_root {
        let problem = Problem::usage("Sinew does not run as root: its tools would have root's powers");
        return Err(problem.hint("run it as yourself, or say `--allow-root` if that is what you mean"));
    }
    if !args.debuggable {
        let failed =
            |error| Problem::new(Exit::Failed, format!("cannot close its memory to others: {error}"));
        own_memory::close().map_err(failed)?;
    }
    server::share_heaps();
    let setting = Setting::find()?;
    let settings = setting.settings()?;
    let lock = setting.take_state()?;
    let telemetry =
        telemetry::init(&settings.telemetry, &LogTarget::DirectoryAndStderr(setting.home().log().to_owned()))
            .map_err(Problem::configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::new(Exit::Failed, format!("cannot start: {error}")))?;
    let Daemon { layer, settings, following } = daemon::prepare(&setting)?;
    let served = runtime.block_on(async {
        let layer = Arc::clone(&layer);
        let served = server::serve(layer, setting.home(), &settings, &lock, following, Stop::default()).await;
        if !matches!(served, Ok(server::Exit::Forced)) {
            let _ = tokio::time::timeout(SETTLE, Sandbox::of_this_process().close()).await;
        }
        served
    });
    layer.close(match &served {
        Ok(server::Exit::Drained) => "told to stop",
        Ok(server::Exit::CutShort { .. }) => {
            "told to stop; calls were still running when the time to drain was up"
        }
        Ok(server::Exit::Forced) => "told to stop at once",
        Err(_) => "could not serve",
    });
    drop(lock);
    // A thread stuck in a dead mount must not keep the daemon from ending.
    runtime.shutdown_background();
    let _ = telemetry.shutdown(FLUSH);
    served.map_err(|error| explain(&error))?;
    Ok(Exit::Done)
}
