//! `sinew completions`: a script for a shell, on standard output.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Problem};
use crate::terminal::show_foreign;

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Problem> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sinew", &mut script);
    show_foreign(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
