//! Read-only calls allowed while the ledger is unavailable: their records are deferred, bounded, and written
//! later.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use serde_json::json;
use tool::RiskLevel;

use super::{all, assert_intact, faulty_disk::FaultyDisk};
use crate::{
    Intent, Ledger, LedgerEntry, LedgerError, LedgerOptions, OutcomeStatus, RecordReceipt, RecordedDecision,
    RecordedEffect, UnavailablePolicy, samples,
};

/// Returns a ledger whose syncs all fail.
async fn ledger_with_broken_disk(
    folder: &Path,
    when_unavailable: UnavailablePolicy,
) -> (Arc<FaultyDisk>, Arc<Ledger>) {
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder, &LedgerOptions::default().with_when_unavailable(when_unavailable));
    disk.failing_syncs.store(u32::MAX, Ordering::SeqCst);
    ledger.append_durably(&samples::note("x")).await.unwrap_err();
    (disk, ledger)
}

async fn read(ledger: &Ledger) -> Result<Intent<()>, LedgerError> {
    ledger.intend(samples::decision("read_file", RecordedEffect::Reads), ()).await
}

/// Repairs the disk and waits until no record is deferred.
async fn repair_disk(disk: &FaultyDisk, ledger: &Ledger) {
    disk.failing_syncs.store(0, Ordering::SeqCst);
    while ledger.health().deferred_records > 0 {
        let _ = ledger.append_durably(&samples::note("again")).await;
    }
}

/// Returns the records of a call: true if its decision was recorded late, and its outcomes.
fn recorded_outcomes(folder: &Path, intent: &Intent<()>) -> (bool, Vec<OutcomeStatus>) {
    let records: Vec<_> = all(folder).into_iter().map(|record| record.entry).collect();
    let decisions = records.iter().filter_map(|entry| match entry {
        LedgerEntry::Decision(decision) if decision.call.call_id == intent.call_id() => Some(decision),
        _ => None,
    });
    let decisions: Vec<&RecordedDecision> = decisions.collect();
    assert_eq!(decisions.len(), 1, "one decision");
    let ends = records.iter().filter_map(|entry| match entry {
        LedgerEntry::Outcome(end) if end.call.call_id == intent.call_id() => Some(end.outcome.status),
        _ => None,
    });
    (decisions[0].decided_at.is_some(), ends.collect())
}

#[tokio::test]
async fn a_read_is_allowed_and_recorded_later() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::AllowReads).await;
    let ended = read(&ledger).await.unwrap();
    assert_eq!(ended.receipt(), Some(RecordReceipt::Deferred));
    assert_eq!(
        ledger.conclude(&ended, samples::outcome(OutcomeStatus::Done)).unwrap(),
        RecordReceipt::Deferred
    );
    let again = ledger.conclude(&ended, samples::outcome(OutcomeStatus::Done));
    assert!(matches!(again, Err(LedgerError::AlreadyConcluded(_))), "{again:?}");
    let (running, dropped) = (read(&ledger).await.unwrap(), read(&ledger).await.unwrap());
    let forgotten = dropped.call_id();
    drop(dropped);
    assert_eq!(ledger.health().deferred_records, 3, "what waits can be seen");
    assert!(all(folder.path()).iter().all(|record| record.entry.kind() != "decision"));

    repair_disk(&disk, &ledger).await;
    let end = ledger.conclude(&running, samples::outcome(OutcomeStatus::Failed)).unwrap();
    assert!(end.seq().is_some(), "back in the record, it ends there: {end:?}");
    assert_eq!(recorded_outcomes(folder.path(), &ended), (true, vec![OutcomeStatus::Done]));
    assert_eq!(recorded_outcomes(folder.path(), &running), (true, vec![OutcomeStatus::Failed]));
    let last = ledger.reader().call(forgotten).unwrap().pop().unwrap().json();
    assert_eq!(last["outcome"], "unknown", "one without an end");
    drop((ended, running));
    drop(ledger);
    assert_intact(folder.path());
}

/// The disk fails between the start and the end of a read that has one record.
#[tokio::test]
async fn unrecordable_read_is_an_error_or_deferred() {
    for (policy, deferred) in [(UnavailablePolicy::Refuse, 0), (UnavailablePolicy::AllowReads, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let disk = Arc::new(FaultyDisk::default());
        let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default().with_when_unavailable(policy));
        let decision = samples::decision("read_file", RecordedEffect::Reads);
        let intent = ledger.intend_read(decision, ()).await.unwrap();
        disk.failing_syncs.store(u32::MAX, Ordering::SeqCst);
        ledger.append_durably(&samples::note("x")).await.unwrap_err();
        let end = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done));
        assert_eq!(end.is_err(), deferred == 0, "{end:?}");
        assert_eq!(ledger.health().deferred_records, deferred);
        repair_disk(&disk, &ledger).await;
        if deferred > 0 {
            assert_eq!(recorded_outcomes(folder.path(), &intent), (true, vec![OutcomeStatus::Done]));
        }
        drop((intent, ledger));
        assert_intact(folder.path());
    }
}

