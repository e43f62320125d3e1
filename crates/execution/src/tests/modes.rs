//! The mode: who may change it, what changes it by itself, and what becomes of calls under way.

use std::sync::Arc;

use futures_util::FutureExt;
use registry::ToolRegistry;
use serde_json::{Value, json};
use tool::{Category, FailureKind, Mode, RefusalCode, ToolSpec};

use super::{Bench, Does, Gate, caller, done, kind, records, request, waits_for};
use crate::{ModeError, Standing, ToolExecutionLayer};

async fn set(layer: &Arc<ToolExecutionLayer>, mode: Mode) -> Result<Mode, ModeError> {
    Ok(layer.set_mode(mode, "test", &caller(), None).await?.previous)
}

/// How many tools run and have not answered at once.
fn running(layer: &ToolExecutionLayer) -> usize {
    layer.calls().iter().filter(|call| call.standing == Standing::Running).count()
}

fn changes(folder: &std::path::Path) -> Vec<Value> {
    records(folder).into_iter().filter(|record| record["kind"] == "mode").collect()
}

#[tokio::test]
async fn a_human_keeps_to_the_edges_and_may_lock_down_from_anywhere() {
    let (layer, folder) = Bench::new().layer();
    let refused = set(&layer, Mode::Recovery).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "no way leads from NORMAL to RECOVERY: from NORMAL a human can set ALERT or DEGRADED or LOCKDOWN"
    );
    assert_eq!((layer.mode(), changes(folder.path()).len()), (Mode::Normal, 0), "and nothing is written");
    for from in [Mode::Normal, Mode::Alert, Mode::Degraded, Mode::Recovery] {
        for way in [Mode::Lockdown, Mode::Recovery, Mode::Normal] {
            set(&layer, way).await.unwrap();
        }
        match from {
            Mode::Normal => {}
            Mode::Recovery => {
                set(&layer, Mode::Lockdown).await.unwrap();
                set(&layer, from).await.unwrap();
            }
            other => {
                set(&layer, other).await.unwrap();
            }
        }
        assert_eq!(set(&layer, Mode::Lockdown).await.unwrap(), from);
        assert!(matches!(set(&layer, Mode::Normal).await, Err(ModeError::NoWay { .. })));
        assert_eq!(layer.mode(), Mode::Lockdown);
    }
    let written = changes(folder.path()).len();
    assert_eq!(set(&layer, Mode::Lockdown).await.unwrap(), Mode::Lockdown);
    assert_eq!(changes(folder.path()).len(), written, "the same mode writes nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_changes_the_one_that_was_asked_for_last_is_made_last() {
    let (layer, _folder) = Bench::new().layer();
    set(&layer, Mode::Lockdown).await.unwrap();
    for round in 0..100 {
        let (out, back) = tokio::join!(biased; set(&layer, Mode::Recovery), set(&layer, Mode::Lockdown));
        assert_eq!((out.unwrap(), back.unwrap()), (Mode::Lockdown, Mode::Recovery), "round {round}");
        assert_eq!(layer.mode(), Mode::Lockdown, "round {round}");
    }
}

/// A tool that only RECOVERY lets run, and that could do harm.
fn forbidden(registry: &mut ToolRegistry) {
    let mut spec = ToolSpec::new("forbidden", "A test tool", Category::SYSTEM_WRITE, tool::RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object"}));
    spec.allowed_modes = vec![Mode::Recovery];
    registry.register(spec.check().unwrap(), Arc::new(Does(|_| done(json!({}))))).unwrap();
}

async fn be_refused(layer: &Arc<ToolExecutionLayer>, times: usize) {
    for _ in 0..times {
        let result = layer.execute(request("forbidden", json!({}), None)).await;
        assert_eq!(result.metadata.refusal.unwrap().code, RefusalCode::ModeDenied);
    }
}

#[tokio::test]
async fn six_refused_calls_in_a_minute_raise_the_alarm_and_five_do_not() {
    let mut registry = ToolRegistry::new();
    forbidden(&mut registry);
    let folder = tempfile::tempdir().unwrap();
    let layer = Bench::layer_in(folder.path(), registry);
    be_refused(&layer, 5).await;
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
    be_refused(&layer, 1).await;
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Alert);
    let [change] = changes(folder.path()).try_into().unwrap();
    assert_eq!((&change["from"], &change["to"]), (&json!("NORMAL"), &json!("ALERT")));
    assert_eq!(change["by"], "transition_rules.NORMAL_to_ALERT");
    assert!(change["reason"].as_str().unwrap().contains("refused_high_risk_calls 6 > 5 in 60 s"), "{change}");
    assert_eq!(change["data"]["sensors"][0]["value"], 6.0, "{change}");
    // What a human has seen is not held against the agent again; what comes after is.
    set(&layer, Mode::Normal).await.unwrap();
    be_refused(&layer, 5).await;
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
    be_refused(&layer, 1).await;
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Alert);
}

