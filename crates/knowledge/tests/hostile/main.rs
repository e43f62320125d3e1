//! Functions that mean harm, each in a real worker process: every one is stopped in time and refused, and the next
//! call is answered as if nothing had been.

#![allow(clippy::unwrap_used)] // a test may fail

mod breaking;
mod endless;
mod greedy;
mod lying;
mod reaching;
mod workers;

use std::time::{Duration, Instant};

use knowledge::{Function, Kind, KnowledgeError};
use serde_json::json;

use crate::workers::{Pool, pool};

/// What a machine that does other things as well may add. Left alone, what is stopped here would take minutes or for ever.
const BUSY: Duration = Duration::from_secs(10);
/// A limit of 500 ms, and 50 ms to stop.
const IN_TIME: Duration = Duration::from_millis(550);
/// A busy moment makes one attempt late, and what cannot be stopped in time all of them.
const ATTEMPTS: usize = 10;

fn validator(source: &str) -> Function {
    Function { kind: Kind::Validator, id: "hostile".into(), source: source.into(), helpers: [].into() }
}

/// Every script is refused, in time, whichever way it chose to go wrong; four run at once.
fn all_are_refused(scripts: &'static [(&'static str, &'static str)]) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        for few in scripts.chunks(4) {
            let running: Vec<_> = few
                .iter()
                .map(|(name, source)| {
                    let workers = pool.workers.clone();
                    tokio::spawn(async move {
                        // A worker that is only now started is not the script's time.
                        let started = Instant::now();
                        let end = workers.validate(&validator(source), r#"{"a": 1}"#).await;
                        (name, end, started.elapsed())
                    })
                })
                .collect();
            for one in running {
                let (name, end, took) = one.await.unwrap();
                let refused = end.as_ref().map_or(true, |validation| !validation.passes());
                assert!(refused, "{name} was let through: {end:?}");
                let unavailable = matches!(end, Err(KnowledgeError::Unavailable(_)));
                assert!(!unavailable, "{name} was not even run: {end:?}");
                if took >= IN_TIME {
                    is_stopped_in_time(&pool, name, source_of(scripts, name)).await;
                }
            }
        }
        still_answers(&pool).await;
    });
}

fn source_of(scripts: &[(&str, &'static str)], name: &str) -> &'static str {
    scripts.iter().find(|(known, _)| *known == name).map(|(_, source)| *source).unwrap()
}

/// By itself, in a worker that is warm. What this machine is late for anything at that moment is not the script's.
async fn is_stopped_in_time(pool: &Pool, name: &str, source: &str) {
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        still_answers(pool).await;
        let started = Instant::now();
        let stopped = async {
            let end = pool.workers.validate(&validator(source), r#"{"a": 1}"#).await;
            (end, started.elapsed())
        };
        let waited = async {
            tokio::time::sleep(IN_TIME).await;
            started.elapsed()
        };
        let ((end, took), in_time) = tokio::join!(stopped, waited);
        assert!(end.map_or(true, |validation| !validation.passes()), "{name}");
        if took < in_time {
            return;
        }
        seen.push((took, in_time));
    }
    assert!(seen.len() < ATTEMPTS, "{name} took longer than a wait of {IN_TIME:?} each time: {seen:?}");
}

/// A machine that stands still for half a second makes even this one late, though not each time.
async fn still_answers(pool: &Pool) {
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
    all_are_refused(endless::LOOPS);
}

#[test]
fn natives_that_never_look_at_the_clock_are_killed() {
    all_are_refused(endless::NATIVES);
}

#[test]
fn hoards_are_stopped_within_their_memory() {
    all_are_refused(greedy::HOARDS);
}

#[test]
fn towers_do_not_fall_on_the_engine() {
    all_are_refused(breaking::TOWERS);
}

#[test]
fn wrong_answers_are_refused() {
    all_are_refused(lying::ANSWERS);
}

#[test]
fn there_is_nothing_to_reach_for() {
    all_are_refused(reaching::REACHES);
}

#[test]
fn there_are_a_hundred_of_them_and_no_name_twice() {
    let all = [
        endless::LOOPS,
        endless::NATIVES,
        greedy::HOARDS,
        breaking::TOWERS,
        lying::ANSWERS,
        reaching::REACHES,
    ];
    let mut names: Vec<&str> = all.iter().flat_map(|list| list.iter().map(|(name, _)| *name)).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert!(count >= 100 && names.len() == count, "{count} scripts, {} names", names.len());
}

/// A validator loop ends near its 500 ms, a helper loop near its second, and neither before.
#[test]
fn each_kind_has_its_time() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        still_answers(&pool).await;
        for (kind, least) in [(Kind::Validator, 500), (Kind::Helper, 1000), (Kind::Processor, 1000)] {
            let endless = Function { kind, ..validator("for (;;) {}") };
            let started = Instant::now();
            let error = match kind {
                Kind::Validator => pool.workers.validate(&endless, "{}").await.unwrap_err(),
                Kind::Helper | Kind::Processor => {
                    pool.workers.compute(&endless, &json!({})).await.unwrap_err()
                }
            };
            let (took, least) = (started.elapsed(), Duration::from_millis(least));
            assert!(matches!(error, KnowledgeError::TimedOut { .. }), "{error}");
            assert!(took >= least && took < least + BUSY, "{kind:?} took {took:?}");
        }
    });
}

