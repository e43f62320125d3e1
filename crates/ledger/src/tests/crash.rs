//! Crashes at any moment: acknowledged records survive, every started call gets an outcome, and torn ends are
//! removed.

use std::{
    collections::HashSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use tool::Mode;

use super::{all, assert_intact, copy, faulty_disk::FaultyDisk, open, open_with, segments, verify};
use crate::{
    Ledger, LedgerEntry, LedgerOptions, LedgerRecord, OutcomeStatus, RecordFilter, RecordedEffect,
    entry::MissingCause, samples,
};

#[tokio::test]
async fn a_torn_end_is_removed_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let intent = ledger.intend(samples::decision("write_file", RecordedEffect::Changes), ()).await.unwrap();
    let anchor = fs::read(folder.path().join("anchor")).unwrap();
    let before = fs::metadata(&segments(folder.path())[0]).unwrap().len();
    ledger.append(&samples::note("torn")).unwrap();
    let after = fs::metadata(&segments(folder.path())[0]).unwrap().len();
    let crashed = tempfile::tempdir().unwrap();
    for length in before..after {
        let to = crashed.path().join(length.to_string());
        copy(folder.path(), &to);
        fs::OpenOptions::new().write(true).open(&segments(&to)[0]).unwrap().set_len(length).unwrap();
        // An incomplete line was never acknowledged, so the anchor does not count it.
        fs::write(to.join("anchor"), &anchor).unwrap();
        let (again, recovery) = open(&to);
        assert!(recovery.crashed && recovery.missing.is_none() && recovery.damage.is_empty(), "{recovery:?}");
        let torn = recovery.torn.iter().map(|torn| (torn.offset, torn.bytes)).collect::<Vec<_>>();
        assert_eq!(torn, if length > before { vec![(before, length - before)] } else { vec![] });
        assert_eq!(recovery.interrupted.len(), 1);
        again.append(&samples::note("after")).unwrap();
        drop(again);
        let report = assert_intact(&to);
        assert_eq!(report.notices.len(), torn.len());
        let records = all(&to);
        assert!(matches!(&records[2].entry, LedgerEntry::Recovered(found) if found.interrupted == 1));
        assert!(
            matches!(&records[3].entry, LedgerEntry::Outcome(end) if end.outcome.status == OutcomeStatus::Unknown)
        );
        fs::remove_dir_all(to).unwrap();
    }
    drop(intent);
}

/// Opens a copy of an open ledger with five notes, after applying `change` to it.
fn reopened(change: impl FnOnce(&Path)) -> (tempfile::TempDir, crate::LedgerRecovery) {
    let folder = tempfile::tempdir().unwrap();
    let disk = Arc::new(FaultyDisk::default());
    let (ledger, _) = disk.open(folder.path(), &LedgerOptions::default());
    disk.hold_syncs();
    for n in 0..5 {
        ledger.append(&samples::note(&n.to_string())).unwrap();
    }
    let crashed = tempfile::tempdir().unwrap();
    copy(folder.path(), crashed.path());
    disk.release_syncs();
    change(crashed.path());
    let (again, recovery) = open(crashed.path());
    again.append(&samples::note("after")).unwrap();
    (crashed, recovery)
}

fn keep_lines(folder: &Path, count: usize) {
    let path = &segments(folder)[0];
    let bytes = fs::read(path).unwrap();
    let kept: Vec<u8> = bytes.split_inclusive(|byte| *byte == b'\n').take(count).flatten().copied().collect();
    fs::write(path, kept).unwrap();
}

#[test]
fn records_counted_by_an_anchor_are_reported_missing() {
    // Only the first record is known to be on disk; a power failure may have lost the rest.
    let missing = |keep: usize, boot: bool| {
        let (folder, recovery) = reopened(|folder| {
            keep_lines(folder, keep);
            if !boot {
                pretend_another_boot(folder);
            }
        });
        (
            recovery.missing.map(|missing| (missing.from, missing.to, missing.cause)),
            verify(folder.path()).is_intact(),
        )
    };
    if !crate::anchor::boot_id().is_empty() {
        assert_eq!(
            missing(4, true),
            (Some((5, 6, MissingCause::Removed)), false),
            "the machine did not go down"
        );
    }
    assert_eq!(missing(4, false), (Some((5, 6, MissingCause::PowerFailure)), true));
    assert_eq!(missing(1, false), (Some((2, 6, MissingCause::PowerFailure)), true));
    assert_eq!(missing(0, false), (Some((1, 6, MissingCause::Removed)), false), "record 1 was on disk");
}

