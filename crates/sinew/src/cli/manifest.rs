//! Command-line grammar of `sinew manifest`.

use std::path::PathBuf;

use clap::Subcommand;

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum ManifestCommand {
    /// Check manifests and report all problems. Exits with 7 on errors, with 0 if there are only warnings.
    Check {
        /// Files, or folders of manifests.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
    /// Test the examples of manifests against their schemas and validators. Read-only tools that name no path
    /// and need no approval are also run. Exits with 1 if an example fails.
    Test {
        /// Files, or folders of manifests.
        #[arg(required = true, value_name = "PATH")]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        output: JsonArgs,
    },
}
