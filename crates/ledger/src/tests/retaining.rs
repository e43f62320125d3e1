//! Rotation and retention: the chain crosses segments, and what is left can be verified.

use std::{fs, time::Duration};

use jiff::Timestamp;
use tool::Mode;

use super::{all, assert_intact, open_with, segments, verify};
use crate::{Effect, Entry, Filter, Options, Status, samples};

fn small() -> Options {
    Options { segment_bytes: 8192, ..Options::default() }
}

#[tokio::test]
async fn a_chain_across_segments_starts_from_the_last_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &small());
    ledger.append(&samples::mode(Mode::Normal, Mode::Lockdown)).unwrap();
    let open = ledger.intend(samples::decision("slow_tool", Effect::Changes), ()).await.unwrap();
    for _ in 0..100 {
        let intent = ledger.intend(samples::decision("read_file", Effect::Reads), ()).await.unwrap();
        ledger.conclude(&intent, samples::outcome(Status::Done)).unwrap();
    }
    let call = open.call_id();
    let count = segments(folder.path()).len();
    assert!(count > 10, "{count}");
    let report = assert_intact(folder.path());
    assert_eq!((report.segments, report.first, report.head), (count as u64, 1, ledger.health().head));
    // As after a crash: all but the folder is forgotten, and only the last segment is read.
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
        matches!(end, Entry::Outcome(end) if end.call.call_id == call && end.outcome.status == Status::Unknown)
    );
}

#[tokio::test]
async fn the_oldest_segments_go_and_the_rest_verifies() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { keep_bytes: Some(40_000), ..small() };
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
    assert!(report.notices.iter().any(|notice| notice.what.contains("let go by retention")));
    drop(ledger);
    let (ledger, recovery) = open_with(folder.path(), &options);
    assert_eq!(recovery.mode, Some(Mode::Alert), "what went is carried over");
    let found = ledger.query(&Filter { kind: Some("note".into()), ..Filter::default() }).unwrap();
    assert_eq!(found.last().map(|record| record.seq >= report.first), Some(true));
    drop(ledger);
    // Retention by somebody else is not retention.
    fs::remove_file(&segments(folder.path())[0]).unwrap();
    let report = verify(folder.path());
    assert!(
        report.problems.iter().any(|problem| problem.what.contains("the beginning is missing")),
        "{report:?}"
    );
}

#[test]
fn a_segment_that_is_never_full_is_followed_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options::default().with_keep_for(Duration::from_nanos(8));
    let (ledger, _) = open_with(folder.path(), &Options::default());
    ledger.append(&samples::note("old")).unwrap();
    drop(ledger);
    // The first pass of a ledger that is opened looks for what is too old.
    let (ledger, _) = open_with(folder.path(), &options);
    while ledger.health().head < 5 {
        std::thread::yield_now();
    }
    ledger.close();
    let report = assert_intact(folder.path());
    assert!(report.first > 2, "the old records are gone: {report:?}");
    let found = ledger.query(&Filter { kind: Some("note".into()), ..Filter::default() }).unwrap();
    assert_eq!(found.len(), 0);
}

#[test]
fn age_alone_lets_whole_segments_go() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open_with(folder.path(), &small());
    for _ in 0..100 {
        ledger.append(&samples::note(&"x".repeat(200))).unwrap();
    }
    drop(ledger);
    let listed = crate::segment::list(folder.path()).unwrap();
    let open = crate::retention::Open { first: listed.last().unwrap().first, length: 0 };
    let check = |keep_for: u64, later: i64, expect: usize| {
        let options = Options { keep_for: Some(Duration::from_secs(keep_for)), ..small() };
        let now = Timestamp::now() + jiff::SignedDuration::from_secs(later);
        let plan = crate::retention::plan(folder.path(), open, &options, now).unwrap();
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
