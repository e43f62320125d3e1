//! Hostile functions, each in a real worker process: every one is stopped in time and refused, and the next
//! call succeeds.

#![allow(clippy::unwrap_used)] // a test may fail

mod deep_nesting;
mod endless;
mod invalid_verdicts;
mod memory_exhaustion;
mod outside_access;
mod workers;

use std::time::{Duration, Instant};

use knowledge::{FunctionKind, KnowledgeError, KnowledgeFunction};
use serde_json::json;

use crate::workers::{TestWorkerPool, pool};

/// Tolerance for a busy machine. Without a limit, these scripts would run for minutes or forever.
const BUSY_TOLERANCE: Duration = Duration::from_secs(10);
/// Limit of 500 ms, plus 50 ms to stop.
const STOP_DEADLINE: Duration = Duration::from_millis(550);
/// Number of attempts. A busy moment delays a single one; a script that cannot be stopped in time delays all.
const ATTEMPTS: usize = 10;

fn validator(source: &str) -> KnowledgeFunction {
    KnowledgeFunction {
        kind: FunctionKind::Validator,
        id: "hostile".into(),
        source: source.into(),
        helpers: [].into(),
    }
}

/// Asserts that every script is refused in time, with four running at once.
fn check_all_refused(scripts: &'static [(&'static str, &'static str)]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        for few in scripts.chunks(4) {
            let running: Vec<_> = few
                .iter()
                .map(|(name, source)| {
                    let workers = pool.workers.clone();
                    tokio::spawn(async move {
                        // The start of a worker does not count as time of the script.
                        let started = Instant::now();
                        let end = workers.validate(&validator(source), r#"{"a": 1}"#).await;
                        (name, end, started.elapsed())
                    })
                })
                .collect();
            for one in running {
                let (name, end, took) = one.await.unwrap();
                let refused = end.as_ref().map_or(true, |validation| !validation.passes());
                assert!(refused, "{name} was accepted: {end:?}");
                let unavailable = matches!(end, Err(KnowledgeError::Unavailable(_)));
                assert!(!unavailable, "{name} was not even run: {end:?}");
                if took >= STOP_DEADLINE {
                    check_stopped_in_time(&pool, name, source_of(scripts, name)).await;
                }
            }
        }
        check_still_answers(&pool).await;
    });
}

fn source_of(scripts: &[(&str, &'static str)], name: &str) -> &'static str {
    scripts.iter().find(|(known, _)| *known == name).map(|(_, source)| *source).unwrap()
}

/// Runs one script alone in a warm worker, and compares with a timer that suffers the same delays of the
/// machine.
async fn check_stopped_in_time(pool: &TestWorkerPool, name: &str, source: &str) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        check_still_answers(pool).await;
        let started = Instant::now();
        let stopped = async {
            let end = pool.workers.validate(&validator(source), r#"{"a": 1}"#).await;
            (end, started.elapsed())
        };
        let waited = async {
            tokio::time::sleep(STOP_DEADLINE).await;
            started.elapsed()
        };
        let ((end, took), in_time) = tokio::join!(stopped, waited);
        assert!(end.map_or(true, |validation| !validation.passes()), "{name}");
        if took < in_time {
            return;
        }
        seen.push((took, in_time));
    }
    assert!(seen.len() < ATTEMPTS, "{name} took longer than a wait of {STOP_DEADLINE:?} each time: {seen:?}");
}

/// Asserts that a valid call succeeds. A machine that stalls for half a second can delay one attempt, but not
/// all.
async fn check_still_answers(pool: &TestWorkerPool) {
    let fine = validator("module.exports = (args) => ({valid: args.a === 1, errors: []})");
    for attempt in 1..=ATTEMPTS {
        match pool.workers.validate(&fine, r#"{"a": 1}"#).await {
            Err(KnowledgeError::TimedOut { .. }) if attempt < ATTEMPTS => {}
            end => return assert!(end.unwrap().passes()),
        }
    }
}

#[test]
fn loops_are_stopped() {
    check_all_refused(endless::LOOPS);
}

#[test]
fn native_functions_that_ignore_the_clock_are_killed() {
    check_all_refused(endless::NATIVES);
}

#[test]
fn memory_exhaustion_is_stopped_at_the_limit() {
    check_all_refused(memory_exhaustion::MEMORY_SCRIPTS);
}

#[test]
fn deep_nesting_does_not_crash_the_engine() {
    check_all_refused(deep_nesting::NESTING_SCRIPTS);
}

#[test]
fn invalid_verdicts_are_refused() {
    check_all_refused(invalid_verdicts::VERDICT_SCRIPTS);
}

#[test]
fn no_outside_interface_is_available() {
    check_all_refused(outside_access::OUTSIDE_ACCESS_SCRIPTS);
}

#[test]
fn there_are_a_hundred_scripts_with_unique_names() {
    let all = [
        endless::LOOPS,
        endless::NATIVES,
        memory_exhaustion::MEMORY_SCRIPTS,
        deep_nesting::NESTING_SCRIPTS,
        invalid_verdicts::VERDICT_SCRIPTS,
        outside_access::OUTSIDE_ACCESS_SCRIPTS,
    ];
    let mut names: Vec<&str> = all.iter().flat_map(|list| list.iter().map(|(name, _)| *name)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(count >= 100 && names.len() == count, "{count} scripts, {} names", names.len());
}

/// A validator loop ends near 500 ms, a helper loop near one second, and neither earlier.
#[test]
fn each_kind_has_its_time_limit() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        check_still_answers(&pool).await;
        for (kind, least) in
            [(FunctionKind::Validator, 500), (FunctionKind::Helper, 1000), (FunctionKind::Processor, 1000)]
        {
            let endless = KnowledgeFunction { kind, ..validator("for (;;) {}") };
            let started = Instant::now();
            let error = match kind {
                FunctionKind::Validator => pool.workers.validate(&endless, "{}").await.unwrap_err(),
                FunctionKind::Helper | FunctionKind::Processor => {
                    pool.workers.compute(&endless, &json!({})).await.unwrap_err()
                }
            };
            let (took, least) = (started.elapsed(), Duration::from_millis(least));
            assert!(matches!(error, KnowledgeError::TimedOut { .. }), "{error}");
            assert!(took >= least && took < least + BUSY_TOLERANCE, "{kind:?} took {took:?}");
        }
    });
}