fn pretend_another_boot(folder: &Path) {
    let key = crate::key::LedgerKey::load(&folder.join("key")).unwrap();
    let mut anchor = crate::anchor::Anchor::read(&folder.join("anchor"), &key).unwrap();
    anchor.boot = "another".into();
    fs::write(folder.join("anchor"), anchor.render(&key)).unwrap();
}

#[test]
fn damage_in_the_middle_is_reported_and_left_in_place() {
    let (folder, recovery) = reopened(|folder| {
        let path = &segments(folder)[0];
        let mut bytes = fs::read(path).unwrap();
        let third: usize = bytes.split_inclusive(|byte| *byte == b'\n').take(2).map(<[u8]>::len).sum();
        bytes[third + 80] ^= 1;
        fs::write(path, bytes).unwrap();
    });
    assert!(recovery.torn.is_empty() && recovery.missing.is_none());
    assert!(
        recovery.damage[0].contains("line 3") && recovery.damage[0].contains("record 3 was changed"),
        "{recovery:?}"
    );
    let report = verify(folder.path());
    assert_eq!(report.problems.iter().filter(|problem| problem.line == Some(3)).count(), 1, "{report:#?}");
    assert_eq!(report.head, 8, "the record goes on behind the damage");
}

#[test]
fn garbage_after_the_end_is_saved_in_a_file() {
    let garbage = [b"\0\0\0\n".repeat(3), b"half a li".to_vec()].concat();
    let (folder, recovery) = reopened(|folder| {
        let path = &segments(folder)[0];
        fs::write(path, [fs::read(path).unwrap(), garbage.clone()].concat()).unwrap();
    });
    let torn = &recovery.torn[0];
    assert_eq!((torn.bytes, &torn.sha256), (garbage.len() as u64, &tool::canonical::sha256_hex(&garbage)));
    assert_eq!(fs::read(folder.path().join(torn.saved_as.as_ref().unwrap())).unwrap(), garbage);
    assert_intact(folder.path());
}

#[test]
fn a_changed_anchor_is_reported() {
    let (folder, recovery) = reopened(|folder| fs::write(folder.join("anchor"), "{}").unwrap());
    assert_eq!(recovery.damage, ["the anchor was changed"]);
    assert!(!verify(folder.path()).is_intact());
    let (_, recovery) = reopened(|folder| fs::remove_file(folder.join("anchor")).unwrap());
    assert_eq!(recovery.damage, ["the anchor is missing"]);
}

#[test]
fn a_segment_without_a_complete_line_is_discarded() {
    let options = LedgerOptions { segment_bytes: 4096, ..LedgerOptions::default() };
    for rest in ["", "{\"seq\":12,\"ti"] {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, _) = open_with(folder.path(), &options);
        ledger.append(&samples::note("x")).unwrap();
        let next = ledger.health().head + 1;
        let crashed = tempfile::tempdir().unwrap();
        copy(folder.path(), crashed.path());
        fs::write(crate::segment::Segment::new(crashed.path(), next).path, rest).unwrap();
        let (again, recovery) = open_with(crashed.path(), &options);
        assert_eq!(recovery.torn.len(), usize::from(!rest.is_empty()));
        again.append(&samples::note("y")).unwrap();
        drop(again);
        assert_intact(crashed.path());
    }
}

const CHILD: &str = "LEDGER_TEST_CHILD";

