//! npm packages that tests use: the official TypeScript client, the MCP Inspector, two MCP servers and the official
//! schemas; the compiler of the TypeScript client, with Bun; and axe-core, which checks the pages of the console. They are installed below `target`. If that fails, this module prints it,
//! and those tests are left out.

use std::process::Command;

use crate::tree::Root;
use crate::{conformance, process};

/// Folder with npm packages.
struct Packages {
    /// Variable by which tests find the folder that contains `node_modules`.
    variable: &'static str,
    /// Name of the folder below `target`.
    folder: &'static str,
    packages: &'static [&'static str],
    /// Files below `node_modules` that exist once all packages are installed.
    files: &'static [&'static str],
}

const ALL: [Packages; 3] = [
    Packages {
        variable: "SINEW_NODE",
        folder: "node",
        packages: &[
            "@modelcontextprotocol/client@2.4.0",
            // Its bundle contains the JSON Schema of each revision.
            conformance::NEWEST,
            "@modelcontextprotocol/ext-tasks@0.2.2",
            "@modelcontextprotocol/inspector@2.12.0",
            "@modelcontextprotocol/server-everything@2026.8.31",
            "@modelcontextprotocol/server-filesystem@2026.8.31",
        ],
        files: &[
            ".bin/conformance",
            ".bin/mcp-inspector",
            ".bin/mcp-server-everything",
            ".bin/mcp-server-filesystem",
        ],
    },
    Packages {
        variable: "SINEW_CLIENT_NODE",
        folder: "client-typescript",
        packages: &["bun@1.4.4", "typescript@7.0.2", "@types/node@20.19.43"],
        files: &[".bin/bun", ".bin/tsc"],
    },
    Packages {
        variable: "SINEW_AXE",
        folder: "axe",
        packages: &["axe-core@4.14.1"],
        files: &["axe-core/axe.min.js"],
    },
];
const QUIETLY: [&str; 5] = ["install", "--silent", "--no-audit", "--no-fund", "--no-save"];

/// Folders that are found or can be installed, each with the variable by which tests find it.
pub(crate) fn with_packages(root: &Root) -> Vec<(&'static str, String)> {
    ALL.iter().filter_map(|packages| Some((packages.variable, packages.find(root)?))).collect()
}

impl Packages {
    fn find(&self, root: &Root) -> Option<String> {
        let folder = root.path().join("target").join(self.folder);
        let shown = folder.to_string_lossy().into_owned();
        if self.files.iter().all(|file| folder.join("node_modules").join(file).exists()) {
            return Some(shown);
        }
        let install = || {
            process::run(Command::new("npm").args(QUIETLY).arg("--prefix").arg(&folder).args(self.packages))
        };
        match std::fs::create_dir_all(&folder).map_err(Into::into).and_then(|()| install()) {
            Ok(()) => Some(shown),
            Err(_) => {
                println!(
                    "npm with {} is not available: tests with it are skipped",
                    self.packages.join(" and ")
                );
                None
            }
        }
    }
}
