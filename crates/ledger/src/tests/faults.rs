//! Disk errors: a call whose decision cannot be recorded does not run, no line is torn, and the ledger
//! resumes by itself.

use std::{
    fs,
    sync::{Arc, atomic::Ordering},
};

use super::{
    all, assert_intact,
    faulty_disk::{EAGAIN, EINTR, EIO, ENOSPC, FaultyDisk, WriteFault},
    kinds, open_with, segments,
};
use crate::{LedgerEntry, LedgerError, LedgerOptions, LedgerState, OutcomeStatus, RecordedEffect, samples};

#[tokio::test]
async fn short_and_interrupted_writes_are_completed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    for count in 1..300 {
        let mut faults = vec![
            WriteFault::Short(count),
            WriteFault::Fails(EINTR),
            WriteFault::Short(1),
            WriteFault::Fails(EAGAIN),
        ];
        faults.truncate(1 + count % 4);
        disk.writes.lock().unwrap().extend(faults);
        ledger.append(&samples::note("x")).unwrap();
    }
    drop(ledger);
    assert_eq!(assert_intact(folder.path()).records, 300);
}

/// Asserts that a failed write is undone completely, rejected and counted, and that a new segment records the
/// reason.
async fn check_write_failure(faults: &[WriteFault], reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    let running = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    let length = fs::metadata(&segments(folder.path())[0]).unwrap().len();
    // The retry for the async caller must fail too, or the entry would not be rejected.
    disk.failing_creations.store(1, Ordering::SeqCst);
    disk.writes.lock().unwrap().extend(faults);
    let refused = ledger.append(&samples::note("lost?"));
    let Err(LedgerError::Unavailable { reason: reported }) = refused else { panic!("{refused:?}") };
    assert!(reported.contains(reason), "{reported}");
    assert!(fs::metadata(&segments(folder.path())[0]).unwrap().len() >= length, "no record was taken back");
    // The commit thread may have resumed by now; an async caller waits until it has tried.
    let intent = loop {
        match ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await {
            Ok(intent) => break intent,
            Err(error) => assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}"),
        }
    };
    ledger.conclude(&running, samples::outcome(OutcomeStatus::Done)).unwrap();
    ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    assert_eq!(ledger.health().state, LedgerState::Ready);
    assert_eq!(ledger.health().lost_records, 0);
    assert!(ledger.health().rejected_entries >= 1);
    drop((running, intent));
    drop(ledger);
    let notices = assert_intact(folder.path()).notices;
    assert!(
        !notices.iter().any(|notice| notice.what.contains("is incomplete")),
        "the torn line was left: {notices:?}"
    );
    let resumed = all(folder.path()).into_iter().find_map(|record| match record.entry {
        LedgerEntry::Resumed(resumed) => Some(resumed),
        _ => None,
    });
    let resumed = resumed.expect("the new segment says why there is one");
    assert!(resumed.reason.contains(reason) && resumed.rejected >= 1 && resumed.lost == 0, "{resumed:?}");
    assert!(!all(folder.path()).iter().any(|record| record.entry == samples::note("lost?")));
}

#[tokio::test]
async fn a_full_disk_rejects_entries_until_it_resumes() {
    check_write_failure(&[WriteFault::Short(100), WriteFault::Fails(ENOSPC)], "No space left").await;
    check_write_failure(&[WriteFault::Fails(ENOSPC)], "No space left").await;
}

#[tokio::test]
async fn a_failing_disk_rejects_entries_until_it_resumes() {
    check_write_failure(&[WriteFault::Short(100), WriteFault::Fails(EIO)], "Input/output error").await;
}

#[tokio::test]
async fn a_partial_line_that_cannot_be_cut_is_declared() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    disk.failing_cuts.store(1, Ordering::SeqCst);
    disk.writes.lock().unwrap().extend([WriteFault::Short(50), WriteFault::Fails(ENOSPC)]);
    ledger.append(&samples::note("torn")).unwrap_err();
    ledger.append_durably(&samples::note("after")).await.unwrap();
    drop(ledger);
    let report = assert_intact(folder.path());
    assert!(
        report.notices.iter().any(|notice| notice.line == Some(2) && notice.what.contains("is incomplete")),
        "{report:?}"
    );
}

