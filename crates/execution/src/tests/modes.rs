//! Tests of the mode: allowed transitions, automatic transitions, and effects on active calls.

use std::sync::Arc;

use futures_util::FutureExt;
use ledger::entry::ModeChange;
use registry::ToolRegistry;
use serde_json::{Value, json};
use tool::{CallerEndpoint, Category, FailureKind, Mode, RefusalCode, ToolSpec};

use super::{FnTool, LayerBench, TestGate, blocked_by, caller, failure_kind, ready_output, records, request};
use crate::modes::ModeError;
use crate::{CallState, ToolExecutionLayer};

async fn set(layer: &Arc<ToolExecutionLayer>, mode: Mode) -> Result<Mode, ModeError> {
    Ok(layer.set_mode(mode, "test", &caller(), None).await?.previous)
}

/// Number of running calls in the list of calls.
fn running(layer: &ToolExecutionLayer) -> usize {
    layer.calls().iter().filter(|call| call.standing == CallState::Running).count()
}

fn mode_records(folder: &std::path::Path) -> Vec<Value> {
    records(folder).into_iter().filter(|record| record["kind"] == "mode").collect()
}

#[tokio::test]
async fn operator_follows_transitions_and_can_always_lock_down() {
    let (layer, folder) = LayerBench::new().layer();
    let refused = set(&layer, Mode::Recovery).await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "cannot change the mode from NORMAL to RECOVERY: from NORMAL the operator can set ALERT or DEGRADED or LOCKDOWN"
    );
    assert_eq!((layer.mode(), mode_records(folder.path()).len()), (Mode::Normal, 0), "nothing is recorded");
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
        assert!(matches!(set(&layer, Mode::Normal).await, Err(ModeError::NoTransition { .. })));
        assert_eq!(layer.mode(), Mode::Lockdown);
    }
    let written = mode_records(folder.path()).len();
    assert_eq!(set(&layer, Mode::Lockdown).await.unwrap(), Mode::Lockdown);
    assert_eq!(mode_records(folder.path()).len(), written, "setting the same mode records nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mode_changes_are_applied_in_order() {
    let (layer, _folder) = LayerBench::new().layer();
    set(&layer, Mode::Lockdown).await.unwrap();
    for round in 0..100 {
        let (out, back) = tokio::join!(biased; set(&layer, Mode::Recovery), set(&layer, Mode::Lockdown));
        assert_eq!((out.unwrap(), back.unwrap()), (Mode::Lockdown, Mode::Recovery), "round {round}");
        assert_eq!(layer.mode(), Mode::Lockdown, "round {round}");
    }
}

/// Registers a writing tool that is allowed only in RECOVERY.
fn register_recovery_tool(registry: &mut ToolRegistry) {
    let mut spec = ToolSpec::new("forbidden", "A test tool", Category::SYSTEM_WRITE, tool::RiskLevel::Low);
    spec.input_schema = Some(json!({"type": "object"}));
    spec.allowed_modes = vec![Mode::Recovery];
    registry.register(spec.check().unwrap(), Arc::new(FnTool(|_| ready_output(json!({}))))).unwrap();
}

/// Makes calls that the mode denies, each with an effect of its own. Two callers take turns, so that neither of them
/// is the sole cause.
async fn execute_refused(layer: &Arc<ToolExecutionLayer>, effects: std::ops::Range<usize>) {
    for effect in effects {
        let refusal = execute_refused_by(layer, i32::try_from(effect % 2).unwrap(), effect).await;
        assert_eq!(refusal.code, RefusalCode::ModeDenied);
    }
}

async fn execute_refused_by(layer: &Arc<ToolExecutionLayer>, pid: i32, effect: usize) -> tool::Refusal {
    let request = request("forbidden", json!({"effect": effect}), None);
    let caller = tool::Caller { pid: Some(pid), ..request.caller };
    layer.execute(crate::CallRequest { caller, ..request }).await.metadata.refusal.unwrap()
}

