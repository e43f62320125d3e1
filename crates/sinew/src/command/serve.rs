//! `sinew serve`: the daemon, in the foreground. A service manager, or a person, decides what becomes of it.

use nix::unistd::geteuid;

use crate::cli::ServeArgs;
use crate::compose;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;

pub(crate) fn run(args: &ServeArgs) -> Result<Exit, Problem> {
    if geteuid().is_root() && !args.allow_root {
        let problem = Problem::usage("Sinew does not run as root: its tools would have root's powers");
        return Err(problem.hint("run it as yourself, or say `--allow-root` if that is what you mean"));
    }
    let setting = Setting::find()?;
    let settings = setting.settings()?;
    let telemetry = compose::daemon_telemetry(&setting, &settings)?;
    let runtime = setting.runtime()?;
    let _inside = runtime.enter();
    let lock = setting.take_state()?;
    let layer = compose::daemon_layer(&setting, &settings)?;
    let served = runtime.block_on(server::serve(layer, setting.home(), &settings, lock));
    telemetry.shutdown(std::time::Duration::from_secs(2));
    runtime.shutdown_background();
    served.map_err(|error| setting.explain(&error))?;
    Ok(Exit::Done)
}