#[tokio::test]
async fn the_first_failed_sync_is_final_for_its_segment() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    let mut states = ledger.watch();
    disk.failing_syncs.store(1, Ordering::SeqCst);
    let decision = samples::decision("write_file", RecordedEffect::Changes);
    let refused = ledger.intend(decision.clone(), ()).await;
    let Err(LedgerError::Unavailable { reason }) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("cannot make segment-000000000001.ndjson durable"), "{reason}");
    // Subscribers are notified; by now the state may have changed again.
    let reported = tokio::time::timeout(std::time::Duration::from_secs(10), states.changed()).await;
    assert!(reported.is_ok(), "the halt was not told");

    let first = segments(folder.path())[0].clone();
    let length = fs::metadata(&first).unwrap().len();
    let intent = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    assert_eq!(segments(folder.path()).len(), 2, "a new segment exists");
    assert_eq!(fs::metadata(&first).unwrap().len(), length, "the old one is never written again");
    assert_eq!(ledger.health().lost_records, 0);
    ledger.close();
    // The call whose decision was written but not durable never ran, and the ledger records that.
    let ends = ledger.reader().call(decision.call.call_id).unwrap();
    let LedgerEntry::Outcome(end) = &ends[1].entry else { panic!("{ends:?}") };
    assert_eq!((ends.len(), end.outcome.status), (2, OutcomeStatus::NotStarted));
    drop(ledger);
    assert_intact(folder.path());
}

#[tokio::test]
async fn nothing_is_accepted_until_a_segment_is_durable() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    let running = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    disk.failing_syncs.store(u32::MAX, Ordering::SeqCst);
    for _ in 0..5 {
        for effect in [RecordedEffect::Changes, RecordedEffect::Reads] {
            ledger.intend(samples::decision("write_file", effect), ()).await.unwrap_err();
        }
    }
    assert!(matches!(ledger.health().state, LedgerState::Unavailable { .. }));
    // The call that ran has an outcome; it is kept in memory until it can be recorded.
    ledger.conclude(&running, samples::outcome(OutcomeStatus::Done)).unwrap_err();
    assert!(ledger.health().deferred_records >= 1);
    let again = ledger.conclude(&running, samples::outcome(OutcomeStatus::Done));
    assert!(matches!(again, Err(LedgerError::AlreadyConcluded(_))));
    // The writer creates a segment for each attempt to resume, and removes it when its sync fails.
    let begun = std::time::Instant::now();
    while segments(folder.path()).len() > 1 {
        assert!(begun.elapsed().as_secs() < 10, "a half-made segment is left behind");
        std::thread::yield_now();
    }

    disk.failing_syncs.store(0, Ordering::SeqCst);
    ledger.append_durably(&samples::note("again")).await.unwrap();
    ledger.close();
    let ends = ledger.reader().call(running.call_id()).unwrap();
    assert_eq!(ends.len(), 2);
    assert!(matches!(&ends[1].entry, LedgerEntry::Outcome(end) if end.outcome.status == OutcomeStatus::Done));
    assert_eq!(ledger.health().lost_records, 0);
    drop(running);
    drop(ledger);
    assert_intact(folder.path());
    let decisions = kinds(folder.path()).iter().filter(|kind| **kind == "decision").count();
    assert!(decisions <= 2, "the refused calls are not in the record as permitted: {decisions}");
}

#[tokio::test]
async fn a_halted_segment_is_not_written_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    disk.failing_syncs.store(u32::MAX, Ordering::SeqCst);
    ledger.append_durably(&samples::note("x")).await.unwrap_err();
    drop(ledger);
    disk.failing_syncs.store(0, Ordering::SeqCst);
    let (ledger, recovery) = disk.open(folder.path(), &LedgerOptions::default());
    assert!(recovery.crashed, "it could not be closed in good order");
    assert_eq!(segments(folder.path()).len(), 2);
    drop(ledger);
    assert_intact(folder.path());
}

