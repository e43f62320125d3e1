//! Tools that rewrite their own arguments: a human is shown what they make of them, and that is what runs.

use governance::Permit;
use registry::Preview;
use tool::{Arguments, Failure};

use super::*;
use crate::Answer;

/// Makes something else of its arguments each time it changes its mind, and answers with what it was handed.
struct Rewrites {
    mind: Arc<AtomicUsize>,
}

impl ToolExecutor for Rewrites {
    fn preview(&self, _: &Permit) -> Result<Preview, Failure> {
        let mind = self.mind.load(Ordering::SeqCst);
        Ok(Preview {
            rewritten: Some(Arguments::from_iter([("mind".to_owned(), json!(mind))])),
            ..Preview::default()
        })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        // Whatever it would make of them by now.
        self.mind.fetch_add(100, Ordering::SeqCst);
        done(json!(order.value().foretold()))
    }
}

fn bench() -> (Arc<ToolExecutionLayer>, tempfile::TempDir, Arc<AtomicUsize>) {
    let mind = Arc::new(AtomicUsize::new(1));
    let body = Rewrites { mind: Arc::clone(&mind) };
    let asked = |spec: &mut ToolSpec| spec.requires_approval = true;
    let (layer, folder) = Bench::new().run_by("rewrites", Category::SYSTEM_WRITE, asked, body).layer();
    (layer, folder, mind)
}

/// Asks about a call, says yes to it, and brings the yes after `meanwhile`.
async fn approved(layer: &Arc<ToolExecutionLayer>, meanwhile: impl FnOnce()) -> ToolResult {
    let asked = Request { asking: Asking::Async, ..request("rewrites", json!({}), None) };
    let pending = layer.execute(asked).await;
    let id = pending.metadata.refusal.as_ref().and_then(|refusal| refusal.approval_id.clone());
    let id = id.unwrap_or_else(|| panic!("{pending:?}"));
    layer.decide(&id, Answer::Once, &caller(), None).await.unwrap();
    meanwhile();
    let brought =
        Request { asking: Asking::Async, approval_id: Some(id), ..request("rewrites", json!({}), None) };
    layer.execute(brought).await
}

#[tokio::test]
async fn what_a_tool_made_of_its_arguments_when_a_human_looked_is_what_it_gets() {
    let (layer, _folder, _) = bench();
    let ran = approved(&layer, || {}).await;
    assert_eq!(ran.output, json!({"mind": 1}), "{ran:?}");
}

#[tokio::test]
async fn a_yes_is_not_for_what_a_tool_makes_of_its_arguments_by_now() {
    let (layer, _folder, mind) = bench();
    let refused = approved(&layer, || mind.store(2, Ordering::SeqCst)).await;
    let detail = refused.metadata.refusal.as_ref().and_then(|refusal| refusal.detail.clone());
    assert_eq!(detail.as_deref(), Some("approval_mismatch"), "{refused:?}");
    assert_eq!(mind.load(Ordering::SeqCst), 2, "it was not run");
}
