//! Queries: complete, possible beside a writer, and correct regardless of the state of the index.

use std::{
    fs,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tool::Mode;

use super::{all, assert_intact, open, open_with, segments};
use crate::{
    ExportFormat, Ledger, LedgerOptions, LedgerReader, LedgerRecord, OutcomeStatus, RecordFilter,
    RecordedEffect, index, samples, search_fields::SearchFields,
};

async fn fill(ledger: &Ledger) {
    for n in 0..60 {
        let tool = ["read_file", "write_file", "fetch_url"][n % 3];
        let mut decision = samples::decision(tool, RecordedEffect::Reads);
        if n % 4 == 0 {
            let mut call = (*decision.call).clone();
            call.mode = Mode::Alert;
            std::sync::Arc::make_mut(&mut call.caller).client = None;
            std::sync::Arc::make_mut(&mut call.caller).session = None;
            decision.call = call.into();
        }
        decision.idempotency_key = (n == 7).then(|| "key 7".into());
        let intent = ledger.intend(decision, ()).await.unwrap();
        let status = if n % 5 == 0 { OutcomeStatus::Failed } else { OutcomeStatus::Done };
        ledger.conclude(&intent, samples::outcome(status)).unwrap();
    }
    for _ in 0..10 {
        ledger.append(&samples::refusal_entry(&samples::call("delete_file"))).unwrap();
    }
    ledger.append(&samples::mode(Mode::Normal, Mode::Lockdown)).unwrap();
}

fn wait_for_index(ledger: &Ledger) {
    while ledger.health().indexed < ledger.health().head {
        std::thread::yield_now();
    }
}

/// Under load the index is not filled, because no call needs it. A query still finds every record, and asks for the
/// index.
#[tokio::test]
async fn index_waits_until_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let (mut begun, mut longest_pause) = (Instant::now(), Duration::ZERO);
    for n in 0..50 {
        ledger.append_durably(&samples::note(&n.to_string())).await.unwrap();
        longest_pause = longest_pause.max(begun.elapsed());
        begun = Instant::now();
    }
    // A machine that stops for seconds makes the ledger idle.
    let was_idle = longest_pause >= index::fill::IDLE;
    assert!(was_idle || ledger.health().indexed == 0, "durable records were indexed one by one");
    assert_eq!(ledger.tail(50).unwrap().len(), 50);
    ledger.append_durably(&samples::note("next")).await.unwrap();
    wait_for_index(&ledger);
}

#[tokio::test]
async fn decisions_with_a_key_are_found_without_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger).await;
    let _ = fs::remove_file(index::path(folder.path()));
    let found = ledger.reader().decisions_with_key(Timestamp::UNIX_EPOCH).unwrap();
    let keys: Vec<_> =
        found.iter().map(|record| record.entry.decision().unwrap().idempotency_key.clone()).collect();
    assert_eq!(keys, [Some("key 7".to_owned())]);
    let later = found[0].time + Duration::from_millis(1);
    assert_eq!(ledger.reader().decisions_with_key(later).unwrap(), []);
    let tomorrow = Timestamp::now() + Duration::from_secs(24 * 3600);
    assert_eq!(ledger.reader().decisions_with_key(tomorrow).unwrap(), []);
}

fn filters(records: &[LedgerRecord]) -> Vec<RecordFilter> {
    let some = |text: &str| Some(text.to_owned());
    let none = RecordFilter::default();
    let middle = SearchFields::parse(records[70].line().as_bytes()).unwrap();
    vec![
        none.clone(),
        RecordFilter { limit: Some(7), ..none.clone() },
        RecordFilter { limit: Some(7), before_seq: Some(50), ..none.clone() },
        RecordFilter { after_seq: Some(120), ..none.clone() },
        RecordFilter { tool: some("write_file"), ..none.clone() },
        RecordFilter { tool: some("write_file"), outcome: some("failed"), ..none.clone() },
        RecordFilter { tool: some("never_heard_of"), ..none.clone() },
        RecordFilter { outcome: some("refused"), ..none.clone() },
        RecordFilter { mode: Some(Mode::Alert), kind: some("decision"), ..none.clone() },
        RecordFilter { mode: Some(Mode::Lockdown), ..none.clone() },
        RecordFilter { caller: some("uid 501"), limit: Some(3), ..none.clone() },
        RecordFilter { session: some("s-1"), tool: some("fetch_url"), ..none.clone() },
        RecordFilter { trace: middle.trace.as_deref().map(str::to_owned), ..none.clone() },
        RecordFilter { call_id: middle.call.as_ref().unwrap().parse().ok(), ..none.clone() },
        RecordFilter { idempotency_key: some("key 7"), ..none.clone() },
        RecordFilter { since: Some(records[70].time), ..none.clone() },
        RecordFilter { until: Some(records[70].time), limit: Some(20), ..none.clone() },
        RecordFilter { since: Some(Timestamp::MAX), ..none.clone() },
        RecordFilter { until: Some(Timestamp::UNIX_EPOCH), ..none },
    ]
}

/// Asserts that every filter returns the same records as a scan of all records.
fn check(folder: &std::path::Path) {
    let records = all(folder);
    assert!(records.len() > 130);
    for filter in filters(&records) {
        let manual = records
            .iter()
            .rev()
            .filter(|record| filter.matches(&SearchFields::parse(record.line().as_bytes()).unwrap()));
        let manual: Vec<u64> =
            manual.map(|record| record.seq).take(filter.limit.unwrap_or(usize::MAX)).collect();
        let asked = LedgerReader::new(folder).query(&filter).unwrap();
        assert_eq!(asked.iter().map(|record| record.seq).collect::<Vec<_>>(), manual, "{filter:?}");
    }
}

