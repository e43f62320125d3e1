//! Command-line grammar of output options, and of commands about the installation and the daemon.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Copy)]
pub(crate) struct JsonArgs {
    /// Print JSON with a `schema_version`, errors included.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColorWhen {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Also into a file or a pipe.
    Always,
    /// Never.
    Never,
}

impl ColorWhen {
    /// Applies the choice to all output of this process.
    pub(crate) fn apply(self) {
        match self {
            // CLICOLOR_FORCE and NO_COLOR decide then.
            ColorWhen::Auto => {}
            ColorWhen::Always => anstream::ColorChoice::Always.write_global(),
            ColorWhen::Never => anstream::ColorChoice::Never.write_global(),
        }
    }
}

#[derive(Args)]
pub(crate) struct DoctorArgs {
    /// Show every check, also those that passed.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) output: JsonArgs,
}

#[derive(Args)]
pub(crate) struct BugreportArgs {
    /// Archive to write; it must not exist. Default: `sinew-bugreport.tar.gz` in the current folder.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
