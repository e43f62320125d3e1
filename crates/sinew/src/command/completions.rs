//! `sinew completions`: a script for a shell, on standard output.

use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs};
use crate::exit::{Exit, Problem};

pub(crate) fn run(args: &CompletionsArgs) -> Result<Exit, Problem> {
    clap_complete::generate(args.shell, &mut Cli::command(), "sinew", &mut std::io::stdout());
    Ok(Exit::Done)
}
