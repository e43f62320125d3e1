//! `sinew manual`: writes manual pages generated from the command-line help.

use std::path::Path;

use clap::CommandFactory;

use crate::cli::{Cli, ManualArgs};
use crate::exit::{Exit, Problem};
use crate::terminal::{say, visible_line};

pub(crate) fn run(args: &ManualArgs) -> Result<Exit, Problem> {
    write(&args.dir).map_err(|error| {
        Problem::new(Exit::Failed, format!("cannot write pages into `{}`: {error}", args.dir.display()))
            .hint("choose a folder that you can write to")
    })?;
    let shown = visible_line(&args.dir.display().to_string());
    say(format!("read the first page with `man -l {shown}/sinew.1`"))?;
    Ok(Exit::Done)
}

fn write(dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), dir)
}
