//! Room ahead of the records: nobody reads it as a record, nobody can hide anything in it, and it goes when the segment ends.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use super::{
    all, assert_intact, copy,
    faulty::{ENOSPC, Faulty},
    open, open_with, records, segments, verify,
};
use crate::{Filter, Options, Recovery, entry::MissingCause, key::Key, room::STEP, samples};

fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// What a crash leaves of a ledger with so many notes, and the path of its segment.
fn crashed(notes: usize) -> (tempfile::TempDir, std::path::PathBuf) {
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

#[test]
fn the_open_segment_has_room_and_a_closed_one_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    ledger.append(&samples::note("x")).unwrap();
    let segment = segments(folder.path())[0].clone();
    assert_eq!(length(&segment), STEP);
    for n in 0..1_000 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
        assert_eq!(ledger.tail(1).unwrap()[0].seq, ledger.health().head, "what is written is found");
    }
    assert!(records(&segment).len() as u64 > 3 * STEP);
    assert_eq!(length(&segment) % STEP, 0);
    assert_eq!(assert_intact(folder.path()).records, 1_002);
    let (mut exported, all) = (Vec::new(), Filter::default());
    ledger.reader().export(&all, crate::ExportFormat::Ndjson, &mut exported).unwrap();
    assert!(exported == records(&segment), "an export holds no room");
    drop(ledger);
    assert_eq!(length(&segment), records(&segment).len() as u64);
    assert_intact(folder.path());
}

#[test]
fn only_the_last_segment_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &Options { segment_bytes: 4096, ..Options::default() });
    for n in 0..60 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
    }
    let files = segments(folder.path());
    let (last, others) = files.split_last().unwrap();
    assert!(others.len() > 2 && length(last) == STEP);
    for other in others {
        assert_eq!(length(other), records(other).len() as u64, "{}", other.display());
    }
    assert_intact(folder.path());
    // As a power failure can leave it: the end of the one before had not reached the disk.
    let left = tempfile::tempdir().unwrap();
    copy(folder.path(), left.path());
    let before = segments(left.path())[others.len() - 1].clone();
    let whole = records(&before);
    fs::OpenOptions::new().write(true).open(&before).unwrap().set_len(STEP).unwrap();
    fs::write(&before, [whole.clone(), vec![b'\t'; STEP as usize - whole.len()]].concat()).unwrap();
    assert!(!verify(left.path()).is_intact(), "room in front of another segment is told");
    drop(open(left.path()));
    assert_eq!(fs::read(&before).unwrap(), whole);
    assert_intact(left.path());
}

#[test]
fn a_crash_leaves_room_and_the_next_start_takes_it_off_without_a_word() {
    let (left, segment) = crashed(5);
    let written = records(&segment);
    assert_eq!(length(&segment), STEP);
    assert_intact(left.path());
    let looked = crate::Ledger::look(left.path(), &Options::default()).unwrap();
    assert_eq!((looked.torn.len(), length(&segment)), (0, STEP), "a look changes nothing");
    let (ledger, recovery) = open(left.path());
    assert!(recovery.crashed && recovery.torn.is_empty() && recovery.damage.is_empty(), "{recovery:?}");
    assert!(records(&segment).starts_with(&written));
    drop(ledger);
    assert!(assert_intact(left.path()).notices.is_empty());
}

#[test]
fn a_line_that_was_begun_in_the_room_is_torn_and_the_room_is_not() {
    let (left, segment) = crashed(5);
    let written = records(&segment);
    let mut torn = fs::read(&segment).unwrap();
    torn[written.len()..written.len() + 10].copy_from_slice(b"{\"seq\":7,\"");
    fs::write(&segment, torn).unwrap();
    assert_eq!(verify(left.path()).problems.len(), 1);
    let (ledger, recovery) = open(left.path());
    let found: Vec<_> = recovery.torn.iter().map(|torn| (torn.offset, torn.bytes)).collect();
    assert_eq!(found, [(written.len() as u64, 10)]);
    drop(ledger);
    assert_intact(left.path());
}

