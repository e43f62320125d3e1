//! Tests of the whole ledger on real files.

mod crash;
mod deferred_records;
mod fault_sweep;
mod faults;
mod faulty_disk;
mod full_disk;
mod power_failure;
mod raw_records;
mod reading;
mod retention;
mod tamper;
mod writing;

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Ledger, LedgerOptions, LedgerRecord, LedgerRecovery, VerifyReport};

fn open(folder: &Path) -> (Arc<Ledger>, LedgerRecovery) {
    open_with(folder, &LedgerOptions::default())
}

fn open_with(folder: &Path, options: &LedgerOptions) -> (Arc<Ledger>, LedgerRecovery) {
    Ledger::open(folder, options).unwrap()
}

fn verify(folder: &Path) -> VerifyReport {
    crate::verify(folder, &LedgerOptions::default()).unwrap()
}

fn assert_intact(folder: &Path) -> VerifyReport {
    let report = verify(folder);
    assert!(report.is_intact(), "{:#?}", report.problems);
    report
}

/// Returns the paths of the segments in order.
fn segments(folder: &Path) -> Vec<PathBuf> {
    crate::segment::list(folder).unwrap().into_iter().map(|segment| segment.path).collect()
}

/// Copies a ledger in use, as a crash would leave it. A temporary file that the ledger removes meanwhile is
/// skipped.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        match fs::copy(file.path(), to.join(file.file_name())) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => drop(copied.unwrap()),
        }
    }
}

fn all(folder: &Path) -> Vec<LedgerRecord> {
    crate::LedgerReader::new(folder).tail(usize::MAX).unwrap()
}

fn kinds(folder: &Path) -> Vec<&'static str> {
    all(folder).iter().map(|record| record.entry.kind()).collect()
}
