//! npm packages that tests talk to: the official TypeScript client, the MCP Inspector, and two MCP servers.
//! They are installed below `target/node`. If that fails, this module prints it, and those tests are left
//! out.

use std::process::Command;

use crate::process;
use crate::tree::Root;

/// Variable by which tests find the folder that contains `node_modules`.
pub(crate) const VARIABLE: &str = "SINEW_NODE";
const PACKAGES: [&str; 4] = [
    "@modelcontextprotocol/client@2.4.0",
    "@modelcontextprotocol/inspector@2.12.0",
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
];
/// Programs that exist once all packages are installed.
const PROGRAMS: [&str; 3] = ["mcp-inspector", "mcp-server-everything", "mcp-server-filesystem"];
const QUIETLY: [&str; 5] = ["install", "--silent", "--no-audit", "--no-fund", "--no-save"];

/// Returns the folder with the packages and installs them if needed, or `None` if that fails.
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
            println!("npm with {} is not available: tests with it are skipped", PACKAGES.join(" and "));
            None
        }
    }
}
