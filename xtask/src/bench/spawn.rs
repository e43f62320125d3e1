//! Cost of running a program that does nothing: unconfined, in Sinew's sandbox, and in other sandboxes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::Length;
use super::peers::Installed;
use super::results::{Bound, RATIO, Results};
use crate::process;
use crate::project;
use crate::tree::Root;

pub(crate) const GROUP: &str = "sandboxed start of a program that does nothing";
const ROUNDS: usize = 200;
const CODEX: &str = "codex sandbox";
const SRT: &str = "srt";
/// Rows of the example, each with its displayed name.
const NAMES: [(&str, &str); 4] = [
    ("plain", PLAIN),
    ("confined, full", FULL),
    ("confined, reduced", REDUCED),
    ("bwrap --ro-bind / / --unshare-all", BUBBLEWRAP),
];
const PLAIN: &str = "plain start, no sandbox";
const FULL: &str = "Sinew, full sandbox";
const REDUCED: &str = "Sinew, reduced sandbox";
const BUBBLEWRAP: &str = "bubblewrap, --ro-bind / / --unshare-all";
/// Settings for `srt` with every list empty, which allow no network and no writes.
const SRT_SETTINGS: &str = r#"{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":[],"allowWrite":[],"denyWrite":[]}}"#;

pub(crate) fn measure(
    root: &Root,
    folder: &Path,
    (peers, length): (&Installed, Length),
    results: &mut Results,
) -> Result<()> {
    let mut command = Command::new(project::build_measure(root, "sandbox")?);
    command.args(["--raw", "--rounds", &length.of(ROUNDS).to_string()]);
    command.args(beside(peers, folder)?);
    if let Some(debian) = &peers.debian {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:{}", debian.join("usr/bin").display()));
    }
    let written = process::capture(&mut command)?;
    for (name, times) in rows(&written)? {
        let shown = NAMES.iter().find(|(row, _)| *row == name).map_or(name, |(_, shown)| shown);
        match times.is_empty() {
            true => results.absent.push(format!("{shown}: it cannot be run here")),
            false => drop(results.add(GROUP, shown, times)),
        }
    }
    state(results);
    Ok(())
}

/// Commands of the other sandboxes, run through `env`, because each needs variables of its own.
fn beside(peers: &Installed, folder: &Path) -> Result<Vec<String>> {
    let Some(node) = &peers.node else { return Ok(Vec::new()) };
    // Codex installs programs into its home, and refuses a home that every user can write to.
    let home = node.join("home");
    std::fs::create_dir_all(&home)?;
    let settings = folder.join("srt.json");
    std::fs::write(&settings, SRT_SETTINGS)?;
    let mut lines = Vec::new();
    for (name, arguments) in
        [(CODEX, "sandbox -- /bin/true".to_owned()), (SRT, format!("-s {} /bin/true", settings.display()))]
    {
        let program = if name == SRT { "srt" } else { "codex" };
        let command = peers.node_program(program).context("no node")?;
        let variables = command
            .get_envs()
            .filter_map(|(name, value)| Some(format!("{}={}", name.to_str()?, value?.to_str()?)));
        let variables: Vec<String> = variables.chain([format!("HOME={}", home.display())]).collect();
        let program = command.get_program().to_string_lossy().into_owned();
        lines.push(format!("{name}=env {} {program} {arguments}", variables.join(" ")));
    }
    Ok(lines)
}

/// Parses lines of a name and its times in microseconds.
fn rows(written: &str) -> Result<Vec<(&str, Vec<f64>)>> {
    let row = |line| {
        let (name, times) = str::split_once(line, '\t').with_context(|| format!("no row: `{line}`"))?;
        let times: Result<Vec<f64>, _> = times.split_whitespace().map(str::parse).collect();
        Ok((name, times.with_context(|| format!("no times: `{line}`"))?))
    };
    written.lines().map(row).collect()
}

fn state(results: &mut Results) {
    let to = |results: &Results, name: &str| results.ratio(GROUP, FULL, name);
    let faster = |results: &Results, name: &str| results.ratio(GROUP, name, FULL);
    let (plain, wrapped) = (to(results, PLAIN), to(results, BUBBLEWRAP));
    let reduced = results.ratio(GROUP, REDUCED, PLAIN);
    let (codex, srt) = (faster(results, CODEX), faster(results, SRT));
    results.claim("sandboxed to plain start, p50", plain, RATIO, Bound::AtMost(3.0));
    results.claim("sandboxed to bubblewrap, p50", wrapped, RATIO, Bound::AtMost(0.5));
    results.claim("sandboxed, reduced tier, to plain start, p50", reduced, RATIO, Bound::AtMost(2.0));
    results.claim("sandboxed: faster than codex sandbox", codex, RATIO, Bound::AtLeast(20.0));
    results.claim("sandboxed: faster than srt", srt, RATIO, Bound::AtLeast(20.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_names_and_times() {
        let found = rows("plain\t100 200\nsrt\t\n").unwrap();
        assert_eq!(found, [("plain", vec![100.0, 200.0]), ("srt", vec![])]);
        assert!(rows("no tab").is_err());
        assert!(rows("plain\tsoon").is_err());
    }
}