#[tokio::test]
async fn query_results_do_not_depend_on_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions { segment_bytes: 16_384, ..LedgerOptions::default() };
    let (ledger, _) = open_with(folder.path(), &options);
    fill(&ledger).await;
    check(folder.path());
    wait_for_index(&ledger);
    check(folder.path());
    ledger.append(&samples::refusal_entry(&samples::call("delete_file"))).unwrap();
    check(folder.path());
    drop(ledger);

    let path = index::path(folder.path());
    let good = fs::read(&path).unwrap();
    for wrong in [Vec::new(), b"not a database".repeat(100), good[..good.len() / 2].to_vec()] {
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(folder.path().join(format!("index.sqlite{suffix}")));
        }
        fs::write(&path, &wrong).unwrap();
        check(folder.path());
        let (ledger, _) = open_with(folder.path(), &options);
        ledger.append(&samples::note("x")).unwrap();
        wait_for_index(&ledger);
        check(folder.path());
    }
    fs::remove_file(&path).unwrap();
    check(folder.path());
}

#[tokio::test]
async fn an_index_of_another_ledger_is_discarded() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        let (ledger, _) = open(folder.path());
        fill(&ledger).await;
        wait_for_index(&ledger);
    }
    fs::copy(index::path(one.path()), index::path(other.path())).unwrap();
    check(other.path());
    let (ledger, _) = open(other.path());
    ledger.append(&samples::note("x")).unwrap();
    wait_for_index(&ledger);
    check(other.path());
}

#[tokio::test]
async fn exports_contain_every_record_in_both_formats() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) =
        open_with(folder.path(), &LedgerOptions { segment_bytes: 16_384, ..LedgerOptions::default() });
    fill(&ledger).await;
    let text = "two\nlines, \"quotes\" and =SUM(A1)\u{202e}";
    ledger.append(&samples::note(text)).unwrap();
    let (mut ndjson, mut csv) = (Vec::new(), Vec::new());
    let reader = ledger.reader();
    let count = reader.export(&RecordFilter::default(), ExportFormat::Ndjson, &mut ndjson).unwrap();
    let stored: Vec<u8> = segments(folder.path()).iter().flat_map(|path| fs::read(path).unwrap()).collect();
    assert!(ndjson == stored, "byte for byte, so that its seals still fit");
    assert_eq!(reader.export(&RecordFilter::default(), ExportFormat::Csv, &mut csv).unwrap(), count);
    let csv = String::from_utf8(csv).unwrap();
    assert_eq!(csv.lines().count() as u64, count + 1, "one record, one row");
    assert!(csv.contains(r#""two\u{a}lines, ""quotes"" and =SUM(A1)\u{202e}""#), "{csv}");
    let refused = RecordFilter { outcome: Some("refused".into()), limit: Some(4), ..RecordFilter::default() };
    assert_eq!(reader.export(&refused, ExportFormat::Csv, &mut Vec::new()).unwrap(), 4);
    for (format, whole) in [(ExportFormat::Ndjson, ndjson), (ExportFormat::Csv, csv.into_bytes())] {
        assert!(paged(&reader, format) == whole, "page by page it is the same");
    }
}

/// Returns all pages of an export, concatenated.
fn paged(reader: &LedgerReader, format: ExportFormat) -> Vec<u8> {
    let (mut text, mut filter, mut pages) = (String::new(), RecordFilter::default(), 0);
    loop {
        let page = reader.export_page(&filter, format, 8192).unwrap();
        assert!(page.text.len() <= 8192 && page.records > 0, "{} bytes", page.text.len());
        text.push_str(&page.text);
        pages += 1;
        match page.next_after_seq {
            Some(seq) => filter.after_seq = Some(seq),
            None => break,
        }
    }
    assert!(pages > 2, "{pages} pages");
    text.into_bytes()
}

#[test]
fn a_concurrent_reader_sees_complete_records_only() {
    let folder = tempfile::tempdir().unwrap();
    let options =
        LedgerOptions { segment_bytes: 200_000, retain_bytes: Some(1_000_000), ..LedgerOptions::default() };
    let (ledger, _) = open_with(folder.path(), &options);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..6000 {
                ledger.append(&samples::note(&format!("{n} {}", "é\n".repeat(n % 200)))).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let reader = LedgerReader::new(folder.path());
        let mut last = 0;
        while !done.load(Ordering::Acquire) {
            let head = ledger.health().head;
            let tail = reader.tail(20).unwrap();
            let seqs: Vec<u64> = tail.iter().map(|record| record.seq).collect();
            assert!(seqs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{seqs:?}");
            assert!(seqs.last() >= Some(&head) && seqs.last() >= Some(&last), "{seqs:?} at {head}");
            last = *seqs.last().unwrap();
            let after =
                reader.query(&RecordFilter { after_seq: Some(last), ..RecordFilter::default() }).unwrap();
            assert!(after.iter().all(|record| record.seq > last));
            assert_intact(folder.path());
        }
    });
    drop(ledger);
    assert_intact(folder.path());
}

/// A reader beside a writer sees complete, consecutive records up to some moment.
#[test]
fn a_concurrent_reader_sees_no_partial_record() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let key = crate::key::LedgerKey::load(&folder.path().join("key")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..4_000 {
                ledger.append(&samples::note(&format!("{n} {}", "x".repeat(n % 900)))).unwrap();
            }
            done.store(true, Ordering::Release);
        });
        let reader = LedgerReader::new(folder.path());
        loop {
            let (over, head) = (done.load(Ordering::Acquire), ledger.health().head);
            let mut text = Vec::new();
            reader.export(&RecordFilter::default(), ExportFormat::Ndjson, &mut text).unwrap();
            let mut last = 0;
            for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let parts = crate::line::parse_line(line).filter(|parts| parts.is_authentic(&key));
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
