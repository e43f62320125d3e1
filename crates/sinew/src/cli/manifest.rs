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
    /// Hold the examples of manifests against their schemas and validators, and against the tools themselves where they only
    /// look, name no path, and policy lets them without asking. Ends with 1 if one is broken.
    Test {
        /// Files, or folders of them.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
}
