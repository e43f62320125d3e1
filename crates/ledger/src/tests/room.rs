//! Preallocated padding: it is never read as a record and is removed when the segment ends. Changes of it by
//! other processes are tested in `foreign_room`.

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

/// Returns the folder that a crash leaves of a ledger with `notes` notes, and the path of its segment.
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
fn only_the_open_segment_has_padding() {
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
fn only_the_last_segment_has_padding() {
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

/// State after a power failure in which the truncation of earlier segments had not reached the disk.
#[test]
fn padding_of_earlier_segments_is_reported_and_removed() {
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
fn padding_after_a_crash_is_removed_without_a_report() {
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
fn only_the_unfinished_line_in_the_padding_is_torn() {
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

/// A segment that cannot be trusted is left unchanged with its padding, and its successor declares that.
#[tokio::test]
async fn an_abandoned_segment_keeps_its_padding() {
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
async fn a_full_segment_loses_its_padding_on_resume() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(Faulty::default());
    let (ledger, _) = disk.open(folder.path(), &Options::default());
    disk.writes.lock().unwrap().push_back(Write::Fails(ENOSPC));
    ledger.append(&samples::note("no room")).unwrap_err();
    ledger.append_durably(&samples::note("again")).await.unwrap();
    let files = segments(folder.path());
    assert_eq!(files.len(), 2);
    // The final records were written to it, and padding was preallocated after them.
    assert_eq!(length(&files[0]), records(&files[0]).len() as u64);
    assert_intact(folder.path());
}

/// Closing fails if the padding cannot be removed, so that the rest does not look like a closed ledger that
/// was changed.
#[tokio::test]
async fn a_ledger_that_keeps_its_padding_is_not_closed() {
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

/// A segment whose padding cannot be removed gets no successor yet.
#[test]
fn a_segment_that_keeps_its_padding_is_not_rotated() {
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

/// Failed preallocation is not an error: records are accepted as long as they can be written.
#[test]
fn records_are_accepted_without_preallocation() {
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
    // Partial padding that cannot be removed is overwritten by records.
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

/// A reader beside a writer sees complete, consecutive records up to some moment.
#[test]
fn a_concurrent_reader_sees_no_partial_record() {
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
