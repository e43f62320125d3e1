//! Distinguishes records lost in a power failure from records that were tampered with.

use std::{fs, path::PathBuf};

use super::{all, assert_intact, copy, open, segments, verify};
use crate::{LedgerRecovery, entry::MissingCause, key::LedgerKey, samples};

/// Returns the folder that a crash leaves of a ledger with `notes` notes, and the path of its segment.
fn crashed(notes: usize) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    for n in 0..notes {
        ledger.append(&samples::note(&n.to_string())).unwrap();
    }
    let left = tempfile::tempdir().unwrap();
    copy(folder.path(), left.path());
    let segment = segments(left.path())[0].clone();
    (left, segment)
}

/// State after recovery from a damaged range.
struct DamagedLedger {
    folder: tempfile::TempDir,
    recovery: LedgerRecovery,
    /// Bytes of the file from the damaged range on.
    behind: Vec<u8>,
}

/// Recovers a ledger with a damaged range, as a power failure leaves it: unsynced pages reach the disk in no
/// particular order.
fn recover_damaged(boot: &str, synced: u64, hole: fn(&mut Vec<u8>, &[usize])) -> DamagedLedger {
    let (folder, segment) = crashed(30);
    let mut bytes = fs::read(&segment).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    hole(&mut bytes, &ends);
    let behind = bytes[ends[9] + 1..].to_vec();
    fs::write(&segment, bytes).unwrap();
    let key = LedgerKey::load(&folder.path().join("key")).unwrap();
    let anchor = crate::anchor::Anchor::read(&folder.path().join("anchor"), &key).unwrap();
    let anchor = crate::anchor::Anchor { boot: boot.into(), synced, ..anchor };
    fs::write(folder.path().join("anchor"), anchor.render(&key)).unwrap();
    let (ledger, recovery) = open(folder.path());
    drop(ledger);
    DamagedLedger { folder, recovery, behind }
}

#[allow(clippy::ptr_arg)] // both functions have one type
fn in_the_middle(bytes: &mut Vec<u8>, ends: &[usize]) {
    bytes[ends[9] + 40..ends[14] + 60].fill(0);
}

/// Leaves only part of a line after the damaged range.
fn up_to_the_last_line(bytes: &mut Vec<u8>, ends: &[usize]) {
    bytes[ends[9] + 40..ends[29] + 60].fill(0);
    bytes.truncate(ends[30] - 5);
}

#[test]
fn unsynced_damage_after_a_reboot_is_a_power_failure() {
    for hole in [in_the_middle, up_to_the_last_line] {
        let DamagedLedger { folder, recovery, behind } = recover_damaged("another", 10, hole);
        assert!(recovery.damage.is_empty(), "{recovery:?}");
        let missing = recovery.missing.unwrap();
        assert_eq!((missing.from, missing.to, missing.cause), (11, 31, MissingCause::PowerFailure));
        let saved = folder.path().join(recovery.torn[0].saved_as.as_ref().unwrap());
        assert!(fs::read(saved).unwrap() == behind, "nothing is thrown away");
        assert_intact(folder.path());
    }
}

#[test]
fn damage_of_synced_or_same_boot_records_is_reported() {
    for (boot, synced) in [(&*crate::anchor::boot_id(), 10), ("another", 11)] {
        let DamagedLedger { folder, recovery, .. } = recover_damaged(boot, synced, in_the_middle);
        assert!(!recovery.damage.is_empty(), "{boot} {synced}: {recovery:?}");
        assert!(!verify(folder.path()).is_intact());
        assert_eq!(
            all(folder.path()).iter().filter(|record| record.seq == 31).count(),
            1,
            "it stays where it was"
        );
    }
}
