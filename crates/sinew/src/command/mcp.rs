//! `sinew mcp`: MCP over standard input and output, for hosts that start a command. It forwards to the daemon
//! and judges nothing itself.

use crate::bridge::{self, Daemons};
use crate::cli::McpArgs;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;

pub(crate) fn run(args: &McpArgs) -> Result<Exit, Problem> {
    let daemons = if args.no_start { Daemons::Awaited } else { Daemons::Started };
    bridge::run(Setting::find()?, daemons)?;
    Ok(Exit::Done)
}
