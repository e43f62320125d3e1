//! `sinew mcp`: the stdio door for hosts that start a command. Nothing is judged here; the daemon does the work.

use crate::bridge::{self, Daemons};
use crate::cli::McpArgs;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;

pub(crate) fn run(args: &McpArgs) -> Result<Exit, Problem> {
    let daemons = if args.no_start { Daemons::Awaited } else { Daemons::Started };
    bridge::run(Setting::find()?, daemons)?;
    Ok(Exit::Done)
}
