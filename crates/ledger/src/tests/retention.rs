//! Rotation and retention: the chain continues across segments, and the remaining segments can be verified.

use std::{fs, time::Duration};

use jiff::Timestamp;
use tool::Mode;

use super::{all, assert_intact, open_with, segments, verify};
use crate::{
    LedgerEntry, LedgerError, LedgerOptions, OutcomeStatus, RecordFilter, RecordedEffect,
    entry::RemovalTotals,
    retention::{OpenSegmentSize, RetentionSurvey},
    samples,
};

fn small() -> LedgerOptions {
    LedgerOptions { segment_bytes: 8192, ..LedgerOptions::default() }
}

#[tokio::test]
async fn recovery_needs_only_the_last_of_many_segments() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &small());
    ledger.append(&samples::mode(Mode::Normal, Mode::Lockdown)).unwrap();
    let open = ledger.intend(samples::decision("slow_tool", RecordedEffect::Changes), ()).await.unwrap();
    for _ in 0..100 {
        let intent = ledger.intend(samples::decision("read_file", RecordedEffect::Reads), ()).await.unwrap();
        ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    }
    let call = open.call_id();
    let count = segments(folder.path()).len();
    assert!(count > 10, "{count}");
    let report = assert_intact(folder.path());
    assert_eq!((report.segments, report.first, report.head), (count as u64, 1, ledger.health().head));
    // As after a crash: only the folder is left, and only the last segment is read.
    let copy = tempfile::tempdir().unwrap();
    super::copy(folder.path(), copy.path());
    let (_again, recovery) = open_with(copy.path(), &small());
    assert!(recovery.crashed);
    assert_eq!(recovery.mode, Some(Mode::Lockdown));
    assert_eq!(recovery.interrupted.iter().map(|call| call.call_id).collect::<Vec<_>>(), [call]);
    let ran: u32 = recovery.executed.iter().flat_map(|ran| &ran.slots).map(|(_, count)| count).sum();
    assert_eq!(ran, 101, "rate windows survive, the interrupted call counts");
    let end = &all(copy.path()).pop().unwrap().entry;
    assert!(
        matches!(end, LedgerEntry::Outcome(end) if end.call.call_id == call && end.outcome.status == OutcomeStatus::Unknown)
    );
}

#[tokio::test]
async fn oldest_segments_are_removed_and_the_rest_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions { retain_bytes: Some(40_000), ..small() };
    let (ledger, _) = open_with(folder.path(), &options);
    ledger.append(&samples::mode(Mode::Normal, Mode::Alert)).unwrap();
    for n in 0..300 {
        ledger.append_durably(&samples::note(&format!("{n} {}", "x".repeat(200)))).await.unwrap();
    }
    ledger.close();
    let bytes: u64 = segments(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes < 60_000, "{bytes}");
    let report = assert_intact(folder.path());
    assert!(report.first > 100, "{}", report.first);
    assert!(report.notices.iter().any(|notice| notice.what.contains("removed by retention")));
    drop(ledger);
    let (ledger, recovery) = open_with(folder.path(), &options);
    assert_eq!(recovery.mode, Some(Mode::Alert), "what went is carried over");
    let found = ledger.query(&RecordFilter { kind: Some("note".into()), ..RecordFilter::default() }).unwrap();
    assert_eq!(found.last().map(|record| record.seq >= report.first), Some(true));
    drop(ledger);
    // Removal of segments by another process is reported.
    fs::remove_file(&segments(folder.path())[0]).unwrap();
    let report = verify(folder.path());
    assert!(
        report.problems.iter().any(|problem| problem.what.contains("earlier records are missing")),
        "{report:?}"
    );
}

#[test]
fn an_old_segment_that_never_fills_is_rotated() {
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions::default().with_retain_for(Duration::from_nanos(8));
    let (ledger, _) = open_with(folder.path(), &LedgerOptions::default());
    ledger.append(&samples::note("old")).unwrap();
    drop(ledger);
    // The first pass after opening checks for expired segments.
    let (ledger, _) = open_with(folder.path(), &options);
    while ledger.health().head < 5 {
        std::thread::yield_now();
    }
    ledger.close();
    let report = assert_intact(folder.path());
    assert!(report.first > 2, "the old records are gone: {report:?}");
    let found = ledger.query(&RecordFilter { kind: Some("note".into()), ..RecordFilter::default() }).unwrap();
    assert_eq!(found.len(), 0);
}

