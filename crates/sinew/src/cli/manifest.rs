//! The words for manifests.

use std::path::PathBuf;

use clap::Subcommand;

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum ManifestCommand {
    /// Say everything that is wrong with manifests. Warnings alone end with 0, an error with 7.
    Check {
        /// Files, or folders of them.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
}