/// The engine's own limit, and what the process is larger for it.
#[cfg(target_os = "linux")]
#[test]
fn a_worker_never_grows_beyond_the_limit_and_its_overhead() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let modest = pool();
        still_answers(&modest).await;
        let (idle, mut most) = (modest.peak_of_those_that_end(), 0);
        for (name, source) in greedy::HOARDS {
            let pool = pool();
            let end = pool.workers.validate(&validator(source), "{}").await;
            assert!(end.map_or(true, |validation| !validation.passes()), "{name}");
            most = most.max(pool.peak_of_those_that_end());
        }
        let grown = most.saturating_sub(idle);
        assert!(idle > 0 && grown < 16 * 1024, "{idle} KiB idle, {grown} KiB more at the most");
    });
}

#[test]
fn a_slow_validator_says_how_long_it_took() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        let slow = "let n = 0; for (let i = 0; i < 2e4; i++) n += i % 7; ({valid: n > 0, errors: []})";
        let validation = pool.workers.validate(&validator(slow), "{}").await.unwrap();
        assert!(validation.passes() && validation.took > std::time::Duration::ZERO);
    });
}

#[test]
fn a_crash_is_told_as_one_and_the_worker_replaced() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        still_answers(&pool).await;
        pool.kill_all();
        still_answers(&pool).await;
        assert_eq!(pool.started(), 2, "the dead one was not blamed on the next call");
        // One that had waited may have died before it was asked, so a fresh one is asked too; that one dies as well.
        let error = pool.workers.validate(&validator(workers::CRASH), "{}").await.unwrap_err();
        assert!(matches!(error, KnowledgeError::Crashed { .. }), "{error}");
        assert_eq!(pool.started(), 3, "nobody is asked twice who was fresh");
        still_answers(&pool).await;
    });
}

/// Who stops waiting takes the worker with them: nobody else meets its half-done work.
#[test]
fn a_caller_that_leaves_ends_the_worker() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let pool = pool();
        still_answers(&pool).await;
        let endless = validator("for (;;) {}");
        let left =
            tokio::time::timeout(Duration::from_millis(30), pool.workers.validate(&endless, "{}")).await;
        assert!(left.is_err());
        assert_eq!(pool.alive(), 0);
        still_answers(&pool).await;
    });
}

#[test]
fn without_a_worker_nothing_passes() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let none = knowledge::Workers::new(|| Box::pin(async { Err(std::io::Error::other("no walls")) }));
        let fine = validator("({valid: true, errors: []})");
        let error = none.validate(&fine, "{}").await.unwrap_err();
        assert!(matches!(&error, KnowledgeError::Unavailable(why) if why.contains("no walls")), "{error}");
    });
}

#[test]
fn b144_a_helper_that_is_not_there_is_named_with_those_that_are() {
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
            let function = Function { helpers, ..validator(&format!("module.exports = (a) => {source}")) };
            let error = pool.workers.compute(&function, &json!("x")).await.unwrap_err();
            assert_eq!(error.to_string(), expect, "{source}");
        }
    });
}
