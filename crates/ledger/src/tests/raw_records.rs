//! Copies of a ledger: every record once, byte for byte, across segments and beside a writer.

use std::fs;

use super::{open_with, segments};
use crate::{LedgerOptions, raw_records::RawRecordReader, samples};

#[tokio::test]
async fn raw_records_are_the_bytes_of_all_segments() {
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions { segment_bytes: 4096, ..LedgerOptions::default() };
    let (ledger, _) = open_with(folder.path(), &options);
    let mut reader = RawRecordReader::new(folder.path());
    let (mut copy, mut next, mut previous) = (Vec::new(), 1, "0".repeat(64));
    for round in 0..40 {
        for n in 0..5 {
            ledger.append_durably(&samples::note(&format!("{round} {n}"))).await.unwrap();
        }
        let synced = ledger.health().synced;
        // A limit below the head, a small batch, and a whole batch.
        for (up_to, max_bytes) in [(synced.saturating_sub(3), 1), (synced - 1, 700), (synced, 1 << 20)] {
            let Some(found) = reader.read(next, up_to, max_bytes).unwrap() else { continue };
            assert_eq!((found.first, &found.previous), (next, &previous), "round {round}");
            assert!(found.last <= up_to && (found.bytes.len() <= max_bytes || found.first == found.last));
            assert_eq!(
                found.bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
                found.last + 1 - next
            );
            assert_eq!(reader.seal(found.last).unwrap().as_ref(), Some(&found.hash));
            (next, previous) = (found.last + 1, found.hash);
            copy.extend(found.bytes);
        }
        assert_eq!(next, synced + 1);
        assert_eq!(reader.read(next, synced, 1 << 20).unwrap(), None);
    }
    assert!(segments(folder.path()).len() > 3);
    ledger.close();
    let up_to = u64::MAX;
    while let Some(found) = reader.read(next, up_to, 1 << 20).unwrap() {
        next = found.last + 1;
        copy.extend(found.bytes);
    }
    let all: Vec<u8> = segments(folder.path()).iter().flat_map(|path| fs::read(path).unwrap()).collect();
    assert_eq!(copy, all);
    // Retention removes the oldest segment.
    fs::remove_file(&segments(folder.path())[0]).unwrap();
    let first = RawRecordReader::new(folder.path()).read(1, up_to, 1).unwrap().unwrap().first;
    assert!(first > 1);
    assert_eq!(reader.seal(1).unwrap(), None);
}