#[tokio::test]
async fn sole_cause_of_refusals_is_suspended_instead() {
    let mut registry = ToolRegistry::new();
    register_recovery_tool(&mut registry);
    let folder = tempfile::tempdir().unwrap();
    let layer = LayerBench::layer_in(folder.path(), registry);
    for (pid, effects) in [(1, 0..40), (2, 40..50), (3, 50..60)] {
        for effect in effects {
            execute_refused_by(&layer, pid, effect).await;
            layer.apply_mode_rules(None).await;
        }
        let refusal = execute_refused_by(&layer, pid, 1000).await;
        let detail = (refusal.code, refusal.detail.as_deref());
        assert_eq!(detail, (RefusalCode::RateLimited, Some("caller_suspended")), "process {pid}");
        assert!((590_000..=600_001).contains(&refusal.retry_after_ms.unwrap()), "{refusal:?}");
        assert_eq!(layer.mode(), Mode::Normal, "process {pid}");
    }
    let ids: Vec<String> = layer.suspended_callers().into_iter().map(|suspended| suspended.id).collect();
    assert_eq!(ids, ["process:1", "process:2", "process:3"]);
    assert!(layer.resume_caller("process:1", &caller()) && !layer.resume_caller("process:1", &caller()));
    assert_eq!(execute_refused_by(&layer, 1, 1000).await.code, RefusalCode::ModeDenied, "it goes on");
    let notes = records(folder.path()).into_iter().filter(|record| record["kind"] == "note");
    let about: Vec<String> = notes.map(|note| note["about"].as_str().unwrap().to_owned()).collect();
    assert_eq!(about, ["caller_suspended", "caller_suspended", "caller_suspended", "caller_resumed"]);
    // Several processes that do the same may be one agent.
    for (pid, effects) in [(4, 60..70), (5, 70..80)] {
        for effect in effects {
            execute_refused_by(&layer, pid, effect).await;
            layer.apply_mode_rules(None).await;
        }
    }
    assert_eq!(layer.mode(), Mode::Alert, "three callers are suspended already");
}

#[tokio::test]
async fn ten_refused_effects_in_a_minute_cause_alert() {
    let mut registry = ToolRegistry::new();
    register_recovery_tool(&mut registry);
    let folder = tempfile::tempdir().unwrap();
    let layer = LayerBench::layer_in(folder.path(), registry);
    execute_refused(&layer, 0..9).await;
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
    execute_refused(&layer, 9..10).await;
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Alert);
    let [change] = mode_records(folder.path()).try_into().unwrap();
    assert_eq!((&change["from"], &change["to"]), (&json!("NORMAL"), &json!("ALERT")));
    assert_eq!(change["by"], "transition_rules.NORMAL_to_ALERT");
    assert!(
        change["reason"].as_str().unwrap().contains("refused_high_risk_calls 10 > 9 in 60 s"),
        "{change}"
    );
    assert_eq!(change["data"]["sensors"][0]["value"], 10.0, "{change}");
    // Refusals from before the operator reset the mode no longer count; later ones do.
    set(&layer, Mode::Normal).await.unwrap();
    execute_refused(&layer, 0..9).await;
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
    execute_refused(&layer, 9..10).await;
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Alert);
}

/// The counts before and after a restart use the same identity of an effect.
#[tokio::test]
async fn same_refused_call_repeated_does_not_change_the_mode() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut registry = ToolRegistry::new();
        register_recovery_tool(&mut registry);
        LayerBench::layer_in(folder.path(), registry)
    };
    let first = start();
    for _ in 0..50 {
        execute_refused(&first, 0..1).await;
    }
    first.apply_mode_rules(None).await;
    assert_eq!(first.mode(), Mode::Normal);
    first.close("test");
    drop(first);
    let second = start();
    second.restore_counters().await;
    execute_refused(&second, 0..9).await;
    second.apply_mode_rules(None).await;
    assert_eq!(second.mode(), Mode::Normal, "nine effects, one of them from before the restart");
    execute_refused(&second, 9..10).await;
    second.apply_mode_rules(None).await;
    assert_eq!(second.mode(), Mode::Alert);
}

