//! What is written is what is read.

use tool::Mode;

use super::open;
use crate::{Effect, Entry, LedgerError, State, Status, samples};

#[tokio::test]
async fn a_call_from_intent_to_outcome() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, recovery) = open(folder.path());
    assert!(recovery.first_start && !recovery.crashed && recovery.mode.is_none());
    for effect in [Effect::Reads, Effect::Changes] {
        let decision = samples::decision("write_file", effect);
        let intent = ledger.intend(decision.clone(), "value").await.unwrap();
        assert_eq!((*intent.value(), intent.call_id()), ("value", decision.call.call_id));
        let health = ledger.health();
        assert_eq!(health.open_intents, 1);
        assert_eq!(
            health.synced >= intent.seq(),
            effect == Effect::Changes,
            "only a change waits for the disk"
        );
        let receipt = ledger.conclude(&intent, samples::outcome(Status::Done)).unwrap();
        let again = ledger.conclude(&intent, samples::outcome(Status::Failed));
        assert!(matches!(again, Err(LedgerError::AlreadyConcluded(_))), "{again:?}");
        drop(intent);
        let tail = ledger.tail(2).unwrap();
        assert_eq!(tail[0].entry, Entry::Decision(decision.clone()));
        assert_eq!(
            (tail[1].seq, &tail[1].entry),
            (receipt.seq, &samples::outcome_of(&decision.call, Status::Done))
        );
    }
    assert_eq!(ledger.health().state, State::Ready);
    ledger.close();
    assert_eq!(ledger.health().state, State::Closed);
    assert!(matches!(ledger.append(&samples::note("late")), Err(LedgerError::Closed)));
    drop(ledger);
    let (_ledger, recovery) = open(folder.path());
    assert!(!recovery.crashed && recovery.interrupted.is_empty() && !recovery.first_start, "{recovery:?}");
}

#[tokio::test]
async fn one_writer_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let error = crate::Ledger::open(folder.path(), &crate::Options::default()).unwrap_err();
    assert!(error.to_string().contains(&format!("pid {}", std::process::id())), "{error}");
    ledger.append(&samples::mode(Mode::Normal, Mode::Lockdown)).unwrap();
    drop(ledger);
    let (_, recovery) = open(folder.path());
    assert_eq!(recovery.mode, Some(Mode::Lockdown), "a mode outlives the daemon");
}
