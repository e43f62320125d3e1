//! `sinew wait`: waits until the daemon answers. Never starts one.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::cli::WaitArgs;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;

const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &WaitArgs) -> Result<Exit, Problem> {
    let setting = Setting::find()?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while !setting.daemon_answers() {
        if Instant::now() >= deadline {
            // One last request returns the specific error: no daemon, a foreign process, or one that is still
            // starting.
            setting.ask_running("control/status", json!({}))?;
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(Exit::Done)
}
