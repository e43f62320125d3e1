//! Entries are read back as they were written.

use tool::{Mode, RiskLevel};

use super::open;
use crate::{
    LedgerEntry, LedgerError, LedgerState, OutcomeStatus, RecordedDecision, RecordedEffect, samples,
};

#[tokio::test]
async fn a_call_is_recorded_from_intent_to_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, recovery) = open(folder.path());
    assert!(recovery.first_start && !recovery.crashed && recovery.mode.is_none());
    for effect in [RecordedEffect::Reads, RecordedEffect::Changes] {
        let decision = samples::decision("write_file", effect);
        let intent = ledger.intend(decision.clone(), "value").await.unwrap();
        assert_eq!((*intent.value(), intent.call_id()), ("value", decision.call.call_id));
        let health = ledger.health();
        assert_eq!(health.open_intents, 1);
        assert_eq!(
            Some(health.synced) >= intent.receipt().unwrap().seq(),
            effect == RecordedEffect::Changes,
            "only a change waits for the disk"
        );
        let receipt = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
        let again = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Failed));
        assert!(matches!(again, Err(LedgerError::AlreadyConcluded(_))), "{again:?}");
        drop(intent);
        let tail = ledger.tail(2).unwrap();
        assert_eq!(tail[0].entry, LedgerEntry::Decision(decision.clone()));
        assert_eq!(
            (tail[1].seq, &tail[1].entry),
            (receipt.seq().unwrap(), &samples::outcome_entry(&decision.call, OutcomeStatus::Done))
        );
    }
    assert_eq!(ledger.health().state, LedgerState::Ready);
    ledger.close();
    assert_eq!(ledger.health().state, LedgerState::Closed);
    assert!(matches!(ledger.append(&samples::note("late")), Err(LedgerError::Closed)));
    drop(ledger);
    let (_ledger, recovery) = open(folder.path());
    assert!(!recovery.crashed && recovery.interrupted.is_empty() && !recovery.first_start, "{recovery:?}");
}

#[tokio::test]
async fn a_read_in_the_daemon_is_one_record_of_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let decision = samples::decision("read_file", RecordedEffect::Reads);
    let intent = ledger.intend_read(decision.clone(), ()).await.unwrap();
    assert_eq!((intent.receipt(), ledger.health().open_intents), (None, 0));
    let head = ledger.health().head;
    let receipt = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
    assert_eq!(receipt.seq(), Some(head + 1), "one record");
    let again = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Failed));
    assert!(matches!(again, Err(LedgerError::AlreadyConcluded(_))), "{again:?}");
    drop(intent);
    drop(ledger.intend_read(samples::decision("read_file", RecordedEffect::Reads), ()).await.unwrap());
    let last = ledger.tail(1).unwrap().remove(0);
    assert_eq!(
        last.entry,
        samples::call_entry(&decision.call, OutcomeStatus::Done),
        "a dropped read adds none"
    );
    for kind in ["call", "decision", "outcome"] {
        let filter = crate::RecordFilter { kind: Some(kind.into()), ..crate::RecordFilter::default() };
        assert_eq!(ledger.query(&filter).unwrap(), std::slice::from_ref(&last), "{kind}");
    }
}

/// An effect must not happen before its record, and an approval must be used up on record.
#[tokio::test]
async fn decision_that_must_be_found_later_is_recorded_first() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let read = samples::decision("read_file", RecordedEffect::Reads);
    for decision in [
        samples::decision("write_file", RecordedEffect::Changes),
        RecordedDecision { risk: RiskLevel::High, ..read.clone() },
        RecordedDecision { idempotency_key: Some("k".into()), ..read.clone() },
        RecordedDecision { approval_id: Some("a".into()), ..read },
    ] {
        let intent = ledger.intend_read(decision.clone(), ()).await.unwrap();
        assert!(intent.receipt().is_some(), "{decision:?}");
        assert_eq!(ledger.tail(1).unwrap()[0].entry, LedgerEntry::Decision(decision));
    }
}

