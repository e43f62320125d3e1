//! Checks of the folders, the disk, the clock, and other copies of this program.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::row::Row;
use crate::compose;
use crate::setting::Setting;

/// Disk usage from which the disk of the ledger counts as full.
const FULL_PERCENT: f64 = 97.0;
/// Tolerated difference between file times and the clock: file systems round, and time synchronisation steps
/// the clock by seconds.
const SMALL_LEAP: Duration = Duration::from_secs(60);

pub(super) fn rows(setting: &Setting) -> Vec<Row> {
    let home = setting.home();
    let mut rows: Vec<Row> = [("config", home.config()), ("tools", home.tools())]
        .map(|(name, path)| folder(name, path, |_| Ok(())))
        .into();
    let private = [("state", home.state()), ("log", home.log()), ("run", home.run())];
    rows.extend(private.map(|(name, path)| folder(name, path, server::check_private)));
    rows.push(disk(home.state()));
    rows.push(clock(&compose::ledger_folder(setting)));
    rows.push(copies());
    rows
}

fn folder(name: &str, path: &Path, check: impl Fn(&Path) -> Result<(), server::ServeError>) -> Row {
    let shown = path.display().to_string();
    if !path.exists() {
        return Row::note("folders", name, format!("{shown} (not created yet)"));
    }
    match check(path) {
        Ok(()) => Row::good("folders", name, shown),
        Err(error) => {
            let row = Row::bad("folders", name, error.to_string());
            match error.hint() {
                Some(hint) => row.remedy(hint),
                None => row,
            }
        }
    }
}

fn disk(state: &Path) -> Row {
    let there = state.ancestors().find(|folder| folder.exists()).unwrap_or(Path::new("/"));
    match system_metrics::used_percent(there) {
        Some(used) if used < FULL_PERCENT => {
            Row::good("machine", "disk of the ledger", format!("{used:.0} % used"))
        }
        Some(used) => Row::bad("machine", "disk of the ledger", format!("{used:.0} % used"))
            .remedy("free some space: no call runs without a ledger record"),
        None => Row::note("machine", "disk of the ledger", "its usage cannot be read"),
    }
}

/// Checks that the newest ledger file is not in the future.
fn clock(ledger: &Path) -> Row {
    let newest = std::fs::read_dir(ledger).into_iter().flatten().flatten();
    let newest = newest.filter_map(|entry| entry.metadata().ok()?.modified().ok()).max();
    match newest.and_then(|newest| newest.duration_since(SystemTime::now()).ok()) {
        Some(ahead) if ahead > SMALL_LEAP => {
            Row::bad("machine", "clock", format!("the last record is {} s in the future", ahead.as_secs()))
                .remedy("set the clock: limits and expiries depend on it")
        }
        _ => Row::good("machine", "clock", "not before the last record"),
    }
}

/// Reports other copies of this program in PATH, which a script might start instead.
fn copies() -> Row {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found: Vec<PathBuf> =
        std::env::split_paths(&path).filter_map(|folder| folder.join("sinew").canonicalize().ok()).collect();
    found.extend(std::env::current_exe().and_then(|this| this.canonicalize()));
    found.sort();
    found.dedup();
    let listed = found.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    match found.len() {
        0 | 1 => Row::good("machine", "one copy of sinew", listed),
        _ => Row::note("machine", "copies of sinew", listed)
            .remedy("keep one, or use the full path of the one you want"),
    }
}