/// The bound is the limit of the engine plus the overhead of the process.
#[cfg(target_os = "linux")]
#[test]
fn worker_memory_stays_within_limit_and_overhead() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let modest = pool();
        check_still_answers(&modest).await;
        let (idle, mut max) = (modest.peak_memory(), 0);
        for (name, source) in memory_exhaustion::MEMORY_SCRIPTS {
            let pool = pool();
            let end = pool.workers.validate(&validator(source), "{}").await;
            assert!(end.map_or(true, |validation| !validation.passes()), "{name}");
            max = max.max(pool.peak_memory());
        }
        let grown = max.saturating_sub(idle);
        assert!(idle > 0 && grown < 16 * 1024, "{idle} KiB idle, {grown} KiB more at the most");
    });
}

#[test]
fn validation_reports_its_run_time() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        let slow = "let n = 0; for (let i = 0; i < 2e4; i++) n += i % 7; ({valid: n > 0, errors: []})";
        let validation = pool.workers.validate(&validator(slow), "{}").await.unwrap();
        assert!(validation.passes() && validation.duration > std::time::Duration::ZERO);
    });
}

#[test]
fn crash_is_reported_and_the_worker_replaced() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        check_still_answers(&pool).await;
        pool.kill_all();
        check_still_answers(&pool).await;
        assert_eq!(pool.started(), 2, "the death of an idle worker does not fail the next call");
        // An idle worker may have died before the request, so a new one is tried too; the script kills that
        // one as well.
        let error = pool.workers.validate(&validator(workers::CRASH), "{}").await.unwrap_err();
        assert!(matches!(error, KnowledgeError::Crashed { .. }), "{error}");
        assert_eq!(pool.started(), 3, "a request to a new worker is not retried");
        check_still_answers(&pool).await;
    });
}

/// A caller that stops waiting kills the worker, so that no other call meets its unfinished work.
#[test]
fn cancelled_call_kills_its_worker() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        check_still_answers(&pool).await;
        let endless = validator("for (;;) {}");
        let left =
            tokio::time::timeout(Duration::from_millis(30), pool.workers.validate(&endless, "{}")).await;
        assert!(left.is_err());
        assert_eq!(pool.alive(), 0);
        check_still_answers(&pool).await;
    });
}

#[test]
fn validation_fails_without_a_worker() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let none =
            knowledge::WorkerPool::new(|| Box::pin(async { Err(std::io::Error::other("no sandbox")) }));
        let fine = validator("({valid: true, errors: []})");
        let error = none.validate(&fine, "{}").await.unwrap_err();
        assert!(
            matches!(&error, KnowledgeError::Unavailable(reason) if reason.contains("no sandbox")),
            "{error}"
        );
    });
}

#[test]
fn missing_helper_is_named_with_the_available_ones() {
    let upper = || [("to-upper".into(), "module.exports = (t) => t.toUpperCase()".into())].into();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        for (source, helpers, expect) in [
            (
                "helpers['to-upper'](helpers[\"to-lower\"](a))",
                upper(),
                "helper `to-lower` not found; available: to-upper",
            ),
            ("helpers.lower(a)", upper(), "helper `lower` not found; available: to-upper"),
            ("helpers['x'](a)", [].into(), "helper `x` not found; available: none"),
            ("helpers['to-upper'](a)()", upper(), "validator `hostile` execution failed: not a function"),
        ] {
            let function =
                KnowledgeFunction { helpers, ..validator(&format!("module.exports = (a) => {source}")) };
            let error = pool.workers.compute(&function, &json!("x")).await.unwrap_err();
            assert_eq!(error.to_string(), expect, "{source}");
        }
    });
}