#[tokio::test]
async fn cause_of_the_mode_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || LayerBench::layer_in(folder.path(), ToolRegistry::new());
    let first = start();
    assert_eq!(first.mode_cause(), None, "the mode never changed");
    set(&first, Mode::Alert).await.unwrap();
    set(&first, Mode::Lockdown).await.unwrap();
    let cause = first.mode_cause().unwrap();
    assert_eq!((cause.from, cause.reason.as_str()), (Mode::Alert, "test"));
    assert_eq!(cause.leave_with.as_deref(), Some("sinew mode set RECOVERY"));
    first.close("test");
    drop(first);
    let second = start();
    second.restore_counters().await;
    let restored = second.mode_cause().unwrap();
    assert_eq!((restored.from, &restored.reason, &restored.by), (cause.from, &cause.reason, &cause.by));
    for mode in [Mode::Recovery, Mode::Normal] {
        set(&second, mode).await.unwrap();
    }
    assert_eq!(second.mode_cause().unwrap().leave_with, None, "NORMAL is not left");
}

#[tokio::test]
async fn refused_calls_count_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut registry = ToolRegistry::new();
        register_recovery_tool(&mut registry);
        LayerBench::layer_in(folder.path(), registry)
    };
    let first = start();
    execute_refused(&first, 0..9).await;
    first.close("test");
    drop(first);
    let second = start();
    second.restore_counters().await;
    second.apply_mode_rules(None).await;
    assert_eq!(second.mode(), Mode::Normal);
    execute_refused(&second, 9..10).await;
    second.apply_mode_rules(None).await;
    assert_eq!(second.mode(), Mode::Alert, "nine before the restart and one after it");
    set(&second, Mode::Normal).await.unwrap();
    second.close("test");
    drop(second);
    let third = start();
    third.restore_counters().await;
    third.apply_mode_rules(None).await;
    assert_eq!(third.mode(), Mode::Normal, "the operator has reset the mode since");
}

#[tokio::test]
async fn successful_calls_do_not_change_the_mode() {
    let bench = LayerBench::new().tool("change", Category::SYSTEM_WRITE, |_| ready_output(json!({})));
    let (layer, _folder) = bench.layer();
    for _ in 0..50 {
        assert!(layer.execute(request("change", json!({}), None)).await.success);
    }
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Normal);
}

#[tokio::test]
async fn resource_exhaustion_causes_degraded() {
    let bench = LayerBench::new().tool("full", Category::READ_ONLY, |_| {
        Box::pin(async { Err(tool::Failure::new(FailureKind::ResourceExhausted, "no space left")) })
    });
    let (layer, folder) = bench.layer();
    layer.execute(request("full", json!({}), None)).await;
    layer.apply_mode_rules(None).await;
    assert_eq!(layer.mode(), Mode::Degraded);
    let [change] = mode_records(folder.path()).try_into().unwrap();
    assert!(change["reason"].as_str().unwrap().contains("resource_exhaustion 1 > 0"), "{change}");
}