/// One byte more or less of room, or another one in it, is found with its place.
#[test]
fn no_byte_of_the_room_can_be_changed_unseen() {
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
    check(&whole[..whole.len() - 1], "one less");
    check(&whole[..written + 1], "nearly all taken off");
}

#[test]
fn a_closed_ledger_has_none_at_all() {
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

/// Pages that no sync had reached come back in no order when the machine goes down: a hole, and records behind it.
fn with_a_hole(boot: &str, synced: u64) -> (tempfile::TempDir, Recovery) {
    let (left, segment) = crashed(30);
    let mut bytes = fs::read(&segment).unwrap();
    let ends: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect();
    bytes[ends[9] + 40..ends[14] + 60].fill(b'\t');
    fs::write(&segment, bytes).unwrap();
    let key = Key::load(&left.path().join("key")).unwrap();
    let anchor = crate::anchor::Anchor::read(&left.path().join("anchor"), &key).unwrap();
    let anchor = crate::anchor::Anchor { boot: boot.into(), synced, ..anchor };
    fs::write(left.path().join("anchor"), anchor.render(&key)).unwrap();
    let (ledger, recovery) = open(left.path());
    drop(ledger);
    (left, recovery)
}

#[test]
fn a_hole_that_a_power_failure_left_is_not_somebodys_doing() {
    let (left, recovery) = with_a_hole("another", 10);
    assert!(recovery.damage.is_empty(), "{recovery:?}");
    let missing = recovery.missing.unwrap();
    assert_eq!((missing.from, missing.to, missing.cause), (11, 31, MissingCause::PowerFailure));
    let saved = recovery.torn[0].saved_as.clone().unwrap();
    assert!(
        fs::read_to_string(left.path().join(saved)).unwrap().contains("\"seq\":31,"),
        "nothing is thrown away"
    );
    assert_intact(left.path());
}

#[test]
fn the_same_hole_without_a_power_failure_or_in_what_was_on_disk_is() {
    for (boot, synced) in [(&*crate::anchor::boot_id(), 10), ("another", 11)] {
        let (left, recovery) = with_a_hole(boot, synced);
        assert!(!recovery.damage.is_empty(), "{boot} {synced}: {recovery:?}");
        assert!(!verify(left.path()).is_intact());
        assert_eq!(
            all(left.path()).iter().filter(|record| record.seq == 31).count(),
            1,
            "it stays where it was"
        );
    }
}

/// No room is no failure: records are taken as long as they themselves find some.
#[test]
fn records_are_taken_where_no_room_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    disk.failing_rooms.store(u32::MAX, Ordering::SeqCst);
    disk.error.store(ENOSPC, Ordering::SeqCst);
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    for n in 0..5 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
        let segment = &segments(folder.path())[0];
        assert_eq!(length(segment), records(segment).len() as u64, "none, not half of it");
    }
    assert_intact(folder.path());
    disk.failing_rooms.store(0, Ordering::SeqCst);
    ledger.append(&samples::note("room again")).unwrap();
    assert_eq!(length(&segments(folder.path())[0]), STEP);
}

/// Who reads beside a writer sees whole records, one after the other, up to some moment.
#[test]
fn a_reader_beside_a_writer_sees_no_half_record() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..4_000 {
                ledger.append(&samples::note(&format!("{n} {}", "x".repeat(n % 900)))).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let reader = crate::Reader::new(folder.path());
        while !done.load(Ordering::Acquire) {
            let mut text = Vec::new();
            reader.export(&Filter::default(), crate::ExportFormat::Ndjson, &mut text).unwrap();
            let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
            for (line, seq) in lines.iter().zip(1..) {
                assert_eq!(crate::line::number(line), Some(seq), "{}", String::from_utf8_lossy(line));
            }
            let tail: Vec<u64> = reader.tail(50).unwrap().iter().map(|record| record.seq).collect();
            assert!(tail.windows(2).all(|pair| pair[1] == pair[0] + 1), "{tail:?}");
        }
    });
    assert_eq!(assert_intact(folder.path()).records, 4_001);
}
