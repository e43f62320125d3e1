//! `explain` predicts the result of a call, and records only what it reveals to an agent about file contents.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use governance::Permit;
use registry::{CallPreview, ExecutorFuture, RecordedPermit, ToolExecutor};
use serde_json::{Value, json};
use tool::{Category, Failure, FailureKind, Mode, RefusalCode};

use super::{LayerBench, caller, ready_output, records, request};
use crate::{CallRequest, ExplainedVerdict, ExplanationAudience, ToolExecutionLayer};

/// Layer with a read-only tool and a writing tool, and a counter of their runs.
fn bench() -> (Arc<ToolExecutionLayer>, tempfile::TempDir, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counting = |ran: &Arc<AtomicUsize>| {
        let ran = Arc::clone(ran);
        move |_| {
            ran.fetch_add(1, Ordering::Relaxed);
            ready_output(json!({}))
        }
    };
    let bench = LayerBench::new().tool("look", Category::READ_ONLY, counting(&ran)).tool(
        "change",
        Category::SYSTEM_WRITE,
        counting(&ran),
    );
    let (layer, folder) = bench.layer();
    (layer, folder, ran)
}

#[tokio::test]
async fn explanation_predicts_the_result() {
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
            let explanation = layer
                .explain(request(tool, arguments.clone(), None), None, ExplanationAudience::Caller)
                .await;
            let result = layer.execute(request(tool, arguments.clone(), None)).await;
            assert_eq!(explanation.mode, mode);
            assert_eq!(
                explanation.finding == ExplainedVerdict::Permit,
                result.success,
                "{tool} in {mode}: {explanation:?}"
            );
            let facts =
                |refusal: &tool::Refusal| (refusal.code, refusal.reason.clone(), refusal.rule.clone());
            let refused = result.metadata.refusal.as_ref().map(facts);
            assert_eq!(explanation.finding.refusal().map(facts), refused, "{tool} in {mode}");
            let ruled = explanation.finding.refusal().is_none_or(|refusal| refusal.rule.is_none());
            assert!(ruled || !explanation.rules.is_empty(), "the deciding rules are named: {explanation:?}");
        }
    }
}

#[tokio::test]
async fn another_mode_can_be_explained() {
    let (layer, _folder, _) = bench();
    let in_mode = async |mode| {
        layer.explain(request("change", json!({}), None), Some(mode), ExplanationAudience::Operator).await
    };
    assert_eq!(in_mode(Mode::Normal).await.finding, ExplainedVerdict::Permit);
    let explanation = in_mode(Mode::Alert).await;
    let ExplainedVerdict::Ask { asked_by, .. } = &explanation.finding else { panic!("{explanation:?}") };
    assert!(
        asked_by.iter().any(|rule| rule.file.ends_with("modes.yaml") && rule.line > 0),
        "{explanation:?}"
    );
    let explanation = in_mode(Mode::Lockdown).await;
    assert_eq!(explanation.finding.refusal().map(|refusal| refusal.code), Some(RefusalCode::ModeDenied));
    assert_eq!((explanation.mode, layer.mode()), (Mode::Lockdown, Mode::Normal), "the mode does not change");
}

#[tokio::test]
async fn explaining_by_rules_alone_records_nothing() {
    let (layer, folder, ran) = bench();
    let before: (Vec<Value>, _) = (records(folder.path()), layer.status().remaining);
    for (tool, mode) in [("look", None), ("change", Some(Mode::Lockdown)), ("nowhere", None)] {
        for hearer in [ExplanationAudience::Caller, ExplanationAudience::Operator] {
            layer.explain(request(tool, json!({}), None), mode, hearer).await;
        }
    }
    let counts = layer.status().calls;
    assert_eq!((counts.running, counts.done, counts.failed, counts.refused), (0, 0, 0, 0));
    assert_eq!((records(folder.path()), layer.status().remaining), before);
    assert_eq!(ran.load(Ordering::Relaxed), 0, "nothing ran");
}

#[tokio::test]
async fn draining_layer_is_explained_as_shutting_down() {
    let (layer, _folder, _) = bench();
    layer.drain(std::time::Duration::ZERO).await;
    let explanation =
        layer.explain(request("look", json!({}), None), None, ExplanationAudience::Caller).await;
    assert_eq!(explanation.finding.refusal().map(|refusal| refusal.code), Some(RefusalCode::ShuttingDown));
}

#[test]
fn explanation_serialises_to_one_flat_object() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (layer, _folder, _) = bench();
    let explanation = runtime.block_on(layer.explain(
        request("CHANGE", json!({}), None),
        Some(Mode::Lockdown),
        ExplanationAudience::Caller,
    ));
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!((&json["verdict"], &json["tool_name"]), (&json!("deny"), &json!("change")), "{json}");
    assert_eq!(json["refusal"]["code"], "mode_denied", "{json}");
    assert_eq!(serde_json::from_value::<crate::Explanation>(json).unwrap(), explanation);
}

