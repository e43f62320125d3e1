//! Changes of the padding by another process: nothing can be hidden in it, and every changed byte is
//! detected.

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

use super::{
    assert_intact, open, open_with, records,
    room::{crashed, length},
    segments, verify,
};
use crate::{Filter, Options, room::STEP, samples};

/// A missing, additional or changed byte of padding is reported with its position.
#[test]
fn every_changed_byte_of_padding_is_detected() {
    let (left, segment) = crashed(3);
    let whole = fs::read(&segment).unwrap();
    let written = records(&segment).len();
    let check = |content: &[u8], why: &str| {
        fs::write(&segment, content).unwrap();
        let problems = verify(left.path()).problems;
        assert_eq!(problems.first().and_then(|first| first.line), Some(5), "{why}: {problems:?}");
        assert_eq!(problems[0].offset, Some(written as u64), "{why}");
    };
    for place in [written, written + 1, whole.len() / 2, whole.len() - 1] {
        for byte in [b' ', b'\n', b'\0', b'x', b'{'] {
            let mut changed = whole.clone();
            changed[place] = byte;
            check(&changed, &format!("{byte:#x} at {place}"));
        }
    }
    for byte in [b'\t', b' ', b'\n', b'x'] {
        check(&[whole.as_slice(), &[byte]].concat(), "one more");
    }
    check(&[whole.as_slice(), &vec![b'\t'; STEP as usize]].concat(), "as much again");
    // Less padding is what a writer leaves that was killed while preallocating: a notice, not a problem.
    for less in [&whole[..whole.len() - 1], &whole[..written + 1]] {
        fs::write(&segment, less).unwrap();
        let notices = assert_intact(left.path()).notices;
        assert_eq!((notices.len(), notices[0].offset), (1, Some(written as u64)), "{notices:?}");
    }
}

/// A start records the removal of padding that no writer leaves.
#[test]
fn padding_of_an_unexpected_size_is_reported_as_torn() {
    let (too_much, segment) = crashed(3);
    let written = records(&segment).len() as u64;
    fs::write(&segment, [fs::read(&segment).unwrap(), vec![b'\t'; STEP as usize]].concat()).unwrap();
    let (closed, other) = crashed(3);
    drop(open(closed.path()));
    let ended = length(&other);
    fs::write(&other, [fs::read(&other).unwrap(), vec![b'\t'; 777]].concat()).unwrap();
    for (folder, expect) in [(&too_much, (written, 2 * STEP - written)), (&closed, (ended, 777))] {
        assert!(!verify(folder.path()).is_intact());
        let (ledger, recovery) = open(folder.path());
        let torn: Vec<_> = recovery.torn.iter().map(|torn| (torn.offset, torn.bytes)).collect();
        assert_eq!(torn, [expect]);
        drop(ledger);
        assert_eq!(assert_intact(folder.path()).notices.len(), 1);
    }
}

#[test]
fn padding_in_a_closed_ledger_is_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    ledger.append(&samples::note("x")).unwrap();
    drop(ledger);
    let segment = &segments(folder.path())[0];
    let whole = fs::read(segment).unwrap();
    fs::write(segment, [whole.clone(), vec![b'\t'; STEP as usize - whole.len()]].concat()).unwrap();
    let problems = verify(folder.path()).problems;
    assert!(problems[0].what.contains("blank bytes") && problems[0].line == Some(3), "{problems:?}");
}

/// Asserts that the writer detects changed padding before it acknowledges another durable record.
async fn check_meddling(meddle: impl Fn(&File), says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    ledger.append_durably(&samples::note("x")).await.unwrap();
    let segment = &segments(folder.path())[0];
    meddle(&fs::OpenOptions::new().write(true).open(segment).unwrap());
    let refused = ledger.append_durably(&samples::note("y")).await.unwrap_err();
    assert!(refused.to_string().contains(says), "{refused}");
    drop(ledger);
    let notices = verify(folder.path()).notices;
    assert!(notices.iter().any(|notice| notice.what.contains(says)), "it stays on record: {notices:?}");
}

#[tokio::test]
async fn foreign_change_of_padding_halts_the_ledger() {
    check_meddling(|file| file.set_len(STEP - 1).unwrap(), "somebody else changed it").await;
    check_meddling(|file| file.set_len(STEP + 1).unwrap(), "somebody else changed it").await;
    for place in [STEP / 2, STEP - 1] {
        check_meddling(|file| file.write_all_at(b" ", place).unwrap(), "somebody else wrote it").await;
    }
}

/// A line in the padding that has the form of a record is ignored by the daemon's reader and by the index.
#[tokio::test]
async fn a_forged_line_in_the_padding_is_not_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    ledger.append_durably(&samples::note("x")).await.unwrap();
    let segment = &segments(folder.path())[0];
    let line = String::from_utf8(records(segment)).unwrap().lines().last().unwrap().to_owned();
    let forged = format!("\n{}\n", line.replace("\"seq\":2,", "\"seq\":900000,"));
    let file = fs::OpenOptions::new().write(true).open(segment).unwrap();
    let place = STEP - forged.len() as u64;
    file.write_all_at(forged.as_bytes(), place).unwrap();
    assert!(crate::Reader::new(folder.path()).tail(1).unwrap()[0].seq == 900_000, "the form is a record's");
    assert_eq!(ledger.tail(1).unwrap()[0].seq, 2);
    let mut exported = Vec::new();
    assert_eq!(
        ledger.reader().export(&Filter::default(), crate::ExportFormat::Ndjson, &mut exported).unwrap(),
        2
    );
    let seen: Vec<_> = ledger.shared.segments().unwrap().iter().map(|segment| segment.written).collect();
    assert_eq!(seen, [Some(records_before(segment, place))], "what the index is filled from");
}

fn records_before(segment: &Path, place: u64) -> u64 {
    let bytes = &fs::read(segment).unwrap()[..place as usize];
    bytes.iter().rposition(|byte| *byte != b'\t').map_or(0, |last| last as u64 + 1)
}

/// Foreign bytes in the padding are also detected when the segment is full.
#[test]
fn a_segment_with_foreign_padding_is_not_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &Options { segment_bytes: 4096, ..Options::default() });
    ledger.append(&samples::note("x")).unwrap();
    let first = &segments(folder.path())[0];
    let file = fs::OpenOptions::new().write(true).open(first).unwrap();
    file.write_all_at(b"foreign", STEP - 7).unwrap();
    // The periodic sync may detect it first; then no more entries are accepted here.
    for _ in 0..60 {
        if ledger.append(&samples::note("x")).is_err() {
            break;
        }
    }
    assert!(fs::read(first).unwrap().ends_with(b"foreign"), "it stays for the sync to find");
    drop(ledger);
    assert!(fs::read(first).unwrap().ends_with(b"foreign"));
    let report = verify(folder.path());
    assert!(report.notices.iter().any(|notice| notice.what.contains("somebody else wrote it")), "{report:?}");
}
