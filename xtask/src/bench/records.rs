//! Commands that read a large ledger: verification, query, replay and export.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Length;
use super::conversation::{BenchRequest, ask_many, micros};
use super::daemon::Home;
use super::results::{Bound, Results};
use crate::process;

const GROUP: &str = "a command that reads the ledger";
const RECORDS: usize = 1_000_000;
const ROUNDS: usize = 10;
/// Time without a change after which the index counts as filled.
const QUIET: Duration = Duration::from_secs(6);
/// Longest time in which the index is filled.
const INDEX_TIMEOUT: Duration = Duration::from_secs(300);

/// Records reads, and measures the commands on their records.
pub(crate) fn measure(binary: &Path, folder: &Path, length: Length, results: &mut Results) -> Result<()> {
    let home = Home::make(binary, &folder.join("records"))?;
    let records = if length == Length::Full { RECORDS } else { RECORDS / 10 };
    let daemon = home.start()?;
    ask_many(&mut daemon.connect()?, &BenchRequest::read(), (records, 64), &mut Vec::new())?;
    let stored = home.root().join("state/ledger");
    wait_for_index(&stored.join("index.sqlite"))?;
    daemon.end()?;
    let bytes = bytes_of(&stored)?;
    let policy = home.root().join("config/governance").display().to_string();
    let ledger = |words: &[&str]| run(&home, words);
    let verify = results.add(
        GROUP,
        &format!("ledger verify, {records} records"),
        vec![ledger(&["ledger", "verify"])?],
    );
    let replay = ledger(&["policy", "replay", "--against", &policy, "--since", "1d", "--json"])?;
    let replay = results.add(GROUP, &format!("policy replay, {records} records"), vec![replay]);
    let export = ledger(&["ledger", "export", "--format", "csv"])?;
    results.add(GROUP, &format!("ledger export as CSV, {records} records"), vec![export]);
    let query = || ledger(&["ledger", "query", "--tool", "read_file", "--limit", "20", "--raw"]);
    let queries = (0..length.of(ROUNDS)).map(|_| query()).collect::<Result<Vec<_>>>()?;
    let query = results.add(GROUP, &format!("ledger query for 20 of {records} records"), queries);
    results.claim("ledger verify", Some(bytes / verify), "MB/s", Bound::AtLeast(500.0));
    results.claim("policy replay", Some(records as f64 / replay * 1e6), "calls/s", Bound::AtLeast(200_000.0));
    results.claim(
        "ledger query, with the start of the program",
        Some(query / 1e3),
        "ms",
        Bound::AtMost(20.0),
    );
    Ok(())
}

/// Runs a command that must succeed, and returns its time in microseconds.
fn run(home: &Home, words: &[&str]) -> Result<f64> {
    let mut command = home.sinew(words);
    let began = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let took = micros(began.elapsed());
    ensure!(status.success(), "`{}` ended with {status}", process::shown(&command));
    Ok(took)
}

/// Waits until the index has not changed for [`QUIET`]: the daemon fills it when the ledger is idle.
fn wait_for_index(file: &Path) -> Result<()> {
    let began = Instant::now();
    while std::fs::metadata(file)
        .and_then(|file| file.modified())
        .is_ok_and(|at| at.elapsed().unwrap_or_default() < QUIET)
        || !file.exists()
    {
        ensure!(began.elapsed() < INDEX_TIMEOUT, "the index was not filled");
        std::thread::sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Size of the segments in a folder.
fn bytes_of(folder: &Path) -> Result<f64> {
    let segments = std::fs::read_dir(folder)?
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "ndjson"));
    segments.map(|entry| Ok(entry.metadata()?.len() as f64)).sum()
}
