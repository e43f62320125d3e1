//! Full disk on a small tmpfs. It has to mount, so it runs only as root on Linux and prints a notice
//! elsewhere.

use std::{fs, path::Path, process::Command};

use super::{assert_intact, open_with};
use crate::{LedgerEntry, LedgerError, LedgerOptions, LedgerState, OutcomeStatus, RecordedEffect, samples};

struct TmpfsMount(tempfile::TempDir);

impl TmpfsMount {
    fn new(size: &str) -> Option<TmpfsMount> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={size},mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(TmpfsMount(folder))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Fills all remaining space.
fn fill(path: &Path) {
    let mut size = 1 << 20;
    let mut taken = Vec::new();
    while size >= 4096 {
        match fs::write(path.join(format!("ballast-{}", taken.len())), vec![0; size]) {
            Ok(()) => taken.push(size),
            Err(_) => {
                let _ = fs::remove_file(path.join(format!("ballast-{}", taken.len())));
                size /= 2;
            }
        }
    }
}

fn empty(path: &Path) {
    for file in fs::read_dir(path).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_string_lossy().starts_with("ballast-") {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

/// Returns the number of `Resumed` entries.
fn resumed(ledger: &crate::Ledger) -> usize {
    ledger
        .reader()
        .query(&crate::RecordFilter { kind: Some("resumed".into()), ..Default::default() })
        .unwrap()
        .len()
}

#[tokio::test]
async fn ledger_halts_on_a_full_disk_and_resumes_with_space() {
    let Some(disk) = TmpfsMount::new("1m") else {
        eprintln!("SKIPPED: cannot mount a tmpfs here (needs root on Linux)");
        return;
    };
    let folder = disk.path().join("ledger");
    let (ledger, _) = open_with(&folder, &LedgerOptions::default());
    for round in 1..=3 {
        let running =
            ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
        fill(disk.path());
        let mut written = 0;
        let reason = loop {
            match ledger.append(&samples::note(&"x".repeat(500))) {
                Ok(_) => written += 1,
                Err(LedgerError::Unavailable { reason }) => break reason,
                Err(other) => panic!("{other}"),
            }
            assert!(written < 100_000, "the disk is never full");
        };
        assert!(reason.contains("No space left"), "{reason}");
        assert!(matches!(ledger.health().state, LedgerState::Unavailable { .. }));
        // Risky calls are refused before they run, even after the ledger has tried to resume. The index on
        // the same disk may free some space; then there is space, and a call may use it.
        let mut refused = 0;
        for _ in 0..400 {
            fill(disk.path());
            match ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await {
                Ok(intent) => drop(ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done))),
                Err(_) => refused += 1,
            }
            if refused == 20 {
                break;
            }
        }
        assert_eq!(refused, 20, "a full disk lets risky work through");
        // The running call gets its outcome recorded in the reserved space, or as soon as there is space.
        let ended = ledger.conclude(&running, samples::outcome(OutcomeStatus::Done));
        assert!(ledger.health().deferred_records >= u64::from(ended.is_err()));
        assert_intact(&folder);

        empty(disk.path());
        let intent =
            ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
        ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
        ledger.append_durably(&samples::note("settled")).await.unwrap();
        assert_eq!(ledger.reader().call(running.call_id()).unwrap().len(), 2);
        let health = ledger.health();
        assert_eq!((health.state, health.lost_records, health.deferred_records), (LedgerState::Ready, 0, 0));
        assert!(health.rejected_entries >= 21 * round, "{}", health.rejected_entries);
        let report = assert_intact(&folder);
        let halts = resumed(&ledger);
        assert!(halts as u64 >= round, "each round halts the ledger");
        assert_eq!(report.notices.len(), halts, "{:?}", report.notices);
    }
    let words = ledger
        .reader()
        .query(&crate::RecordFilter { kind: Some("note".into()), ..Default::default() })
        .unwrap();
    let last_words = words
        .iter()
        .filter(|record| matches!(&record.entry, LedgerEntry::Note(note) if note.about == "ledger"));
    assert_eq!(last_words.count(), resumed(&ledger), "the record says itself why it stopped, each time");
}
