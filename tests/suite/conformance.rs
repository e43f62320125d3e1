//! MCP conformance suite over `sinew mcp --http`, at three revisions, with the stable and the newest version of
//! the suite. `cargo xtask conformance` installs them; without them, these tests are left out.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tests::{Daemon, left_out};

use crate::manifests::content;
use crate::mcp::http::HttpBridge;

/// Variable with the folder of the installed versions.
const VARIABLE: &str = "SINEW_CONFORMANCE";
const NOT_APPLICABLE: &str = include_str!("../conformance-not-applicable.txt");

/// Installed version of the suite.
struct Conformance {
    node: PathBuf,
    program: PathBuf,
}

impl Conformance {
    fn find(version: &str) -> Option<Conformance> {
        let Some(folder) = std::env::var_os(VARIABLE).map(PathBuf::from) else {
            left_out("the MCP conformance suite is not installed: run `cargo xtask conformance`");
            return None;
        };
        let program =
            folder.join(version).join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        Some(Conformance { node: folder.join("node"), program })
    }

    /// Returns the server scenarios of a revision, or of all if it is empty.
    fn scenarios(&self, revision: &str) -> Vec<String> {
        let listed = Command::new(&self.node).arg(&self.program).arg("list").output().expect("a list");
        let listed = String::from_utf8(listed.stdout).expect("text");
        let servers = listed.split("Client scenarios").next().expect("server scenarios");
        let scenarios = servers.lines().filter_map(|line| line.strip_prefix("  - ")?.split_once(' '));
        let scenarios = scenarios.filter(|(_, revisions)| revisions.contains(revision));
        scenarios.map(|(name, _)| name.to_owned()).collect()
    }

    /// Runs a scenario and returns its failed checks, each with its message.
    fn run(&self, scenario: &str, revision: &str, port: u16) -> Vec<(String, String)> {
        let url = format!("http://localhost:{port}/mcp");
        let results = tempfile::tempdir().expect("a folder");
        let mut command = Command::new(&self.node);
        command.arg(&self.program).args(["server", "--url", &url, "--scenario", scenario]);
        command.args(["--spec-version", revision, "-o"]).arg(results.path());
        let ended = command.output().expect("the suite runs");
        let Some(checks) = find_checks(results.path()) else {
            let report = [ended.stdout, ended.stderr].concat();
            return vec![(scenario.to_owned(), String::from_utf8_lossy(&report).into_owned())];
        };
        let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
        let describe = |check: &Value| {
            let id = format!("{scenario}/{}", check["id"].as_str().unwrap_or_default());
            (id, format!("{} {}", check["errorMessage"], check["details"]))
        };
        failed.map(describe).collect()
    }
}

/// Reads the results of a scenario, which are in a folder of its own.
fn find_checks(results: &Path) -> Option<Vec<Value>> {
    let folders = std::fs::read_dir(results).ok()?.filter_map(Result::ok);
    let file = folders.map(|folder| folder.path().join("checks.json")).find(|file| file.exists())?;
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Process that is killed when dropped.
struct Proxy(Child);

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn not_applicable() -> BTreeMap<&'static str, &'static str> {
    let lines = NOT_APPLICABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(": ").expect("a scenario and a reason")).collect()
}

/// Runs every scenario that applies to a server with tools.
fn check(version: &str, revision: &str) {
    let Some(suite) = Conformance::find(version) else { return };
    let daemon = Daemon::start_in(content::home());
    let bridge = HttpBridge::start(daemon.home());
    let token = daemon.home().root().join("run/http.token");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/conformance_proxy.mjs");
    let mut proxy = Command::new(&suite.node);
    proxy.arg(script).arg(bridge.port.to_string()).arg(token).stdout(Stdio::piped());
    let mut proxy = Proxy(proxy.spawn().expect("the proxy starts"));
    let mut port = String::new();
    BufReader::new(proxy.0.stdout.take().expect("a pipe")).read_line(&mut port).expect("a port");
    let port = port.trim().parse().expect("a port");
    let skipped = not_applicable();
    let applicable: Vec<String> =
        suite.scenarios(revision).into_iter().filter(|name| !skipped.contains_key(name.as_str())).collect();
    assert!(applicable.len() >= 9, "{applicable:?}");
    let failed = applicable.iter().flat_map(|name| suite.run(name, revision, port));
    let failed: Vec<_> = failed.filter(|(check, _)| !skipped.contains_key(check.as_str())).collect();
    assert!(
        failed.is_empty(),
        "{} checks of {} scenarios fail:\n{failed:#?}",
        failed.len(),
        applicable.len()
    );
}

#[test]
fn stable_suite_passes_at_2025_06_18() {
    check("stable", "2025-06-18");
}

#[test]
fn stable_suite_passes_at_2025_11_25() {
    check("stable", "2025-11-25");
}

#[test]
fn newest_suite_passes_at_2025_06_18() {
    check("newest", "2025-06-18");
}

#[test]
fn newest_suite_passes_at_2025_11_25() {
    check("newest", "2025-11-25");
}

#[test]
fn newest_suite_passes_at_2026_07_28() {
    check("newest", "2026-07-28");
}

/// A scenario that the suite no longer has must not hide a new one of a similar name.
#[test]
fn list_of_what_does_not_apply_is_current() {
    let Some(suite) = Conformance::find("newest") else { return };
    let known = suite.scenarios("");
    for entry in not_applicable().keys() {
        let scenario = entry.split('/').next().expect("a scenario");
        assert!(known.iter().any(|name| name == scenario), "{scenario} is not a scenario");
    }
}