/// Tool whose preview succeeds only if `old_text` is `right`.
struct EditTool;

impl ToolExecutor for EditTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        match permit.call().arguments().get("old_text") == Some(&json!("right")) {
            true => Ok(CallPreview::default()),
            false => Err(Failure::new(FailureKind::Conflict, "that is not in the file")),
        }
    }

    fn run(&self, _order: Arc<RecordedPermit>) -> ExecutorFuture {
        ready_output(json!({}))
    }
}

fn edit_layer() -> (Arc<ToolExecutionLayer>, tempfile::TempDir) {
    LayerBench::new().tool_with_executor("edit", Category::SYSTEM_WRITE, |_| {}, EditTool).layer()
}

fn guess_request(text: &str) -> CallRequest {
    request("edit", json!({"old_text": text}), None)
}

fn notes(folder: &Path) -> Vec<Value> {
    records(folder).into_iter().filter(|record| record["about"] == "explained").collect()
}

#[tokio::test]
async fn guesses_at_file_content_are_recorded() {
    let (layer, folder) = edit_layer();
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    for (guesses, (text, verdict, detail)) in
        [("right", "ask", None), ("wrong", "deny", Some("not_foreseeable"))].into_iter().enumerate()
    {
        let explanation = layer.explain(guess_request(text), None, ExplanationAudience::Caller).await;
        assert_eq!(explanation.finding.as_str(), verdict, "{explanation:?}");
        assert_eq!(
            explanation,
            layer.explain(guess_request(text), None, ExplanationAudience::Operator).await,
            "for the operator"
        );
        let result = layer.execute(guess_request(text)).await;
        let refused = result.metadata.refusal.unwrap();
        assert_eq!(explanation.finding.refusal().map(|refusal| &refusal.reason), Some(&refused.reason));
        let notes = notes(folder.path());
        assert_eq!(notes.len(), guesses + 1, "one for the caller, none for the operator");
        let data = &notes[guesses]["data"];
        assert_eq!(
            (&data["tool"], &data["verdict"], &data["detail"]),
            (&json!("edit"), &json!(verdict), &json!(detail))
        );
        assert!(!notes[guesses].to_string().contains(text), "by digest only: {data}");
    }
    assert_eq!(layer.status().calls.refused, 2, "an explanation does not count as a call");
}

#[tokio::test]
async fn explaining_another_mode_reveals_no_file_to_an_agent() {
    let (layer, folder) = edit_layer();
    layer.set_mode(Mode::Lockdown, "test", &caller(), None).await.unwrap();
    let in_alert = async |text, hearer| layer.explain(guess_request(text), Some(Mode::Alert), hearer).await;
    let right = in_alert("right", ExplanationAudience::Caller).await;
    assert_eq!(right.finding.as_str(), "ask", "{right:?}");
    assert_eq!(right, in_alert("wrong", ExplanationAudience::Caller).await, "the guess makes no difference");
    assert_eq!(in_alert("wrong", ExplanationAudience::Operator).await.finding.as_str(), "deny");
    assert!(notes(folder.path()).is_empty());
}

#[tokio::test]
async fn explanation_that_cannot_be_recorded_is_refused() {
    let (layer, _folder) = edit_layer();
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    layer.recorder.ledger.close();
    let pending = [guess_request("right"), guess_request("wrong")]
        .map(|guess| layer.explain(guess, None, ExplanationAudience::Caller));
    for explanation in futures_util::future::join_all(pending).await {
        let code = explanation.finding.refusal().map(|refusal| refusal.code);
        assert_eq!(code, Some(RefusalCode::LedgerUnavailable), "{explanation:?}");
    }
}

#[tokio::test]
async fn flood_of_guesses_is_rate_limited_like_refusals() {
    let (layer, folder) = edit_layer();
    layer.set_mode(Mode::Alert, "test", &caller(), None).await.unwrap();
    let guess = || layer.explain(guess_request("wrong"), None, ExplanationAudience::Caller);
    while layer.throttle.admit_refusal(caller().key(), Instant::now()).is_ok() {}
    let explanation = tokio::time::timeout(Duration::from_secs(1), guess()).await.expect("no wait");
    let refusal = explanation.finding.refusal().expect("a refusal");
    assert_eq!((refusal.code, refusal.detail.as_deref()), (RefusalCode::RateLimited, Some("refusals")));
    assert!(refusal.retry_after_ms.is_some() && notes(folder.path()).is_empty(), "{refusal:?}");
}
