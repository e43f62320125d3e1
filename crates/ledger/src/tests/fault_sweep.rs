//! Fixed scenario, repeated with an error at a different operation each time.

use std::sync::{Arc, atomic::Ordering};

use super::{
    assert_intact,
    faulty_disk::{EIO, ENOSPC, FaultyDisk},
    open_with,
};
use crate::{Ledger, LedgerOptions, OutcomeStatus, RecordedEffect, samples};

/// Fails each operation in turn: every acknowledged record must exist, and the next start must find the
/// ledger intact.
#[tokio::test]
async fn acknowledged_records_survive_any_failed_operation() {
    let options = LedgerOptions { segment_bytes: 4096, ..LedgerOptions::default() };
    for error in [EIO, ENOSPC] {
        let mut place = 0;
        loop {
            place += 1;
            let folder = tempfile::tempdir().unwrap();
            let disk = Arc::new(FaultyDisk::default());
            disk.fail_at.store(place, Ordering::SeqCst);
            disk.error.store(error, Ordering::SeqCst);
            let promised = match Ledger::open_with_disk(Arc::clone(&disk) as _, folder.path(), &options) {
                Ok((ledger, _)) => scenario(&ledger).await,
                Err(_) => Vec::new(),
            };
            let (ledger, recovery) = open_with(folder.path(), &options);
            assert!(recovery.missing.is_none() && recovery.damage.is_empty(), "{place}: {recovery:?}");
            for (call, ends) in promised {
                let kinds: Vec<_> =
                    ledger.reader().call(call).unwrap().iter().map(|record| record.entry.kind()).collect();
                assert!(kinds.starts_with(&["decision"]), "{place}: a promise without a record");
                assert_eq!(kinds.iter().filter(|kind| **kind == "outcome").count(), 1, "{place}: {ends}");
            }
            drop(ledger);
            assert_intact(folder.path());
            if disk.fail_at.load(Ordering::SeqCst) > 0 {
                break;
            }
        }
        assert!(place > 40, "{place} places");
    }
}

async fn scenario(ledger: &Arc<Ledger>) -> Vec<(tool::CallId, &'static str)> {
    let mut promised = Vec::new();
    for n in 0..12 {
        let effect = if n % 3 == 0 { RecordedEffect::Reads } else { RecordedEffect::Changes };
        let Ok(intent) = ledger.intend(samples::decision("write_file", effect), ()).await else { continue };
        let ended = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done));
        promised.push((intent.call_id(), if ended.is_ok() { "told" } else { "owed" }));
    }
    assert!(promised.len() >= 10, "one error stops at most the calls that meet it: {}", promised.len());
    assert_eq!(ledger.health().lost_records, 0);
    ledger.close();
    promised
}
