//! The packages of the npm registry that tests talk to: the official TypeScript client, the MCP Inspector, and two servers
//! of tools. They are installed below `target/node`; where that does not work those tests are left out, and that is said.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// Where the tests find them: the folder that holds `node_modules`.
pub(crate) const VARIABLE: &str = "SINEW_NODE";
const PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
/// What is there once all of them are.
const PROGRAMS: [&str; 3] = ["mcp-inspector", "mcp-server-everything", "mcp-server-filesystem"];
const QUIETLY: [&str; 5] = ["install", "--silent", "--no-audit", "--no-fund", "--no-save"];

/// The folder with the packages, if it is there or can be made.
pub(crate) fn with_packages(root: &Root) -> Option<String> {
    let folder = root.path().join("target/node");
    let shown = folder.to_string_lossy().into_owned();
    if PROGRAMS.iter().all(|program| folder.join("node_modules/.bin").join(program).exists()) {
        return Some(shown);
    }
    let install =
        || process::run(Command::new("npm").args(QUIETLY).arg("--prefix").arg(&folder).args(PACKAGES));
    match std::fs::create_dir_all(&folder).map_err(Into::into).and_then(|()| install()) {
        Ok(()) => Some(shown),
        Err(_) => {
            println!("npm with {} is not to be had: tests with it are left out", PACKAGES.join(" and "));
            None
        }
    }
}