/// The anchor counts every record that a client received a reply for, so that cutting it off is detected. The
/// next sync counts a decision alone.
#[tokio::test]
async fn the_anchor_counts_a_call_before_its_reply() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let key = crate::key::LedgerKey::load(&folder.path().join("key")).unwrap();
    let counted = || crate::anchor::Anchor::read(&folder.path().join("anchor"), &key).unwrap().seq;
    let read = ledger.intend(samples::decision("read_file", RecordedEffect::Reads), ()).await.unwrap();
    ledger.conclude(&read, samples::outcome(OutcomeStatus::Done)).unwrap();
    assert_eq!(counted(), ledger.health().head);
    for _ in 0..3 {
        let read =
            ledger.intend_read(samples::decision("read_file", RecordedEffect::Reads), ()).await.unwrap();
        ledger.conclude(&read, samples::outcome(OutcomeStatus::Done)).unwrap();
    }
    assert_eq!(counted() + 3, ledger.health().head, "replies that leave together share one anchor");
    ledger.anchor_records();
    assert_eq!(counted(), ledger.health().head);
    let change = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    assert_eq!(counted(), ledger.health().head, "a change is counted before it runs");
    ledger.conclude(&change, samples::outcome(OutcomeStatus::Done)).unwrap();
    let slow = ledger.intend(samples::decision("search", RecordedEffect::Reads), ()).await.unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while counted() < slow.receipt().unwrap().seq().unwrap() {
        assert!(std::time::Instant::now() < deadline, "the next sync counts it");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[tokio::test]
async fn a_second_writer_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let error = crate::Ledger::open(folder.path(), &crate::LedgerOptions::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    ledger.append(&samples::mode(Mode::Normal, Mode::Lockdown)).unwrap();
    drop(ledger);
    let (_, recovery) = open(folder.path());
    assert_eq!(recovery.mode, Some(Mode::Lockdown), "a mode outlives the daemon");
}

#[test]
fn concurrent_writes_have_consecutive_numbers() {
    const TASKS: u64 = 1000;
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(8).enable_all().build().unwrap();
    let mut acknowledged = runtime.block_on(async {
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| {
                let ledger = std::sync::Arc::clone(&ledger);
                tokio::spawn(async move {
                    let effect = if n % 2 == 0 { RecordedEffect::Reads } else { RecordedEffect::Changes };
                    let intent = ledger.intend(samples::decision("write_file", effect), n).await.unwrap();
                    let end = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
                    [intent.receipt().unwrap().seq().unwrap(), end.seq().unwrap()]
                })
            })
            .collect();
        let mut seqs = Vec::new();
        for task in tasks {
            seqs.extend(task.await.unwrap());
        }
        seqs
    });
    acknowledged.sort_unstable();
    assert_eq!(acknowledged, (2..2 + 2 * TASKS).collect::<Vec<_>>());
    drop(ledger);
    assert_eq!(super::assert_intact(folder.path()).records, 1 + 2 * TASKS);
}

#[tokio::test]
async fn an_abandoned_call_gets_exactly_one_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let disk = std::sync::Arc::new(super::faulty_disk::FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &crate::LedgerOptions::default());
    disk.hold_syncs();
    let given_up = samples::decision("write_file", RecordedEffect::Changes);
    let recorded = samples::decision("write_file", RecordedEffect::Changes);
    for decision in [&given_up, &recorded] {
        let mut waiting = Box::pin(ledger.intend(decision.clone(), ()));
        let waker = std::task::Waker::noop();
        assert!(waiting.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_pending());
    }
    // The caller that abandoned the call may record a refusal; the ledger then adds no outcome.
    ledger.append(&samples::refusal_entry(&recorded.call)).unwrap();
    disk.release_syncs();
    let forgotten =
        ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    let forgotten_id = forgotten.call_id();
    drop(forgotten);
    ledger.close();
    let ends = |call| -> Vec<String> {
        let records = ledger.reader().call(call).unwrap();
        records
            .iter()
            .skip(1)
            .map(|record| record.json()["outcome"].as_str().unwrap_or("refused").to_owned())
            .collect()
    };
    assert_eq!(ends(given_up.call.call_id), ["not_started"]);
    assert_eq!(ends(recorded.call.call_id), ["refused"]);
    assert_eq!(ends(forgotten_id), ["unknown"]);
    assert_eq!(ledger.health().open_intents, 0);
}

#[tokio::test]
async fn hostile_text_stays_in_one_record() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    ledger.append(&samples::note("forged")).unwrap();
    let forged = String::from_utf8(std::fs::read(&super::segments(folder.path())[0]).unwrap()).unwrap();
    let texts =
        ["\n", "\r\n", "\0", "\u{2028}", "\u{1b}[2J\u{1b}]0;x\u{7}", "\"}\n{", "\u{202e}\u{2066}", &forged];
    for text in texts {
        let mut call = (*samples::call("x")).clone();
        call.tool = text.to_owned();
        std::sync::Arc::make_mut(&mut call.caller).client = Some(text.to_owned());
        let refusal = samples::refusal_entry(&call.into());
        ledger.append(&refusal).unwrap();
        assert_eq!(ledger.tail(1).unwrap()[0].entry, refusal);
    }
    drop(ledger);
    let report = super::assert_intact(folder.path());
    assert_eq!(report.records, 2 + texts.len() as u64);
}

#[tokio::test]
async fn an_enormous_entry_is_shortened_and_marked() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let mut decision = samples::decision("write_file", RecordedEffect::Changes);
    decision.facts = serde_json::json!({"content": "x".repeat(2_000_000)});
    let intent = ledger.intend(decision.clone(), ()).await.unwrap();
    let record = ledger.tail(1).unwrap().pop().unwrap();
    assert!(record.line().len() < 140_000);
    assert!(record.json()["cut"]["bytes"].as_u64() > Some(2_000_000));
    let LedgerEntry::Decision(read) = record.entry else { panic!("{:?}", record.entry) };
    assert_eq!((read.call, read.policy_hash), (decision.call, decision.policy_hash));
    ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
}

#[test]
fn digests_are_keyed() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let digest = |folder: &tempfile::TempDir| open(folder.path()).0.keyed_digest(b"password");
    let first = digest(&one);
    assert_eq!(first, digest(&one), "the same in one ledger, also after a restart");
    assert_ne!(first, digest(&other));
    assert_ne!(first, tool::canonical::sha256_hex(b"password"));
}
