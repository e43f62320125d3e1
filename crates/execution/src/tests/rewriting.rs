//! Tests of tools that rewrite their arguments: the operator sees the rewritten arguments, and exactly these
//! run.

use governance::Permit;
use registry::CallPreview;
use tool::{Arguments, Failure};

use super::*;
use approvals::OperatorDecision;

/// Tool whose rewritten arguments depend on a counter, and that returns the arguments it got.
struct RewriteTool {
    version: Arc<AtomicUsize>,
}

impl ToolExecutor for RewriteTool {
    fn preview(&self, _: &Permit) -> Result<CallPreview, Failure> {
        let mind = self.version.load(Ordering::SeqCst);
        Ok(CallPreview {
            rewritten: Some(Arguments::from_iter([("mind".to_owned(), json!(mind))])),
            ..CallPreview::default()
        })
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        // A preview from now on would return something else.
        self.version.fetch_add(100, Ordering::SeqCst);
        ready_output(json!(recorded_permit.value().previewed_arguments()))
    }
}

fn bench() -> (Arc<ToolExecutionLayer>, tempfile::TempDir, Arc<AtomicUsize>) {
    let mind = Arc::new(AtomicUsize::new(1));
    let body = RewriteTool { version: Arc::clone(&mind) };
    let asked = |spec: &mut ToolSpec| spec.requires_approval = true;
    let (layer, folder) =
        LayerBench::new().tool_with_executor("rewrites", Category::SYSTEM_WRITE, asked, body).layer();
    (layer, folder, mind)
}

/// Requests approval for a call, approves it, runs `meanwhile`, and repeats the call with the approval.
async fn run_approved(layer: &Arc<ToolExecutionLayer>, meanwhile: impl FnOnce()) -> ToolResult {
    let asked = CallRequest { approval_mode: ApprovalMode::Async, ..request("rewrites", json!({}), None) };
    let pending = layer.execute(asked).await;
    let id = pending.metadata.refusal.as_ref().and_then(|refusal| refusal.approval_id.clone());
    let id = id.unwrap_or_else(|| panic!("{pending:?}"));
    layer.decide(&id, OperatorDecision::ApproveOnce, &caller(), None).await.unwrap();
    meanwhile();
    let brought = CallRequest {
        approval_mode: ApprovalMode::Async,
        approval_id: Some(id),
        ..request("rewrites", json!({}), None)
    };
    layer.execute(brought).await
}

#[tokio::test]
async fn tool_gets_the_rewritten_arguments_that_were_approved() {
    let (layer, _folder, _) = bench();
    let ran = run_approved(&layer, || {}).await;
    assert_eq!(ran.output, json!({"mind": 1}), "{ran:?}");
}

#[tokio::test]
async fn approval_does_not_cover_newly_rewritten_arguments() {
    let (layer, _folder, mind) = bench();
    let refused = run_approved(&layer, || mind.store(2, Ordering::SeqCst)).await;
    let detail = refused.metadata.refusal.as_ref().and_then(|refusal| refusal.detail.clone());
    assert_eq!(detail.as_deref(), Some("approval_mismatch"), "{refused:?}");
    assert_eq!(mind.load(Ordering::SeqCst), 2, "it was not run");
}
