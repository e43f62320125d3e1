//! Tests of reloads while calls run and wait.

use std::path::Path;
use std::sync::Arc;

use governance::policy_environment::{NameComparison, PathVariables, PolicyEnvironment, ProtectedFolders};
use governance::{EMBEDDED_FILES, Policy};
use policy_tools::{PolicyDifference, PolicyEffect};
use registry::ToolRegistry;
use serde_json::json;
use telemetry::redact;
use tool::{Category, ToolSpec};

use super::{FnTool, LayerBench, TestGate, blocked_by, ready_output, records, request};
use crate::ConfigSnapshot;
use crate::reload::{Acceptance, ReloadOutcome};

/// Snapshot with these tools, for a reload.
fn snapshot(folder: &Path, tools: &[&str]) -> ConfigSnapshot {
    let mut registry = ToolRegistry::new();
    for name in tools {
        let mut spec = ToolSpec::new(name, "A test tool", Category::READ_ONLY, tool::RiskLevel::Low);
        spec.input_schema = Some(json!({"type": "object"}));
        registry.register(spec.check().unwrap(), Arc::new(FnTool(|_| ready_output(json!({}))))).unwrap();
    }
    LayerBench::snapshot_in(folder, registry)
}

#[tokio::test]
async fn added_tools_need_acceptance_and_removed_ones_do_not() {
    let (layer, folder) =
        LayerBench::new().tool("one", Category::READ_ONLY, |_| ready_output(json!({}))).layer();
    let mut changes = layer.tool_changes();
    let more = || snapshot(folder.path(), &["one", "two"]);
    let report = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(report.result, ReloadOutcome::Waiting, "{report:?}");
    assert!(!changes.has_changed().unwrap(), "a candidate causes no notification");
    assert_eq!(layer.status().tools, 1);
    let seen = Acceptance::Confirmed(report.candidate.unwrap());
    let other = layer.reload(snapshot(folder.path(), &["one", "three"]), Vec::new(), &seen).await;
    assert_eq!(other.result, ReloadOutcome::Waiting, "it differs from the accepted candidate");
    let report = layer.reload(more(), Vec::new(), &seen).await;
    assert_eq!((report.result, layer.status().tools), (ReloadOutcome::Applied, 2), "{report:?}");
    changes.changed().await.unwrap();
    let fewer = layer.reload(snapshot(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(fewer.result, ReloadOutcome::Applied, "a stricter snapshot needs no acceptance: {fewer:?}");
    assert!(changes.has_changed().unwrap());
    let same = layer.reload(snapshot(folder.path(), &["two"]), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(same.result, ReloadOutcome::Unchanged);
}

#[tokio::test]
async fn acceptance_covers_differences_outside_the_snapshot() {
    let (layer, folder) =
        LayerBench::new().tool("one", Category::READ_ONLY, |_| ready_output(json!({}))).layer();
    let more = || snapshot(folder.path(), &["one", "two"]);
    let beside = || {
        vec![PolicyDifference {
            effect: PolicyEffect::Loosens,
            description: "no more questions".into(),
            rule: None,
        }]
    };
    let shown = layer.reload(more(), Vec::new(), &Acceptance::Ask).await;
    let seen = Acceptance::Confirmed(shown.candidate.unwrap());
    let other = layer.reload(more(), beside(), &seen).await;
    assert_eq!(other.result, ReloadOutcome::Waiting, "it differs from the accepted candidate: {other:?}");
    let seen = Acceptance::Confirmed(other.candidate.unwrap());
    assert_eq!(layer.reload(more(), beside(), &seen).await.result, ReloadOutcome::Applied);
}

/// A tightening applies while another part of the same change waits, until the files are as before.
#[tokio::test]
async fn tightening_applies_while_a_loosening_waits() {
    let bench = LayerBench::new().tool("one", Category::READ_ONLY, |_| ready_output(json!({}))).tool(
        "two",
        Category::READ_ONLY,
        |_| ready_output(json!({})),
    );
    let (layer, folder) = bench.layer();
    let code = async |tool: &'static str| {
        let result = layer.execute(request(tool, json!({}), None)).await;
        result.metadata.refusal.map(|refusal| refusal.code)
    };
    let candidate = || {
        let other = folder.path().join("other");
        std::fs::create_dir_all(&other).unwrap();
        let workspace = governance::Workspace::open(&other, governance::WorkspaceAccess::ReadWrite).unwrap();
        ConfigSnapshot {
            workspaces: governance::Workspaces::new(vec![workspace]),
            ..snapshot_with(
                folder.path(),
                &["one", "three"],
                "tools: {one: {forbidden_in_modes: [NORMAL]}}\n",
            )
        }
    };
    let start = snapshot(folder.path(), &["one", "two"]);
    layer.reload(start, Vec::new(), &Acceptance::Always).await;
    let before = layer.status();
    let report = layer.reload(candidate(), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(report.result, ReloadOutcome::Waiting, "{report:#?}");
    for change in &report.changes {
        assert_eq!(change.waits, change.difference.effect == PolicyEffect::Loosens, "{change:?}");
    }
    assert!(report.changes.iter().filter(|change| !change.waits).count() >= 3, "{report:#?}");
    let status = layer.status();
    assert_eq!(status.workspaces.len(), 1, "the folder inside of both: {:?}", status.workspaces);
    assert!(status.workspaces[0].to_string().contains("other"), "{:?}", status.workspaces);
    assert_ne!(status.policy_hash, before.policy_hash);
    assert_eq!(code("one").await, Some(tool::RefusalCode::ModeDenied), "the tighter rule");
    assert_eq!(code("two").await, Some(tool::RefusalCode::UnknownTool), "the removed tool");
    assert_eq!(code("three").await, Some(tool::RefusalCode::UnknownTool), "the new tool waits");
    let again = layer.reload(candidate(), Vec::new(), &Acceptance::Ask).await;
    assert_eq!(again.candidate, report.candidate, "the same change is the same candidate");

    let old = snapshot(folder.path(), &["one", "two"]);
    let reverted = layer.reload(old, Vec::new(), &Acceptance::Ask).await;
    assert_eq!(
        (reverted.result, code("one").await, code("two").await),
        (ReloadOutcome::Unchanged, None, None)
    );
    assert_eq!(layer.status().policy_hash, before.policy_hash);

    let seen = layer.reload(candidate(), Vec::new(), &Acceptance::Ask).await.candidate.unwrap();
    let report = layer.reload(candidate(), Vec::new(), &Acceptance::Confirmed(seen)).await;
    assert_eq!((report.result, code("three").await), (ReloadOutcome::Applied, None), "{report:#?}");
    assert_eq!(code("one").await, Some(tool::RefusalCode::ModeDenied));
}

/// Snapshot with these tools and the user's `tools.yaml`.
fn snapshot_with(folder: &Path, tools: &[&str], text: &str) -> ConfigSnapshot {
    let policy = folder.join("user");
    std::fs::create_dir_all(&policy).unwrap();
    std::fs::write(policy.join("tools.yaml"), text).unwrap();
    ConfigSnapshot { policy: Policy::load(&policy, &around(folder)).unwrap(), ..snapshot(folder, tools) }
}

fn around(folder: &Path) -> PolicyEnvironment {
    PolicyEnvironment {
        variables: PathVariables::with_home(folder),
        protected: ProtectedFolders::default(),
        name_comparison: NameComparison::CaseSensitive,
    }
}

/// Snapshot with a policy that redacts private keys instead of blocking them.
fn lax_snapshot(folder: &Path) -> ConfigSnapshot {
    let policy = folder.join("policy");
    std::fs::create_dir_all(&policy).unwrap();
    for (name, text) in EMBEDDED_FILES {
        std::fs::write(policy.join(name), text.replace("action: block", "action: redact")).unwrap();
    }
    ConfigSnapshot { policy: Policy::load(&policy, &around(folder)).unwrap(), ..snapshot(folder, &[]) }
}

#[tokio::test]
async fn unrecorded_reload_keeps_the_secret_patterns() {
    let blocks = || redact::shared().first_blocking_pattern("-----BEGIN RSA PRIVATE KEY-----").is_some();
    let (layer, folder) = LayerBench::new().layer();
    assert!(blocks());
    layer.recorder.ledger.close();
    let report = layer.reload(lax_snapshot(folder.path()), Vec::new(), &Acceptance::Always).await;
    assert_eq!((report.result, blocks()), (ReloadOutcome::Rejected, true), "{report:?}");
}

#[tokio::test]
async fn reload_record_names_the_resulting_policy() {
    let (layer, folder) = LayerBench::new().layer();
    let (before, lax) = (layer.status().policy_hash, || lax_snapshot(folder.path()));
    layer.reload(lax(), Vec::new(), &Acceptance::Ask).await;
    layer.reload(lax(), Vec::new(), &Acceptance::Always).await;
    let after = lax().policy.hash().to_owned();
    assert_ne!(before, after);
    layer.reload(snapshot(folder.path(), &[]), Vec::new(), &Acceptance::Always).await;
    let reloads = records(folder.path()).into_iter().filter(|record| record["kind"] == "reload");
    let results: Vec<_> =
        reloads.map(|record| (record["result"].clone(), record["policy_hash"].clone())).collect();
    let expect = [("waiting", &before), ("applied", &after), ("applied", &before)];
    assert_eq!(results, expect.map(|(result, hash)| (json!(result), json!(hash))));
}

#[tokio::test]
async fn running_call_keeps_its_snapshot_and_queued_gets_new() {
    let gate = TestGate::default();
    let bench = LayerBench::new().tool("slow", Category::READ_ONLY, blocked_by(&gate)).tool(
        "gone",
        Category::READ_ONLY,
        |_| ready_output(json!({})),
    );
    let (layer, folder) = bench.layer();
    layer.capacity.limits.set_capacity(1);
    let start = |tool: &'static str| {
        let layer = Arc::clone(&layer);
        tokio::spawn(async move { layer.execute(request(tool, json!({}), None)).await })
    };
    let running = start("slow");
    while layer.status().calls.running == 0 {
        tokio::task::yield_now().await;
    }
    let waiting = start("gone");
    while layer.current.changes.receiver_count() == 0 {
        tokio::task::yield_now().await;
    }
    let report = layer.reload(snapshot(folder.path(), &["other"]), Vec::new(), &Acceptance::Always).await;
    assert_eq!(report.result, ReloadOutcome::Applied, "{report:?}");
    let refused = waiting.await.unwrap();
    assert_eq!(refused.metadata.refusal.unwrap().code, tool::RefusalCode::UnknownTool);
    gate.open();
    assert!(running.await.unwrap().success, "a removed tool still finishes its running call");
}