/// A crash loses the deferred records, but their number is known and reported once.
#[tokio::test]
async fn a_crash_loses_deferred_records_but_not_their_count() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::AllowReads).await;
    let held = [read(&ledger).await.unwrap(), read(&ledger).await.unwrap(), read(&ledger).await.unwrap()];
    let crashed = tempfile::tempdir().unwrap();
    super::copy(folder.path(), crashed.path());
    let (after, recovery) = super::open(crashed.path());
    assert_eq!(recovery.unrecorded_reads, 3);
    drop(after);
    let report_text: Vec<u64> = all(crashed.path()).iter().filter_map(unrecorded).collect();
    assert_eq!(report_text, [3]);
    let report = assert_intact(crashed.path());
    assert!(
        report.notices.iter().any(|notice| notice.what.starts_with("3 reads were answered")),
        "{report:?}"
    );
    let (_, again) = super::open(crashed.path());
    assert_eq!(again.unrecorded_reads, 0, "said once");

    repair_disk(&disk, &ledger).await;
    let paid = tempfile::tempdir().unwrap();
    super::copy(folder.path(), paid.path());
    let (_, recovery) = super::open(paid.path());
    assert_eq!(
        (recovery.unrecorded_reads, recovery.interrupted.len()),
        (0, 3),
        "on record, they are not lost"
    );
    drop(held);
}

fn unrecorded(record: &crate::LedgerRecord) -> Option<u64> {
    match &record.entry {
        LedgerEntry::Recovered(recovered) => Some(recovered.unrecorded_reads),
        _ => None,
    }
}

/// A call that was decided, superseded before it started, and decided again has two decisions and two
/// outcomes.
#[tokio::test]
async fn a_read_decided_twice_ends_with_its_newest_decision() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::AllowReads).await;
    let decision = samples::decision("read_file", RecordedEffect::Reads);
    let overtaken = ledger.intend(decision.clone(), ()).await.unwrap();
    ledger.conclude(&overtaken, samples::outcome(OutcomeStatus::NotStarted)).unwrap();
    let again = ledger.intend(decision, ()).await.unwrap();
    assert_eq!(
        ledger.conclude(&again, samples::outcome(OutcomeStatus::Done)).unwrap(),
        RecordReceipt::Deferred
    );
    repair_disk(&disk, &ledger).await;
    let records = ledger.reader().call(again.call_id()).unwrap();
    let reported: Vec<_> = records.iter().map(|record| record.json()["outcome"].clone()).collect();
    assert_eq!(reported, [json!(null), json!("not_started"), json!(null), json!("done")]);
}

#[tokio::test]
async fn only_reads_below_high_risk_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let (_disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::AllowReads).await;
    ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap_err();
    let risky =
        RecordedDecision { risk: RiskLevel::High, ..samples::decision("read_file", RecordedEffect::Reads) };
    ledger.intend(risky, ()).await.unwrap_err();
    assert_eq!(ledger.health().deferred_records, 0);

    let folder = tempfile::tempdir().unwrap();
    let (_disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::Refuse).await;
    read(&ledger).await.unwrap_err();
}

#[tokio::test]
async fn a_read_running_when_the_disk_fails_is_answered() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let options = LedgerOptions::default().with_when_unavailable(UnavailablePolicy::AllowReads);
    let (ledger, _) = disk.open(folder.path(), &options);
    let (reads, writes) =
        (read(&ledger).await.unwrap(), samples::decision("write_file", RecordedEffect::Changes));
    let writes = ledger.intend(writes, ()).await.unwrap();
    disk.failing_syncs.store(u32::MAX, Ordering::SeqCst);
    ledger.append_durably(&samples::note("x")).await.unwrap_err();
    assert_eq!(
        ledger.conclude(&reads, samples::outcome(OutcomeStatus::Done)).unwrap(),
        RecordReceipt::Deferred
    );
    ledger.conclude(&writes, samples::outcome(OutcomeStatus::Done)).unwrap_err();
    repair_disk(&disk, &ledger).await;
    assert_eq!(recorded_outcomes(folder.path(), &reads), (false, vec![OutcomeStatus::Done]));
    assert_eq!(recorded_outcomes(folder.path(), &writes), (false, vec![OutcomeStatus::Done]));
}

#[tokio::test]
async fn deferred_records_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, ledger) = ledger_with_broken_disk(folder.path(), UnavailablePolicy::AllowReads).await;
    let mut held = Vec::new();
    let refused = loop {
        let mut large = samples::decision("read_file", RecordedEffect::Reads);
        large.facts = serde_json::json!({"paths": "x".repeat(120_000)});
        match ledger.intend(large, ()).await {
            Ok(intent) => held.push(intent),
            Err(error) => break error,
        }
        assert!(held.len() < 1000, "memory fills up");
    };
    assert!(refused.to_string().contains(&format!("{} reads are already waiting", held.len())), "{refused}");
    repair_disk(&disk, &ledger).await;
    for intent in &held {
        ledger.conclude(intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    }
    let kinds = super::kinds(folder.path());
    for kind in ["decision", "outcome"] {
        assert_eq!(kinds.iter().filter(|found| **found == kind).count(), held.len(), "{kind}");
    }
}