#[test]
fn segments_are_removed_by_age_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &small());
    for _ in 0..100 {
        ledger.append(&samples::note(&"x".repeat(200))).unwrap();
    }
    drop(ledger);
    let listed = crate::segment::list(folder.path()).unwrap();
    let open = OpenSegmentSize { first: listed.last().unwrap().first, length: 0 };
    let check = |keep_for: u64, later: i64, expect: usize| {
        let options = LedgerOptions { retain_for: Some(Duration::from_secs(keep_for)), ..small() };
        let now = Timestamp::now() + jiff::SignedDuration::from_secs(later);
        let plan = survey(folder.path(), open, &options, now).plan;
        assert_eq!(
            plan.map_or(0, |plan| plan.entry.segments),
            expect as u64,
            "{keep_for} s, {later} s later"
        );
    };
    check(3600, 0, 0);
    check(3600, 3000, 0);
    check(3600, 4000, listed.len() - 1);
    check(3600, -4000, 0);
}

fn survey(
    folder: &std::path::Path,
    open: OpenSegmentSize,
    options: &LedgerOptions,
    now: Timestamp,
) -> RetentionSurvey {
    crate::retention::survey(folder, open, options, RemovalTotals::default(), now).unwrap()
}

/// Returns options with small segments, a minimum age of an hour and this size limit.
fn aged(max_bytes: u64) -> LedgerOptions {
    let age = Duration::from_secs(3600);
    LedgerOptions {
        retain_bytes: Some(20_000),
        minimum_age: Some(age),
        max_bytes: Some(max_bytes),
        ..small()
    }
}

#[test]
fn young_records_stay_below_the_size_limit() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &aged(10_000_000));
    for _ in 0..500 {
        ledger.append(&samples::note(&"x".repeat(200))).unwrap();
    }
    drop(ledger);
    let report = assert_intact(folder.path());
    assert_eq!((report.first, report.removed), (1, RemovalTotals::default()));
    assert!(report.oldest.is_some_and(|oldest| oldest < Timestamp::now()));
    let listed = crate::segment::list(folder.path()).unwrap();
    let open = OpenSegmentSize { first: listed.last().unwrap().first, length: 0 };
    let later = Timestamp::now() + jiff::SignedDuration::from_secs(4000);
    let plan = survey(folder.path(), open, &aged(10_000_000), later).plan.expect("old enough by then");
    assert_eq!(plan.entry.under_pressure, 0);
}

#[tokio::test]
async fn removal_under_pressure_is_reported_permanently() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &aged(60_000));
    let pressure = ledger.watch_pressure();
    for _ in 0..600 {
        ledger.append_durably(&samples::note(&"x".repeat(200))).await.unwrap();
    }
    assert!(pressure.borrow().removed_segments > 0, "{pressure:?}");
    let removed = ledger.health().removed;
    assert!(removed.under_pressure > 5 && removed.last_under_pressure.is_some(), "{removed:?}");
    drop(ledger);
    let bytes: u64 = segments(folder.path()).iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert!(bytes < 80_000, "{bytes}");
    let report = assert_intact(folder.path());
    // The first retention entries were removed with their segments, but the totals remain.
    let entries = all(folder.path()).iter().filter(|record| record.entry.kind() == "retention").count();
    assert!(report.removed.under_pressure > entries as u64, "{entries} entries: {:?}", report.removed);
    assert!(report.first > 1 && report.notices.iter().any(|notice| notice.what.contains("under pressure")));
    let (ledger, _) = open_with(folder.path(), &aged(60_000));
    assert_eq!(ledger.health().removed, report.removed, "a restart remembers");
}

#[tokio::test]
async fn reads_cannot_displace_records_of_changes() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &aged(200_000));
    let change = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    ledger.conclude(&change, samples::outcome(OutcomeStatus::Done)).unwrap();
    let mut refused = 0;
    for _ in 0..1000 {
        match ledger.intend(samples::decision("read_file", RecordedEffect::Reads), ()).await {
            Ok(read) => drop(ledger.conclude(&read, samples::outcome(OutcomeStatus::Done)).unwrap()),
            Err(LedgerError::ReadsRefused { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        // The commit thread counts bytes; in tests it must keep up with the writes.
        ledger.append_durably(&samples::note("pace")).await.unwrap();
        if refused > 10 {
            break;
        }
    }
    assert!(refused > 10 && ledger.health().pressure.reads_refused, "a quarter is reserved");
    let change = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    ledger.conclude(&change, samples::outcome(OutcomeStatus::Done)).unwrap();
    drop(ledger);
    let report = assert_intact(folder.path());
    assert_eq!(
        (report.first, report.removed),
        (1, RemovalTotals::default()),
        "the first change is still there"
    );
}
