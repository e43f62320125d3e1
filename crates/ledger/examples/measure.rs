//! Measures the cost of the ledger: `cargo run --release -p ledger --example measure -- [records] [folder]`.
//!
//! Prints the cost of a record written to the kernel and of one synced to disk, then the time of a start, of
//! queries and of a verification of that ledger. Fails if a start or a query exceeds its limit. With `count
//! call N` it only records N decisions and outcomes and prints nothing, for counting instructions.

use std::{
    error::Error,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use ledger::entry::{OutcomeFacts, StageTime};
use ledger::{
    CallHeader, Ledger, LedgerOptions, LedgerOutcome, OutcomeStatus, RecordFilter, RecordedDecision,
    RecordedEffect,
};
use tool::{CallId, Caller, CallerEndpoint, Mode, RiskLevel, RuleRef, TraceContext};

/// Limit for a start, which reads one segment regardless of the size of the ledger.
const LONGEST_START: Duration = Duration::from_secs(1);
/// Limit for a query over a million records, including the first time it runs.
const LONGEST_QUERY: Duration = Duration::from_millis(100);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).peekable();
    let counting = arguments.next_if(|word| word == "count").and_then(|_| arguments.next()).is_some();
    let records: u64 = arguments.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let folder = arguments.next().map_or_else(|| std::env::temp_dir().join("ledger-measure"), PathBuf::from);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    if counting {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(record(&folder, records))?;
        return Ok(std::fs::remove_dir_all(&folder)?);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(write(&folder, records))?;
    start(&folder)?;
    rebuild(&folder)?;
    query_all(&folder)?;
    let begun = Instant::now();
    let report = ledger::verify(&folder, &LedgerOptions::default())?;
    println!("verify of {} records, {} MB: {:?}", report.records, report.bytes >> 20, begun.elapsed());
    if !report.is_intact() {
        return Err(format!("{:?}", report.problems).into());
    }
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

fn decision(n: u64) -> RecordedDecision {
    let tools = [
        "read_file",
        "list_directory",
        "write_file",
        "fetch_url",
        "git_status",
        "run_tests",
        "shell",
        "search",
    ];
    let tool = usize::try_from(n % 8).ok().and_then(|index| tools.get(index)).copied().unwrap_or("rare_tool");
    let tool = if n % 50_000 == 777 { "rare_tool" } else { tool };
    let caller = Caller {
        uid: 501,
        pid: Some(4242),
        endpoint: CallerEndpoint::Mcp,
        connection: n % 5,
        client: Some(if n.is_multiple_of(2) { "claude-code" } else { "codex" }.into()),
        session: Some(format!("session-{}", n / 1000)),
        account: None,
    };
    let mode = if (n / 100_000).is_multiple_of(2) { Mode::Normal } else { Mode::Alert };
    let call = CallHeader {
        call_id: CallId::fresh(),
        tool: tool.into(),
        mode,
        caller: caller.into(),
        trace: TraceContext::root(),
    };
    RecordedDecision {
        call: Arc::new(call),
        risk: RiskLevel::Low,
        effect: RecordedEffect::Reads,
        decided_at: None,
        definition_hash: "d".repeat(64).into(),
        policy_hash: "p".repeat(64).into(),
        arguments_digest: "a".repeat(64).into(),
        idempotency_key: None,
        request_digest: None,
        approval_id: None,
        rules: rules(),
        facts: serde_json::Value::Null,
        facts_json: r#"{"paths":[{"key":"path","canonical":"/home/anna/notes.txt","size":120}]}"#.to_owned(),
    }
}

/// Returns the rules that decide most reads.
fn rules() -> Vec<RuleRef> {
    let rule = |file: &str, line, id: &str| RuleRef { file: file.into(), line, id: id.into() };
    vec![
        rule("/home/anna/.sinew/config/governance/tools.yaml", 37, "read_file.allowed_in_modes"),
        rule(
            "/home/anna/.sinew/config/governance/safety.yaml",
            25,
            "rate_limits.NORMAL.tool_calls_per_minute",
        ),
        rule("workspaces", 0, "workspaces"),
    ]
}

fn outcome(n: u64) -> LedgerOutcome {
    let status = if n % 100 == 3 { OutcomeStatus::Failed } else { OutcomeStatus::Done };
    let stage =
        |(stage, start_us): (&'static str, u64)| StageTime { stage: stage.into(), start_us, duration_us: 7 };
    let stages = [("check", 2), ("judge", 5), ("open", 9), ("judge", 12), ("record", 14), ("run", 28)];
    LedgerOutcome {
        output_digest: Some("o".repeat(64)),
        facts: OutcomeFacts { stages: stages.map(stage).into(), ..OutcomeFacts::default() },
        ..LedgerOutcome::new(status, Duration::from_micros(n % 5000))
    }
}

/// Records calls and does nothing else.
async fn record(folder: &Path, calls: u64) -> Result<()> {
    let (ledger, _) = Ledger::open(folder, &LedgerOptions::default())?;
    for n in 0..calls {
        let intent = ledger.intend(decision(n), ()).await?;
        ledger.conclude(&intent, outcome(n))?;
    }
    Ok(())
}

async fn write(folder: &Path, records: u64) -> Result<()> {
    let (ledger, _) = Ledger::open(folder, &LedgerOptions::default())?;
    let mut costs = Vec::new();
    for n in 0..records / 2 {
        let (decision, outcome) = (decision(n), outcome(n));
        let begun = Instant::now();
        let intent = ledger.intend(decision, ()).await?;
        let intended = begun.elapsed();
        let begun = Instant::now();
        ledger.conclude(&intent, outcome)?;
        costs.extend([intended, begun.elapsed()]);
    }
    print("record in the kernel", &mut costs);
    let mut costs = Vec::new();
    for n in 0..500 {
        let decision = RecordedDecision { effect: RecordedEffect::Changes, ..decision(n) };
        let begun = Instant::now();
        let intent = ledger.intend(decision, ()).await?;
        costs.push(begun.elapsed());
        ledger.conclude(&intent, outcome(n))?;
    }
    print("record on disk, one at a time", &mut costs);
    let (begun, before) = (Instant::now(), ledger.health().syncs);
    let calls: Vec<_> = (0..5000)
        .map(|n| {
            let ledger = Arc::clone(&ledger);
            let decision = RecordedDecision { effect: RecordedEffect::Changes, ..decision(n) };
            tokio::spawn(async move {
                let intent = ledger.intend(decision, ()).await.map_err(|error| error.to_string())?;
                ledger.conclude(&intent, outcome(n)).map_err(|error| error.to_string())
            })
        })
        .collect();
    for call in calls {
        call.await??;
    }
    println!("5000 at once on disk: {:?}, {} syncs", begun.elapsed(), ledger.health().syncs - before);
    let begun = Instant::now();
    while ledger.health().indexed < ledger.health().head {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("index caught up after another {:?}", begun.elapsed());
    Ok(())
}

fn rebuild(folder: &Path) -> Result<()> {
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = std::fs::remove_file(folder.join(name));
    }
    let begun = Instant::now();
    let (ledger, _) = Ledger::open(folder, &LedgerOptions::default())?;
    while ledger.health().indexed < ledger.health().head {
        std::thread::sleep(Duration::from_millis(20));
    }
    let size = std::fs::metadata(folder.join("index.sqlite"))?.len() >> 20;
    println!("index rebuilt in {:?}, {size} MB", begun.elapsed());
    Ok(())
}

fn start(folder: &Path) -> Result<()> {
    let begun = Instant::now();
    let (ledger, recovery) = Ledger::open(folder, &LedgerOptions::default())?;
    let took = begun.elapsed();
    let ran: u64 =
        recovery.executed.iter().flat_map(|ran| &ran.slots).map(|(_, count)| u64::from(*count)).sum();
    println!("start with {} records: {took:?} ({ran} runs in the last hour)", ledger.health().head);
    within(LONGEST_START, took, "a start")
}

/// Returns the measured queries, each with a name.
fn measured_queries(reader: &ledger::LedgerReader) -> Result<Vec<(&'static str, RecordFilter)>> {
    let some = |text: &str| Some(text.to_owned());
    let page = RecordFilter { limit: Some(100), ..RecordFilter::default() };
    let middle = reader.query(&RecordFilter {
        before_seq: Some(500_000),
        limit: Some(1),
        ..RecordFilter::default()
    })?;
    let time = middle.first().map(|record| record.time);
    let call = middle.first().and_then(|record| record.json().pointer("/call_id")?.as_str()?.parse().ok());
    let trace = middle
        .first()
        .and_then(|record| Some(record.json().pointer("/trace/trace_id")?.as_str()?.to_owned()));
    Ok(vec![
        ("the last 100", page.clone()),
        ("one call", RecordFilter { call_id: call, ..RecordFilter::default() }),
        ("one trace", RecordFilter { trace, ..RecordFilter::default() }),
        ("a common tool", RecordFilter { tool: some("write_file"), ..page.clone() }),
        ("a rare tool", RecordFilter { tool: some("rare_tool"), ..page.clone() }),
        (
            "failed calls of a tool",
            RecordFilter { tool: some("fetch_url"), outcome: some("failed"), ..page.clone() },
        ),
        (
            "failed calls of a tool that never fails",
            RecordFilter { tool: some("shell"), outcome: some("failed"), ..page.clone() },
        ),
        (
            "a mode and a caller",
            RecordFilter { mode: Some(Mode::Alert), caller: some("codex"), ..page.clone() },
        ),
        (
            "a mode, a caller and a tool that never meet",
            RecordFilter {
                mode: Some(Mode::Alert),
                caller: some("codex"),
                tool: some("read_file"),
                ..page.clone()
            },
        ),
        ("an old session", RecordFilter { session: some("session-3"), ..page.clone() }),
        (
            "an old session, a tool, an outcome",
            RecordFilter {
                session: some("session-3"),
                tool: some("shell"),
                outcome: some("done"),
                ..page.clone()
            },
        ),
        ("a kind", RecordFilter { kind: some("decision"), ..page.clone() }),
        (
            "a kind and a caller that never meet",
            RecordFilter { kind: some("checkpoint"), caller: some("codex"), ..page.clone() },
        ),
        ("until the middle", RecordFilter { until: time, ..page.clone() }),
        ("a tool since the middle", RecordFilter { since: time, tool: some("search"), ..page.clone() }),
        (
            "a tool since an hour from now",
            RecordFilter {
                since: Some(jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1)),
                tool: some("search"),
                ..page
            },
        ),
    ])
}

fn query_all(folder: &Path) -> Result<()> {
    let reader = ledger::LedgerReader::new(folder);
    let mut slowest = (Duration::ZERO, "");
    for (name, filter) in measured_queries(&reader)? {
        let mut costs = Vec::new();
        let mut found = 0;
        for _ in 0..5 {
            let begun = Instant::now();
            found = reader.query(&filter)?.len();
            costs.push(begun.elapsed());
        }
        let first = costs.first().copied().unwrap_or_default();
        costs.sort_unstable();
        slowest = slowest.max((first, name));
        println!(
            "{name}: {found} in {first:?} at first, {:?} then",
            costs.get(2).copied().unwrap_or_default()
        );
    }
    let (took, name) = slowest;
    println!("the slowest answer took {took:?}: {name}");
    within(LONGEST_QUERY, took, name)
}

fn within(longest: Duration, took: Duration, what: &str) -> Result<()> {
    if took <= longest {
        Ok(())
    } else {
        Err(format!("{what} took {took:?}; it may take {longest:?}").into())
    }
}

fn print(name: &str, costs: &mut [Duration]) {
    costs.sort_unstable();
    let at = |part: usize| costs.get(costs.len() * part / 1000).copied().unwrap_or_default();
    println!("{name}: p50 {:?}, p99 {:?}, p99.9 {:?}", at(500), at(990), at(999));
}
