//! Room ahead of the records: nobody reads it as a record, and it goes when the segment ends. What others do to it is in
//! `foreign_room`.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use super::{
    assert_intact, copy,
    faulty::{ENOSPC, Faulty, Write},
    open, open_with, records, segments, verify,
};
use crate::{Filter, Options, key::Key, room::STEP, samples};

pub(super) fn length(path: &Path) -> u64 {
    fs::metadata(path).unwrap().len()
}

/// What a crash leaves of a ledger with so many notes, and the path of its segment.
pub(super) fn crashed(notes: usize) -> (tempfile::TempDir, std::path::PathBuf) {
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
    let written = records(&segment).len() as u64;
    assert!(written > 3 * STEP);
    assert_eq!(length(&segment), written.next_multiple_of(STEP));
    let bytes = fs::read(&segment).unwrap();
    let values = serde_json::Deserializer::from_slice(&bytes).into_iter::<serde_json::Value>();
    assert_eq!(values.map(Result::unwrap).count(), 1_002, "whoever reads JSON reads an open segment");
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
}

/// As a power failure can leave it: the ends of those before had not reached the disk.
#[test]
fn room_in_front_of_another_segment_is_told_and_goes_with_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &Options { segment_bytes: 4096, ..Options::default() });
    for n in 0..60 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
    }
    let left = tempfile::tempdir().unwrap();
    copy(folder.path(), left.path());
    let files = segments(left.path());
    let before: Vec<_> = files[1..files.len() - 1].iter().map(|path| (path, records(path))).collect();
    assert!(before.len() > 1);
    for (path, whole) in &before {
        fs::write(path, [whole.clone(), vec![b'\t'; STEP as usize - whole.len()]].concat()).unwrap();
    }
    let problems = verify(left.path()).problems;
    assert_eq!(problems.len(), before.len(), "{problems:?}");
    drop(open(left.path()));
    for (path, whole) in before {
        assert!(fs::read(path).unwrap() == whole, "{}", path.display());
    }
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

/// A segment that could not be trusted is left as it is, room and all, and what follows it says so.
#[tokio::test]
async fn a_segment_that_had_to_be_left_keeps_its_room() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    ledger.append(&samples::note("x")).unwrap();
    disk.failing_syncs.store(1, Ordering::SeqCst);
    ledger.append_durably(&samples::note("not durable")).await.unwrap_err();
    ledger.append_durably(&samples::note("in the next one")).await.unwrap();
    let files = segments(folder.path());
    assert_eq!((files.len(), length(&files[0])), (2, STEP));
    let report = assert_intact(folder.path());
    assert_eq!(report.notices.len(), 1, "{:?}", report.notices);
    drop(ledger);
    assert_eq!(assert_intact(folder.path()).notices.len(), 1);
    assert_eq!((length(&files[0]), length(&files[1])), (STEP, records(&files[1]).len() as u64));
    drop(open(folder.path()));
    assert_eq!(length(&files[0]), records(&files[0]).len() as u64, "the next start takes it off");
    assert_eq!(assert_intact(folder.path()).notices.len(), 1);
}

#[tokio::test]
async fn a_segment_that_was_full_has_no_room_once_there_is_another() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    disk.writes.lock().unwrap().push_back(Write::Fails(ENOSPC));
    ledger.append(&samples::note("no room")).unwrap_err();
    ledger.append_durably(&samples::note("again")).await.unwrap();
    let files = segments(folder.path());
    assert_eq!(files.len(), 2);
    // The last words went into it, and room was made behind them.
    assert_eq!(length(&files[0]), records(&files[0]).len() as u64);
    assert_intact(folder.path());
}

/// A close that could not take the room off is none: nobody takes what is left for a closed ledger that was changed.
#[tokio::test]
async fn a_ledger_whose_room_stayed_was_not_closed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    ledger.append_durably(&samples::note("x")).await.unwrap();
    disk.failing_cuts.store(1, Ordering::SeqCst);
    drop(ledger);
    assert_eq!(length(&segments(folder.path())[0]), STEP);
    assert_intact(folder.path());
    let (ledger, recovery) = open(folder.path());
    assert!(recovery.crashed && recovery.torn.is_empty(), "{recovery:?}");
    drop(ledger);
    assert_intact(folder.path());
}

/// A segment whose room cannot be taken off is not followed by another yet.
#[test]
fn a_segment_that_keeps_its_room_grows_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    let (ledger, _) = disk.open(folder.path(), &Options { segment_bytes: 4096, ..Options::default() });
    disk.failing_cuts.store(1, Ordering::SeqCst);
    let first = &segments(folder.path())[0];
    while disk.failing_cuts.load(Ordering::SeqCst) > 0 {
        ledger.append(&samples::note("x")).unwrap();
    }
    assert_eq!(segments(folder.path()).len(), 1);
    while segments(folder.path()).len() == 1 {
        ledger.append(&samples::note("x")).unwrap();
    }
    assert_eq!(length(first), records(first).len() as u64);
    assert_intact(folder.path());
}

/// No room is no failure: records are taken as long as they themselves find some.
#[test]
fn records_are_taken_where_no_room_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    disk.failing_rooms.store(u32::MAX, Ordering::SeqCst);
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    for n in 0..5 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
        let segment = &segments(folder.path())[0];
        assert_eq!(length(segment), records(segment).len() as u64, "none, not half of it");
    }
    assert_intact(folder.path());
    // Half of it that cannot be taken off is written into.
    disk.failing_cuts.store(1, Ordering::SeqCst);
    ledger.append(&samples::note("half")).unwrap();
    let segment = &segments(folder.path())[0];
    let half = length(segment);
    assert!(half > records(segment).len() as u64 && half < STEP, "{half}");
    for _ in 0..200 {
        ledger.append(&samples::note(&"x".repeat(900))).unwrap();
    }
    assert_eq!(length(segment), records(segment).len() as u64);
    disk.failing_rooms.store(0, Ordering::SeqCst);
    ledger.append(&samples::note("room again")).unwrap();
    assert_eq!(length(segment) % STEP, 0);
    assert_intact(folder.path());
}

/// Who reads beside a writer sees whole records, one after the other, up to some moment.
#[test]
fn a_reader_beside_a_writer_sees_no_half_record() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let key = Key::load(&folder.path().join("key")).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..4_000 {
                ledger.append(&samples::note(&format!("{n} {}", "x".repeat(n % 900)))).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let reader = crate::Reader::new(folder.path());
        loop {
            let (over, head) = (done.load(Ordering::Acquire), ledger.health().head);
            let mut text = Vec::new();
            reader.export(&Filter::default(), crate::ExportFormat::Ndjson, &mut text).unwrap();
            let mut last = 0;
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let parts = crate::line::parts(line).filter(|parts| parts.is_authentic(&key));
                assert_eq!(parts.map(|parts| parts.seq), Some(last + 1), "{}", String::from_utf8_lossy(line));
                last += 1;
            }
            let tail: Vec<u64> = reader.tail(50).unwrap().iter().map(|record| record.seq).collect();
            assert!(tail.windows(2).all(|pair| pair[1] == pair[0] + 1), "{tail:?}");
            assert!(last >= head && tail.last() >= Some(&head), "what was written is there: {head}, {last}");
            if over {
                break;
            }
        }
    });
    assert_eq!(assert_intact(folder.path()).records, 4_001);
}
