//! Command-line grammar of `sinew manifest`.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};

use super::JsonArgs;

#[derive(Subcommand)]
pub(crate) enum ManifestCommand {
    /// Check manifests and report all problems. Runs each function once, with an example from its file. Exits
    /// with 7 on errors, with 0 if there are only warnings.
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
    /// Start an MCP server in the sandbox, list its tools, and write a manifest that pins their schemas. The
    /// server can read the workspaces; it has no network access without `--network`.
    Import {
        /// Id of the manifest, in kebab-case.
        #[arg(value_name = "ID")]
        name: String,
        /// Allow network access during the import.
        #[arg(long)]
        network: bool,
        /// Declare that all its tools only read. The sandbox enforces it.
        #[arg(long)]
        read_only: bool,
        /// Command that starts the server on standard input and output.
        #[arg(required = true, last = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Write a commented manifest to start from.
    New {
        /// Id of the manifest, in kebab-case.
        #[arg(value_name = "ID")]
        name: String,
        /// Type of the tool.
        #[arg(long = "type", value_enum, value_name = "TYPE")]
        kind: ManifestKind,
    },
}

/// Type of a new manifest.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum ManifestKind {
    /// Program with a command line.
    Cli,
    /// Script supplied with the manifest.
    Local,
    /// MCP server.
    Mcp,
    /// Sequence of other tools.
    Meta,
}
