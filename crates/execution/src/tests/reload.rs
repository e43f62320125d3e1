//! A world that is replaced while calls run and wait.

use std::path::Path;
use std::sync::Arc;

use governance::{Difference, EMBEDDED, Effect, FileNames, Policy, Protected, Surroundings, Variables};
use registry::ToolRegistry;
use serde_json::json;
use telemetry::redact;
use tool::{Category, ToolSpec};

use super::{Bench, Does, Gate, done, records, request, waits_for};
use crate::{Acceptance, Reloaded, World};

/// The world of a layer with these tools: for those who want another one.
fn world(folder: &Path, tools: &[&str]) -> World {
    let mut registry = ToolRegistry::new();
    for name in tools {
        let mut spec = ToolSpec::new(name, "A test tool", Category::READ_ONLY, tool::RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object"}));
        registry.register(spec.check().unwrap(), Arc::new(Does(|_| done(json!({}))))).unwrap();
    }
    Bench::world_in(folder, registry)
}

#[tokio::test]
async fn tools_that_come_wait_and_tools_that_go_do_not() {
    let (layer, folder) = Bench::new().tool("one", Category::READ_ONLY, |_| done(json!({}))).layer();
    let mut changes = layer.tool_changes();
    let more = || world(folder.path(), &["one", "two"]);
    let report = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(report.result, Reloaded::Waiting, "{report:?}");
    assert!(!changes.has_changed().unwrap(), "nobody is told of what does not hold");
    assert_eq!(layer.status().tools, 1);
    let seen = Acceptance::Seen(report.candidate.unwrap());
    let other = layer.reload(world(folder.path(), &["one", "three"]), Vec::new(), &seen).await;
    assert_eq!(other.result, Reloaded::Waiting, "something else than was seen");
    let report = layer.reload(more(), Vec::new(), &seen).await;
    assert_eq!((report.result, layer.status().tools), (Reloaded::Applied, 2), "{report:?}");
    changes.changed().await.unwrap();
    let fewer = layer.reload(world(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(fewer.result, Reloaded::Applied, "what tightens waits for nobody: {fewer:?}");
    assert!(changes.has_changed().unwrap());
    let same = layer.reload(world(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(same.result, Reloaded::Unchanged);
}

#[tokio::test]
async fn what_changed_beside_the_world_is_part_of_what_was_seen() {
    let (layer, folder) = Bench::new().tool("one", Category::READ_ONLY, |_| done(json!({}))).layer();
    let more = || world(folder.path(), &["one", "two"]);
    let beside =
        || vec![Difference { effect: Effect::Loosens, what: "no more questions".into(), rule: None }];
    let shown = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    let seen = Acceptance::Seen(shown.candidate.unwrap());
    let other = layer.reload(more(), beside(), &seen).await;
    assert_eq!(other.result, Reloaded::Waiting, "it takes more than was shown: {other:?}");
    let seen = Acceptance::Seen(other.candidate.unwrap());
    assert_eq!(layer.reload(more(), beside(), &seen).await.result, Reloaded::Applied);
}

/// The same with a policy that lets private keys pass.
fn lax(folder: &Path) -> World {
    let policy = folder.join("policy");
    std::fs::create_dir_all(&policy).unwrap();
    for (name, text) in EMBEDDED {
        std::fs::write(policy.join(name), text.replace("action: block", "action: redact")).unwrap();
    }
    let around = Surroundings {
        variables: Variables::with_home(folder),
        protected: Protected::default(),
        names: FileNames::CaseSensitive,
    };
    World { policy: Policy::load(&policy, &around).unwrap(), ..world(folder, &[]) }
}

#[tokio::test]
async fn what_cannot_be_recorded_leaves_the_patterns_of_secrets_as_they_were() {
    let blocks = || redact::shared().blocked("-----BEGIN RSA PRIVATE KEY-----").is_some();
    let (layer, folder) = Bench::new().layer();
    assert!(blocks());
    layer.ledger.close();
    let report = layer.reload(lax(folder.path()), Vec::new(), &Acceptance::Always).await;
    assert_eq!((report.result, blocks()), (Reloaded::Rejected, true), "{report:?}");
}

#[tokio::test]
async fn the_record_of_a_reload_names_the_policy_that_holds_after_it() {
    let (layer, folder) = Bench::new().layer();
    let (before, lax) = (layer.status().policy_hash, || lax(folder.path()));
    layer.reload(lax(), Vec::new(), &Acceptance::Ask).await;
    layer.reload(lax(), Vec::new(), &Acceptance::Always).await;
    let after = lax().policy.hash().to_owned();
    assert_ne!(before, after);
    layer.reload(world(folder.path(), &[]), Vec::new(), &Acceptance::Always).await;
    let reloads = records(folder.path()).into_iter().filter(|record| record["kind"] == "reload");
    let told: Vec<_> =
        reloads.map(|record| (record["result"].clone(), record["policy_hash"].clone())).collect();
    let expect = [("waiting", &before), ("applied", &after), ("applied", &before)];
    assert_eq!(told, expect.map(|(result, hash)| (json!(result), json!(hash))));
}

#[tokio::test]
async fn a_running_call_keeps_its_world_and_a_waiting_one_gets_the_new() {
    let gate = Gate::default();
    let bench = Bench::new().tool("slow", Category::READ_ONLY, waits_for(&gate)).tool(
        "gone",
        Category::READ_ONLY,
        |_| done(json!({})),
    );
    let (layer, folder) = bench.layer();
    layer.limits.set_places(1);
    let start = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
    };
    let running = start("slow");
    while layer.status().calls.running == 0 {
        tokio::task::yield_now().await;
    }
    let waiting = start("gone");
    while layer.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    let report = layer.reload(world(folder.path(), &["other"]), Vec::new(), &Acceptance::Always).await;
    assert_eq!(report.result, Reloaded::Applied, "{report:?}");
    let refused = waiting.await.unwrap();
    assert_eq!(refused.metadata.refusal.unwrap().code, tool::RefusalCode::UnknownTool);
    gate.open();
    assert!(running.await.unwrap().success, "its tool is gone from the list, not from under it");
}