/// Asserts that a change of the open segment is detected before the next durable record is acknowledged.
async fn check_tampering(tamper: impl FnOnce(&std::path::Path), reason: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &LedgerOptions::default());
    for _ in 0..5 {
        ledger.append_durably(&samples::note("x")).await.unwrap();
    }
    tamper(&segments(folder.path())[0]);
    let refused = ledger.append_durably(&samples::note("y")).await;
    assert!(
        matches!(&refused, Err(LedgerError::Unavailable { reason: reported }) if reported.contains(reason)),
        "{refused:?}"
    );
    ledger.append_durably(&samples::note("z")).await.unwrap();
    assert!(ledger.health().lost_records > 0);
    drop(ledger);
    let report = super::verify(folder.path());
    assert!(report.problems.iter().any(|problem| problem.what.contains(reason)), "{report:#?}");
}

#[tokio::test]
async fn bytes_of_another_process_halt_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &LedgerOptions::default());
    ledger.append_durably(&samples::note("x")).await.unwrap();
    let mut file = fs::OpenOptions::new().append(true).open(&segments(folder.path())[0]).unwrap();
    std::io::Write::write_all(&mut file, b"foreign\n").unwrap();
    let refused = ledger.append_durably(&samples::note("y")).await.unwrap_err();
    assert!(refused.to_string().contains("another process changed it"), "{refused}");
    drop(ledger);
    let report = super::verify(folder.path());
    assert!(
        report.notices.iter().any(|notice| notice.what.contains("another process changed it")),
        "{report:#?}"
    );
}

#[tokio::test]
async fn tampering_with_the_open_segment_is_detected() {
    check_tampering(
        |path| {
            let length = fs::metadata(path).unwrap().len();
            fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length - 900).unwrap();
        },
        "another process changed it",
    )
    .await;
    check_tampering(|path| fs::remove_file(path).unwrap(), "missing from its folder").await;
    check_tampering(
        |path| {
            fs::rename(path, path.with_extension("old")).unwrap();
            fs::rename(path.with_extension("old"), path.parent().unwrap().join("old")).unwrap();
            std::os::unix::fs::symlink("/dev/null", path).unwrap();
        },
        "replaced by another file",
    )
    .await;
}

#[tokio::test]
async fn a_segment_keeps_growing_when_rotation_fails() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let options = LedgerOptions { segment_bytes: 4096, ..LedgerOptions::default() };
    let (ledger, _) = disk.open(folder.path(), &options);
    disk.failing_creations.store(3, Ordering::SeqCst);
    for _ in 0..60 {
        ledger.append(&samples::note("x")).unwrap();
    }
    drop(ledger);
    let sizes: Vec<u64> =
        segments(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).collect();
    assert!(sizes[0] > 4700 && sizes.len() > 2, "{sizes:?}");
    assert_intact(folder.path());
}

#[tokio::test]
async fn many_waiting_calls_share_few_syncs() {
    const CALLS: u64 = 400;
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    let (head, syncs) = (ledger.health().head, ledger.health().syncs);
    disk.hold_syncs();
    let calls: Vec<_> = (0..CALLS)
        .map(|_| {
            let ledger = Arc::clone(&ledger);
            tokio::spawn(async move {
                ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap()
            })
        })
        .collect();
    while ledger.health().head < head + CALLS {
        tokio::task::yield_now().await;
    }
    assert!(calls.iter().all(|call| !call.is_finished()), "nothing is acknowledged before it is durable");
    disk.release_syncs();
    let mut intents = Vec::new();
    for call in calls {
        let intent = call.await.unwrap();
        assert!(Some(ledger.health().synced) >= intent.receipt().unwrap().seq());
        intents.push(intent);
    }
    // Checked before the outcomes are written, because those are synced every second for as long as this
    // takes.
    let spent = ledger.health().syncs - syncs;
    assert!(spent <= 4, "{spent} syncs for {CALLS} calls");
    for intent in intents {
        ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    }
}