/// Runs calls in the child process until it is killed, and prints a line for every acknowledgement.
fn child(folder: &Path) {
    let options = LedgerOptions { segment_bytes: 100_000, ..LedgerOptions::default() };
    let (ledger, _) = open_with(folder, &options);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    for worker in 0..8 {
        let ledger = Arc::clone(&ledger);
        runtime.spawn(async move {
            for n in 0.. {
                let effect =
                    if (n + worker) % 3 == 0 { RecordedEffect::Changes } else { RecordedEffect::Reads };
                let intent = ledger.intend(samples::decision("write_file", effect), ()).await.unwrap();
                println!("intended {}", intent.call_id());
                let receipt = ledger.conclude(&intent, samples::outcome(OutcomeStatus::Done)).unwrap();
                println!("replied {} {}", intent.call_id(), receipt.seq().unwrap());
            }
        });
    }
    // The parent kills the process long before; without a parent it ends by itself.
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn killed_under_load() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return child(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut promised, mut head) = (0, 0);
    for round in 0..20 {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::killed_under_load", "--nocapture", "--test-threads=1"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut text = Vec::new();
        // Each round kills the child after a different number of acknowledgements, at an arbitrary point.
        while text.len() < 37 * (round + 1) {
            text.push(output.next().unwrap().unwrap());
        }
        process.kill().unwrap();
        process.wait().unwrap();
        text.extend(output.map_while(Result::ok));

        let options = LedgerOptions { segment_bytes: 100_000, ..LedgerOptions::default() };
        let (ledger, recovery) = open_with(folder.path(), &options);
        assert!(recovery.crashed && recovery.missing.is_none() && recovery.damage.is_empty(), "{recovery:?}");
        let new = ledger.query(&RecordFilter { after_seq: Some(head), ..RecordFilter::default() }).unwrap();
        head = ledger.health().head;
        drop(ledger);
        promised += check_promises(new, &text);
        if round % 5 == 4 {
            assert_intact(folder.path());
        }
    }
    assert!(promised > 20 * 37, "{promised}");
}

/// Asserts that every acknowledged record exists and that every call has exactly one outcome.
fn check_promises(records: Vec<LedgerRecord>, text: &[String]) -> usize {
    let (mut decided, mut ended) = (HashSet::new(), HashSet::new());
    for record in records {
        match record.entry {
            LedgerEntry::Decision(decision) => assert!(decided.insert(decision.call.call_id.to_string())),
            LedgerEntry::Outcome(end) => assert!(ended.insert(end.call.call_id.to_string()), "two ends"),
            _ => {}
        }
    }
    assert_eq!(decided, ended, "no call is left open");
    let mut promises = 0;
    for line in text {
        // The test harness prints to the same output.
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["intended", call] if call.len() == 36 => assert!(decided.contains(call), "{line}"),
            ["replied", call, _] if call.len() == 36 => assert!(ended.contains(call), "{line}"),
            _ => continue,
        }
        promises += 1;
    }
    promises
}

#[tokio::test]
async fn look_reports_the_same_as_open_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("ledger");
    let options = LedgerOptions::default()
        .with_key_file(folder.path().join("key"))
        .with_second_anchor(folder.path().join("anchor"));
    assert!(Ledger::inspect(&place, &options).unwrap().first_start);
    assert!(!place.exists(), "a look makes nothing");
    let (ledger, _) = Ledger::open(&place, &options).unwrap();
    ledger.append(&samples::mode(Mode::Normal, Mode::Alert)).unwrap();
    ledger.append_durably(&samples::decision_entry(&samples::call("write_file"))).await.unwrap();
    drop(ledger);
    let last = segments(&place).pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    std::fs::write(&last, [&whole[..], b"{\"torn"].concat()).unwrap();
    let seen = Ledger::inspect(&place, &options).unwrap();
    assert_eq!(std::fs::read(&last).unwrap().len(), whole.len() + 6, "the torn end is looked past");
    let (ledger, opened) = Ledger::open(&place, &options).unwrap();
    assert_eq!((seen.mode, &seen.executed), (Some(Mode::Alert), &opened.executed));
    assert_eq!((&seen.missing, &seen.damage, seen.interrupted.len()), (&opened.missing, &opened.damage, 1));
    drop(ledger);
    std::fs::remove_dir_all(&place).unwrap();
    assert!(
        Ledger::inspect(&place, &options).unwrap().missing.is_some(),
        "a folder that was taken away is missed"
    );
}
