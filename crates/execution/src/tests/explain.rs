//! What is explained is what happens, and explaining leaves no trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use governance::Permit;
use registry::{Order, Preview, Running, ToolExecutor};
use serde_json::{Value, json};
use tool::{Category, Door, Failure, FailureKind, Mode, RefusalCode};

use super::{Bench, caller, done, records, request};
use crate::{Finding, ToolExecutionLayer};

/// A tool that looks and one that changes, and how often either ran.
fn bench() -> (Arc<ToolExecutionLayer>, tempfile::TempDir, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counting = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            done(json!({}))
        }
    };
    let bench = Bench::new().tool("look", Category::READ_ONLY, counting(&ran)).tool(
        "change",
        Category::SYSTEM_WRITE,
        counting(&ran),
    );
    let (layer, folder) = bench.layer();
    (layer, folder, ran)
}

#[tokio::test]
async fn what_is_explained_is_what_happens() {
    let (layer, _folder, _) = bench();
    for mode in Mode::ALL {
        layer.set_mode(mode, "test", &caller(), None).await.unwrap();
        for (tool, arguments) in [
            ("look", json!({})),
            ("change", json!({})),
            ("nowhere", json!({})),
            ("look", json!([])),
            ("change", json!({"text": "-----BEGIN RSA PRIVATE KEY-----"})),
        ] {
            let told = layer.explain(request(tool, arguments.clone(), None), None).await;
            let result = layer.execute(request(tool, arguments.clone(), None)).await;
            assert_eq!(told.mode, mode);
            assert_eq!(told.finding == Finding::Permit, result.success, "{tool} in {mode}: {told:?}");
            let facts =
                |refusal: &tool::Refusal| (refusal.code, refusal.reason.clone(), refusal.rule.clone());
            let refused = result.metadata.refusal.as_ref().map(facts);
            assert_eq!(told.finding.refusal().map(facts), refused, "{tool} in {mode}");
            let ruled = told.finding.refusal().is_none_or(|refusal| refusal.rule.is_none());
            assert!(ruled || !told.rules.is_empty(), "the rules that led there are named: {told:?}");
        }
    }
}

#[tokio::test]
async fn another_mode_can_be_asked_about() {
    let (layer, _folder, _) = bench();
    let in_mode = async |mode| layer.explain(request("change", json!({}), None), Some(mode)).await;
    assert_eq!(in_mode(Mode::Normal).await.finding, Finding::Permit);
    let told = in_mode(Mode::Alert).await;
    let Finding::Ask { asked_by, .. } = &told.finding else { panic!("{told:?}") };
    assert!(asked_by.iter().any(|rule| rule.file.ends_with("modes.yaml") && rule.line > 0), "{told:?}");
    let told = in_mode(Mode::Lockdown).await;
    assert_eq!(told.finding.refusal().map(|refusal| refusal.code), Some(RefusalCode::ModeDenied));
    assert_eq!((told.mode, layer.mode()), (Mode::Lockdown, Mode::Normal), "the mode itself stays");
}

#[tokio::test]
async fn explaining_leaves_no_trace() {
    let (layer, folder, ran) = bench();
    let before: (Vec<Value>, _) = (records(folder.path()), layer.status().remaining);
    for (tool, mode) in [("look", None), ("change", Some(Mode::Lockdown)), ("nowhere", None)] {
        layer.explain(request(tool, json!({}), None), mode).await;
    }
    let counts = layer.status().calls;
    assert_eq!((counts.running, counts.done, counts.failed, counts.refused), (0, 0, 0, 0));
    assert_eq!((records(folder.path()), layer.status().remaining), before);
    assert_eq!(ran.load(Ordering::Relaxed), 0, "nothing ran");
}

#[tokio::test]
async fn a_layer_that_takes_no_calls_says_so_here_too() {
    let (layer, _folder, _) = bench();
    layer.drain(std::time::Duration::ZERO).await;
    let told = layer.explain(request("look", json!({}), None), None).await;
    assert_eq!(told.finding.refusal().map(|refusal| refusal.code), Some(RefusalCode::ShuttingDown));
}

#[test]
fn an_explanation_is_one_flat_object() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (layer, _folder, _) = bench();
    let told = runtime.block_on(layer.explain(request("CHANGE", json!({}), None), Some(Mode::Lockdown)));
    let json = serde_json::to_value(&told).unwrap();
    assert_eq!((&json["verdict"], &json["tool_name"]), (&json!("deny"), &json!("change")), "{json}");
    assert_eq!(json["refusal"]["code"], "mode_denied", "{json}");
    assert_eq!(serde_json::from_value::<crate::Explanation>(json).unwrap(), told);
}

/// A tool that changes what holds `right`, and says so when it is asked what it would do.
struct Edits;

impl ToolExecutor for Edits {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        match permit.call().arguments().get("old_text") == Some(&json!("right")) {
            true => Ok(Preview::default()),
            false => Err(Failure::new(FailureKind::Conflict, "that is not in the file")),
        }
    }

    fn run(&self, _order: Arc<Order>) -> Running {
        done(json!({}))
    }
}

#[tokio::test]
async fn an_agent_cannot_guess_by_it_what_a_file_holds() {
    let (layer, _folder) = Bench::new().run_by("edit", Category::SYSTEM_WRITE, |_| {}, Edits).layer();
    let guess = async |door, text| {
        let mut guess = request("edit", json!({"old_text": text}), None);
        guess.caller.door = door;
        layer.explain(guess, Some(Mode::Alert)).await
    };
    for door in [Door::Socket, Door::Mcp, Door::Hook] {
        let told = guess(door, "right").await;
        assert_eq!(told.finding.as_str(), "ask", "{told:?}");
        assert_eq!(told, guess(door, "wrong").await, "the same whatever it guesses");
    }
    for door in [Door::Control, Door::Embedded] {
        let told = [guess(door, "right").await, guess(door, "wrong").await];
        assert_eq!(told.each_ref().map(|told| told.finding.as_str()), ["ask", "deny"], "{told:?}");
    }
}