#[tokio::test]
async fn lockdown_cancels_only_the_calls_it_forbids() {
    let gate = TestGate::default();
    let bench = LayerBench::new().tool("change", Category::SYSTEM_WRITE, blocked_by(&gate)).tool(
        "read",
        Category::READ_ONLY,
        blocked_by(&gate),
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
    assert_eq!(running(&layer), 2, "ALERT cancels neither");
    set(&layer, Mode::Lockdown).await.unwrap();
    let cancelled = write.await.unwrap();
    assert_eq!(failure_kind(&cancelled), Some(FailureKind::Cancelled), "{cancelled:?}");
    assert_eq!(
        failure_kind(&cancelled).unwrap().fault(),
        tool::FaultParty::Operator,
        "the caller did nothing wrong"
    );
    let report = cancelled.metadata.failure.as_ref().unwrap();
    assert_eq!(report.outcome, Some(tool::result::FailedOutcome::Unknown), "part of it may have happened");
    assert!(cancelled.error.unwrap().contains("the mode changed to LOCKDOWN"), "the reply says why");
    let outcome = records(folder.path()).into_iter().rfind(|record| super::holds(record, "outcome")).unwrap();
    assert_eq!((&outcome["outcome"], &outcome["failure"]), (&json!("unknown"), &json!("cancelled")));
    gate.open();
    assert!(read.await.unwrap().success, "a read is allowed in LOCKDOWN");
}

#[tokio::test]
async fn queued_call_is_judged_again_at_once() {
    let gate = TestGate::default();
    let bench = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).tool_with_spec(
        "change",
        Category::SYSTEM_WRITE,
        |_| {},
        |_| ready_output(json!({})),
    );
    let (layer, _folder) = bench.layer();
    layer.capacity.limits.set_capacity(1);
    let start = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
    };
    let slow = start("slow");
    while layer.status().calls.running < 1 {
        tokio::task::yield_now().await;
    }
    let waiting = start("change");
    while layer.current.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    set(&layer, Mode::Lockdown).await.unwrap();
    let refused = waiting.await.unwrap();
    assert_eq!(
        refused.metadata.refusal.unwrap().code,
        RefusalCode::ModeDenied,
        "while the slot is still taken"
    );
    assert_eq!(layer.status().calls.running, 1);
    gate.open();
    assert!(slow.await.unwrap().success);
}