#[tokio::test]
async fn a_restart_forgives_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut registry = ToolRegistry::new();
        forbidden(&mut registry);
        Bench::layer_in(folder.path(), registry)
    };
    let first = start();
    be_refused(&first, 5).await;
    first.close("test");
    drop(first);
    let second = start();
    second.recall().await;
    second.follow_rules(None).await;
    assert_eq!(second.mode(), Mode::Normal);
    be_refused(&second, 1).await;
    second.follow_rules(None).await;
    assert_eq!(second.mode(), Mode::Alert, "five before the restart and one after it");
    set(&second, Mode::Normal).await.unwrap();
    second.close("test");
    drop(second);
    let third = start();
    third.recall().await;
    third.follow_rules(None).await;
    assert_eq!(third.mode(), Mode::Normal, "a human has seen them all");
}

#[tokio::test]
async fn good_work_raises_no_alarm() {
    let bench = Bench::new().tool("change", Category::SYSTEM_WRITE, |_| done(json!({})));
    let (layer, _folder) = bench.layer();
    for _ in 0..50 {
        assert!(layer.execute(request("change", json!({}), None)).await.success);
    }
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
}

#[tokio::test]
async fn running_out_of_something_degrades() {
    let bench = Bench::new().tool("full", Category::READ_ONLY, |_| {
        Box::pin(async { Err(tool::Failure::new(FailureKind::ResourceExhausted, "no space left")) })
    });
    let (layer, folder) = bench.layer();
    layer.execute(request("full", json!({}), None)).await;
    layer.follow_rules(None).await;
    assert_eq!(layer.mode(), Mode::Degraded);
    let [change] = changes(folder.path()).try_into().unwrap();
    assert!(change["reason"].as_str().unwrap().contains("resource_exhaustion 1 > 0"), "{change}");
}

#[tokio::test]
async fn lockdown_ends_what_it_forbids_and_lets_the_rest_finish() {
    let gate = Gate::default();
    let bench = Bench::new().tool("change", Category::SYSTEM_WRITE, waits_for(&gate)).tool(
        "read",
        Category::READ_ONLY,
        waits_for(&gate),
    );
    let (layer, folder) = bench.layer();
    let start = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
    };
    let (write, read) = (start("change"), start("read"));
    while running(&layer) < 2 {
        tokio::task::yield_now().await;
    }
    set(&layer, Mode::Alert).await.unwrap();
    assert_eq!(running(&layer), 2, "ALERT lets both come to their end");
    set(&layer, Mode::Lockdown).await.unwrap();
    let cancelled = write.await.unwrap();
    assert_eq!(kind(&cancelled), Some(FailureKind::Cancelled), "{cancelled:?}");
    assert_eq!(kind(&cancelled).unwrap().fault(), tool::Fault::Operator, "the caller did nothing wrong");
    assert!(cancelled.error.unwrap().contains("LOCKDOWN was entered"), "the reply says why");
    let outcome = records(folder.path()).into_iter().rfind(|record| record["kind"] == "outcome").unwrap();
    assert_eq!((&outcome["outcome"], &outcome["failure"]), (&json!("unknown"), &json!("cancelled")));
    gate.open();
    assert!(read.await.unwrap().success, "a look is allowed in LOCKDOWN");
}

