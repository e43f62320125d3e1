//! What the machine loses when it goes down is told apart from what somebody did.

use std::fs;

use super::{all, assert_intact, open, records, room::crashed, verify};
use crate::{Recovery, entry::MissingCause, key::Key};

/// What a start finds behind a hole.
struct Holed {
    folder: tempfile::TempDir,
    recovery: Recovery,
    /// What there was from the hole on.
    behind: Vec<u8>,
}

/// Pages that no sync had reached come back in no order when the machine goes down: a hole, and what is behind it.
fn with_a_hole(boot: &str, synced: u64, hole: fn(&mut [u8], &[usize])) -> Holed {
    let (folder, segment) = crashed(30);
    let mut bytes = fs::read(&segment).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    hole(&mut bytes, &ends);
    fs::write(&segment, bytes).unwrap();
    let behind = records(&segment)[ends[9] + 1..].to_vec();
    let key = Key::load(&folder.path().join("key")).unwrap();
    let anchor = crate::anchor::Anchor::read(&folder.path().join("anchor"), &key).unwrap();
    let anchor = crate::anchor::Anchor { boot: boot.into(), synced, ..anchor };
    fs::write(folder.path().join("anchor"), anchor.render(&key)).unwrap();
    let (ledger, recovery) = open(folder.path());
    drop(ledger);
    Holed { folder, recovery, behind }
}

fn in_the_middle(bytes: &mut [u8], ends: &[usize]) {
    bytes[ends[9] + 40..ends[14] + 60].fill(b'\t');
}

/// All that is left behind it is part of a line.
fn up_to_the_last_line(bytes: &mut [u8], ends: &[usize]) {
    bytes[ends[9] + 40..ends[29] + 60].fill(b'\t');
    bytes[ends[30] - 5..].fill(b'\t');
}

#[test]
fn a_hole_that_a_power_failure_left_is_not_somebodys_doing() {
    for hole in [in_the_middle, up_to_the_last_line] {
        let Holed { folder, recovery, behind } = with_a_hole("another", 10, hole);
        assert!(recovery.damage.is_empty(), "{recovery:?}");
        let missing = recovery.missing.unwrap();
        assert_eq!((missing.from, missing.to, missing.cause), (11, 31, MissingCause::PowerFailure));
        let saved = folder.path().join(recovery.torn[0].saved_as.as_ref().unwrap());
        assert!(fs::read(saved).unwrap() == behind, "nothing is thrown away");
        assert_intact(folder.path());
    }
}

#[test]
fn the_same_hole_without_a_power_failure_or_in_what_was_on_disk_is() {
    for (boot, synced) in [(&*crate::anchor::boot_id(), 10), ("another", 11)] {
        let Holed { folder, recovery, .. } = with_a_hole(boot, synced, in_the_middle);
        assert!(!recovery.damage.is_empty(), "{boot} {synced}: {recovery:?}");
        assert!(!verify(folder.path()).is_intact());
        assert_eq!(
            all(folder.path()).iter().filter(|record| record.seq == 31).count(),
            1,
            "it stays where it was"
        );
    }
}