/// Returns true if mode and policy changed while the decision was being written. False if the disk was too
/// fast for that.
async fn overtaken_by(mode: Mode, last: &[&str]) -> bool {
    let bench = || LayerBench::new().tool("change", Category::SYSTEM_WRITE, |_| ready_output(json!({})));
    let (layer, folder) = bench().layer();
    let mut asked = Box::pin(layer.execute(request("change", json!({}), None)));
    // The call waits for its decision to reach the disk. Meanwhile the policy and the mode are replaced.
    if asked.as_mut().now_or_never().is_some() {
        return false;
    }
    layer.current.snapshot.store(LayerBench::snapshot_in(folder.path(), bench().registry).into());
    let change = ModeChange {
        from: Mode::Normal,
        to: mode,
        reason: String::new(),
        by: None,
        via: None,
        data: Value::Null,
    };
    layer.current.mode.set(&change);
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
async fn call_overtaken_before_its_start_is_judged_again() {
    for (mode, last) in [(Mode::Normal, &["decision", "done"][..]), (Mode::Lockdown, &["refusal"])] {
        let mut tries = 0;
        while !overtaken_by(mode, last).await {
            tries += 1;
            assert!(tries < 100, "{mode}: the disk was too fast a hundred times");
        }
    }
}

#[tokio::test]
async fn proposed_transition_is_recorded_and_not_applied() {
    let (layer, folder) = LayerBench::new().layer();
    set(&layer, Mode::Alert).await.unwrap();
    assert!(layer.status().proposal.is_none());
    let transition = governance::transitions::ModeTransition {
        from: Mode::Alert,
        to: Mode::Normal,
        rule: tool::RuleRef {
            file: "modes.yaml".into(),
            line: 7,
            id: "transition_rules.ALERT_to_NORMAL".into(),
        },
        readings: Vec::new(),
    };
    crate::modes::report_proposal(&layer.recorder.ledger, &transition);
    let note = records(folder.path()).into_iter().rfind(|record| record["kind"] == "note").unwrap();
    assert_eq!((&note["about"], &note["data"]["to"]), (&json!("mode_proposal"), &json!("NORMAL")), "{note}");
    assert_eq!(layer.mode(), Mode::Alert);
}

#[tokio::test]
async fn pin_requirement_depends_on_the_current_mode() {
    let (layer, folder) = LayerBench::new().layer();
    std::fs::create_dir_all(folder.path().join("state")).unwrap();
    layer.approvals().pin().set(None, Some("correct horse".to_owned())).await.unwrap();
    // From NORMAL, where the change was requested, DEGRADED takes no PIN. From ALERT, the current mode, it
    // does.
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    let refused = layer.set_mode(Mode::Degraded, "test", &caller(), None).await;
    assert!(matches!(refused, Err(ModeError::PinRequired)), "{refused:?}");
    let proof = layer
        .approvals()
        .pin()
        .verify(CallerEndpoint::Control, Some("correct horse".to_owned()))
        .await
        .unwrap();
    layer.set_mode(Mode::Degraded, "test", &caller(), Some(proof)).await.unwrap();
    assert_eq!(layer.mode(), Mode::Degraded);
}

async fn set_fleet(layer: &Arc<ToolExecutionLayer>, mode: Option<Mode>, local: Option<Mode>) -> Option<Mode> {
    layer.set_fleet_mode(mode, ("fleet acme", "drill"), local).await.unwrap()
}

#[tokio::test]
async fn stricter_of_local_and_fleet_mode_is_in_effect() {
    let (layer, folder) = LayerBench::new().layer();
    assert_eq!(set_fleet(&layer, Some(Mode::Lockdown), None).await, Some(Mode::Normal));
    assert_eq!(layer.mode(), Mode::Lockdown);
    for looser in [Mode::Recovery, Mode::Normal] {
        let refused = set(&layer, looser).await.unwrap_err();
        assert!(matches!(refused, ModeError::RestrictedByFleet { fleet: Mode::Lockdown }), "{refused}");
    }
    let record = mode_records(folder.path()).pop().unwrap();
    assert_eq!((&record["by"], &record["reason"]), (&json!("fleet acme"), &json!("drill")));
    assert_eq!(set_fleet(&layer, Some(Mode::Alert), None).await, Some(Mode::Normal));
    assert_eq!(layer.mode(), Mode::Alert);
    assert!(matches!(set(&layer, Mode::Normal).await, Err(ModeError::RestrictedByFleet { .. })));
    set(&layer, Mode::Degraded).await.unwrap();
    assert_eq!(set_fleet(&layer, None, None).await, None);
    assert_eq!(layer.mode(), Mode::Degraded, "the local mode stays");
}

#[tokio::test]
async fn local_lockdown_outlives_that_of_the_fleet() {
    let (layer, _folder) = LayerBench::new().layer();
    set_fleet(&layer, Some(Mode::Lockdown), None).await;
    set(&layer, Mode::Lockdown).await.unwrap();
    set_fleet(&layer, None, None).await;
    assert_eq!(layer.mode(), Mode::Lockdown);
    set(&layer, Mode::Recovery).await.unwrap();
    // After a restart in the LOCKDOWN of the fleet, the service passes the mode before it.
    set(&layer, Mode::Lockdown).await.unwrap();
    assert_eq!(set_fleet(&layer, Some(Mode::Lockdown), Some(Mode::Normal)).await, Some(Mode::Normal));
    set_fleet(&layer, None, None).await;
    assert_eq!(layer.mode(), Mode::Normal);
}

#[tokio::test]
async fn operator_before_the_fleet_in_turn_is_not_undone() {
    let (layer, _folder) = LayerBench::new().layer();
    for fleet in [Some(Mode::Lockdown), None] {
        set_fleet(&layer, fleet, None).await;
        let turn = layer.modes.lock.lock().await;
        let release = async move { drop(turn) };
        let (by_operator, _, ()) =
            tokio::join!(set(&layer, Mode::Lockdown), set_fleet(&layer, None, None), release);
        by_operator.unwrap();
        assert_eq!(layer.mode(), Mode::Lockdown, "{fleet:?}");
        assert_eq!(layer.mode_below_fleet(), None);
        set(&layer, Mode::Recovery).await.unwrap();
        set(&layer, Mode::Normal).await.unwrap();
    }
}