#[tokio::test]
async fn a_call_that_waits_is_judged_again_at_once() {
    let gate = Gate::default();
    let bench = Bench::new().tool("slow", Category::READ_ONLY, waits_for(&gate)).such_tool(
        "change",
        Category::SYSTEM_WRITE,
        |_| {},
        |_| done(json!({})),
    );
    let (layer, _folder) = bench.layer();
    layer.limits.set_places(1);
    let start = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
    };
    let slow = start("slow");
    while layer.status().calls.running < 1 {
        tokio::task::yield_now().await;
    }
    let waiting = start("change");
    while layer.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    set(&layer, Mode::Lockdown).await.unwrap();
    let refused = waiting.await.unwrap();
    assert_eq!(
        refused.metadata.refusal.unwrap().code,
        RefusalCode::ModeDenied,
        "while the place is still taken"
    );
    assert_eq!(layer.status().calls.running, 1);
    gate.open();
    assert!(slow.await.unwrap().success);
}

/// Whether the call was overtaken: a disk that is done before anybody looks leaves no time for it.
async fn overtaken_by(mode: Mode, last: &[&str]) -> bool {
    let bench = || Bench::new().tool("change", Category::SYSTEM_WRITE, |_| done(json!({})));
    let (layer, folder) = bench().layer();
    let mut asked = Box::pin(layer.execute(request("change", json!({}), None)));
    // It waits for its decision to be on disk, and meanwhile the rules and the mode are replaced.
    if asked.as_mut().now_or_never().is_some() {
        return false;
    }
    layer.world.store(Bench::world_in(folder.path(), bench().registry).into());
    layer.mode.set(mode);
    let result = asked.await;
    assert_eq!(result.success, mode == Mode::Normal, "{mode}: {result:?}");
    let written = records(folder.path());
    let calls = written.iter().filter(|record| record["call_id"].is_string());
    let ends = calls.filter_map(|record| record["outcome"].as_str().or(record["kind"].as_str()));
    let ends: Vec<&str> = ends.collect();
    assert_eq!(ends, [&["decision", "not_started"], last].concat(), "{mode}");
    true
}

#[tokio::test]
async fn a_call_that_was_recorded_and_not_started_is_judged_again() {
    for (mode, last) in [(Mode::Normal, &["decision", "done"][..]), (Mode::Lockdown, &["refusal"])] {
        let mut tries = 0;
        while !overtaken_by(mode, last).await {
            tries += 1;
            assert!(tries < 100, "{mode}: the disk was faster than the caller a hundred times");
        }
    }
}

#[tokio::test]
async fn what_waits_for_a_human_stands_in_the_status() {
    let (layer, folder) = Bench::new().layer();
    set(&layer, Mode::Alert).await.unwrap();
    assert!(layer.status().proposal.is_none());
    let transition = governance::Transition {
        from: Mode::Alert,
        to: Mode::Normal,
        rule: tool::RuleRef {
            file: "modes.yaml".into(),
            line: 7,
            id: "transition_rules.ALERT_to_NORMAL".into(),
        },
        readings: Vec::new(),
    };
    layer.propose(&transition);
    let note = records(folder.path()).into_iter().rfind(|record| record["kind"] == "note").unwrap();
    assert_eq!((&note["about"], &note["data"]["to"]), (&json!("mode_proposal"), &json!("NORMAL")), "{note}");
    assert_eq!(layer.mode(), Mode::Alert);
}

#[tokio::test]
async fn the_pin_is_asked_for_by_the_mode_that_is_left_in_its_turn() {
    let (layer, folder) = Bench::new().layer();
    std::fs::create_dir_all(folder.path().join("state")).unwrap();
    layer.pin().set(None, Some("correct horse".to_owned())).await.unwrap();
    // In NORMAL, where it was asked, DEGRADED takes no PIN. In ALERT, where it is left, it does.
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    let refused = layer.set_mode(Mode::Degraded, "test", &caller(), None).await;
    assert!(matches!(refused, Err(crate::ModeError::Unproven)), "{refused:?}");
    let proof = layer.pin().verify(Some("correct horse".to_owned())).await.unwrap();
    layer.set_mode(Mode::Degraded, "test", &caller(), Some(proof)).await.unwrap();
    assert_eq!(layer.mode(), Mode::Degraded);
}
