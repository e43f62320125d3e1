//! Tests of reloads while calls run and wait.

use std::path::Path;
use std::sync::Arc;

use governance::{EMBEDDED, FileNames, Policy, Protected, Surroundings, Variables};
use policy_tools::{Difference, Effect};
use registry::ToolRegistry;
use serde_json::json;
use telemetry::redact;
use tool::{Category, ToolSpec};

use super::{Bench, Does, Gate, done, records, request, waits_for};
use crate::{Acceptance, Reloaded, World};

/// Snapshot with these tools, for a reload.
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
async fn added_tools_need_acceptance_and_removed_ones_do_not() {
    let (layer, folder) = Bench::new().tool("one", Category::READ_ONLY, |_| done(json!({}))).layer();
    let mut changes = layer.tool_changes();
    let more = || world(folder.path(), &["one", "two"]);
    let report = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(report.result, Reloaded::Waiting, "{report:?}");
    assert!(!changes.has_changed().unwrap(), "a candidate causes no notification");
    assert_eq!(layer.status().tools, 1);
    let seen = Acceptance::Seen(report.candidate.unwrap());
    let other = layer.reload(world(folder.path(), &["one", "three"]), Vec::new(), &seen).await;
    assert_eq!(other.result, Reloaded::Waiting, "it differs from the accepted candidate");
    let report = layer.reload(more(), Vec::new(), &seen).await;
    assert_eq!((report.result, layer.status().tools), (Reloaded::Applied, 2), "{report:?}");
    changes.changed().await.unwrap();
    let fewer = layer.reload(world(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(fewer.result, Reloaded::Applied, "a stricter snapshot needs no acceptance: {fewer:?}");
    assert!(changes.has_changed().unwrap());
    let same = layer.reload(world(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(same.result, Reloaded::Unchanged);
}

#[tokio::test]
async fn acceptance_covers_differences_outside_the_snapshot() {
    let (layer, folder) = Bench::new().tool("one", Category::READ_ONLY, |_| done(json!({}))).layer();
    let more = || world(folder.path(), &["one", "two"]);
    let beside =
        || vec![Difference { effect: Effect::Loosens, what: "no more questions".into(), rule: None }];
    let shown = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    let seen = Acceptance::Seen(shown.candidate.unwrap());
    let other = layer.reload(more(), beside(), &seen).await;
    assert_eq!(other.result, Reloaded::Waiting, "it differs from the accepted candidate: {other:?}");
    let seen = Acceptance::Seen(other.candidate.unwrap());
    assert_eq!(layer.reload(more(), beside(), &seen).await.result, Reloaded::Applied);
}

/// Snapshot with a policy that redacts private keys instead of blocking them.
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
async fn unrecorded_reload_keeps_the_secret_patterns() {
    let blocks = || redact::shared().blocked("-----BEGIN RSA PRIVATE KEY-----").is_some();
    let (layer, folder) = Bench::new().layer();
    assert!(blocks());
    layer.ledger.close();
    let report = layer.reload(lax(folder.path()), Vec::new(), &Acceptance::Always).await;
    assert_eq!((report.result, blocks()), (Reloaded::Rejected, true), "{report:?}");
}

#[tokio::test]
async fn reload_record_names_the_resulting_policy() {
    let (layer, folder) = Bench::new().layer();
    let (before, lax) = (layer.status().policy_hash, || lax(folder.path()));
    layer.reload(lax(), Vec::new(), &Acceptance::Ask).await;
    layer.reload(lax(), Vec::new(), &Acceptance::Always).await;
    let after = lax().policy.hash().to_owned();
    assert_ne!(before, after);
    layer.reload(world(folder.path(), &[]), Vec::new(), &Acceptance::Always).await;
    let reloads = records(folder.path()).into_iter().filter(|record| record["kind"] == "reload");
    let results: Vec<_> =
        reloads.map(|record| (record["result"].clone(), record["policy_hash"].clone())).collect();
    let expect = [("waiting", &before), ("applied", &after), ("applied", &before)];
    assert_eq!(results, expect.map(|(result, hash)| (json!(result), json!(hash))));
}

#[tokio::test]
async fn running_call_keeps_its_snapshot_and_queued_gets_new() {
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
    assert!(running.await.unwrap().success, "a removed tool still finishes its running call");
}
