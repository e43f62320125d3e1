//! `explain` predicts the exact result of a call after random events, and gives the caller and the operator
//! the same explanation.

use governance::Permit;
use registry::{CallPreview, FileChange};
use tool::{Failure, FailureKind};

use super::*;
use crate::schedule_rng::ScheduleRng;
use crate::{ExplainedVerdict, Explanation, ExplanationAudience};
use approvals::{OperatorDecision, StandingRuleRequest};

/// Tool that replaces `before` by `after` if `before` matches the current value.
struct ReplaceTool {
    current: Arc<AtomicUsize>,
}

impl ToolExecutor for ReplaceTool {
    fn preview(&self, permit: &Permit) -> Result<CallPreview, Failure> {
        let arguments = permit.call().arguments();
        let there = self.current.load(Ordering::SeqCst);
        if arguments.get("before") != Some(&json!(there)) {
            return Err(Failure::new(FailureKind::Conflict, "the value does not match"));
        }
        let after = arguments.get("after").map(ToString::to_string).unwrap_or_default();
        let change = FileChange {
            path: "/somewhere".into(),
            before: Some(there.to_string().into_bytes()),
            after: Some(after.into_bytes()),
        };
        Ok(CallPreview { changes: vec![change], ..CallPreview::default() })
    }

    fn run(&self, _: Arc<RecordedPermit>) -> ExecutorFuture {
        ready_output(json!({}))
    }
}

/// Random scenario: a layer with mode changes, decisions and changes of the current value.
struct ExplainScenario {
    layer: Arc<ToolExecutionLayer>,
    _folder: tempfile::TempDir,
    current: Arc<AtomicUsize>,
    approval_ids: Vec<String>,
    rng: ScheduleRng,
    verdicts: Vec<&'static str>,
}

const TOOLS: [&str; 4] = ["replace", "always_asked", "look", "nowhere"];

impl ExplainScenario {
    fn new(number: u64) -> ExplainScenario {
        let there = Arc::new(AtomicUsize::new(0));
        let replaces = || ReplaceTool { current: Arc::clone(&there) };
        let bench = LayerBench::new()
            .tool_with_executor("replace", Category::SYSTEM_WRITE, |_| {}, replaces())
            .tool_with_executor(
                "always_asked",
                Category::READ_ONLY,
                |spec| spec.requires_approval = true,
                replaces(),
            )
            .tool("look", Category::READ_ONLY, |_| ready_output(json!({})));
        let (layer, _folder) = bench.layer();
        let dice = ScheduleRng::from_seed(number);
        ExplainScenario {
            layer,
            _folder,
            current: there,
            approval_ids: Vec::new(),
            rng: dice,
            verdicts: Vec::new(),
        }
    }

    fn random_request(&mut self) -> CallRequest {
        let tool = TOOLS[self.rng.next_below(TOOLS.len())];
        let after = match self.rng.next_below(5) {
            0 => json!("x".repeat(20_000)),
            1 => json!("token=v1/src/deploy.sh"),
            n => json!(n),
        };
        let arguments = match self.rng.next_below(12) {
            0 => json!([]),
            _ => json!({"before": self.rng.next_below(2), "after": after}),
        };
        let asking = [ApprovalMode::Async, ApprovalMode::Async, ApprovalMode::Async, ApprovalMode::Never]
            [self.rng.next_below(4)];
        let endpoints =
            [CallerEndpoint::Socket, CallerEndpoint::Mcp, CallerEndpoint::Control, CallerEndpoint::Embedded];
        let endpoint = endpoints[self.rng.next_below(endpoints.len() * 2) % endpoints.len()];
        let approval_id = match self.rng.next_below(3) {
            0 => self.rng.pick(&self.approval_ids).cloned(),
            1 if self.rng.next_below(8) == 0 => Some("never-asked".to_owned()),
            _ => None,
        };
        let key = (self.rng.next_below(6) == 0).then(|| format!("key-{}", self.rng.next_below(4)));
        let caller = Caller { endpoint, ..caller() };
        CallRequest {
            caller,
            approval_mode: asking,
            approval_id,
            idempotency_key: key,
            ..request(tool, arguments, None)
        }
    }

    /// Triggers a random event that changes the result of later calls.
    async fn random_event(&mut self) {
        match self.rng.next_below(4) {
            0 => {
                let mode = Mode::ALL[self.rng.next_below(Mode::ALL.len())];
                // Not every transition is allowed; otherwise the mode stays.
                let _ = self.layer.set_mode(mode, "test", &caller(), None).await;
            }
            1 => {
                self.current.fetch_xor(1, Ordering::SeqCst);
            }
            _ => {
                let Some(id) = self.rng.pick(&self.approval_ids).cloned() else { return };
                let lasting = StandingRuleRequest {
                    duration: Some(Duration::from_secs(600)),
                    ..StandingRuleRequest::default()
                };
                let answer = match self.rng.next_below(3) {
                    0 => OperatorDecision::ApproveOnce,
                    1 => OperatorDecision::Deny(None),
                    _ => self.with_displayed_rule(&id, lasting).await,
                };
                // The request may be decided already.
                let _ = self.layer.decide(&id, answer, &caller(), None).await;
            }
        }
    }

    /// A rule is created only as displayed, so it is displayed first.
    async fn with_displayed_rule(&self, id: &str, lasting: StandingRuleRequest) -> OperatorDecision {
        match self.layer.decide(id, OperatorDecision::ApproveWithRule(lasting.clone()), &caller(), None).await
        {
            Err(approvals::DecideError::NotDisplayed { lines }) => {
                OperatorDecision::ApproveWithRule(StandingRuleRequest { displayed: Some(lines), ..lasting })
            }
            _ => OperatorDecision::ApproveOnce,
        }
    }

    async fn check_call(&mut self) {
        let request = self.random_request();
        let explanation = self.layer.explain(request.clone(), None, ExplanationAudience::Caller).await;
        let for_operator = self.layer.explain(request.clone(), None, ExplanationAudience::Operator).await;
        assert_eq!(explanation, for_operator, "{request:?}");
        let result = self.layer.execute(request.clone()).await;
        let happened = result_facts(&result);
        assert_eq!(explained_facts(&explanation), happened, "{request:?}\n{explanation:?}\n{result:?}");
        self.verdicts.push(explanation.finding.as_str());
        let asked = result.metadata.refusal.and_then(|refusal| refusal.approval_id);
        self.approval_ids.extend(asked.filter(|id| !self.approval_ids.contains(id)));
    }
}

/// Facts of a result that a program can distinguish.
type ResultFacts = (&'static str, Option<(RefusalCode, Option<String>, String, Option<tool::RuleRef>)>);

fn refusal_facts(refusal: &tool::Refusal) -> (RefusalCode, Option<String>, String, Option<tool::RuleRef>) {
    (refusal.code, refusal.detail.clone(), refusal.reason.clone(), refusal.rule.clone())
}

fn explained_facts(explanation: &Explanation) -> ResultFacts {
    match &explanation.finding {
        ExplainedVerdict::Permit => ("permit", None),
        ExplainedVerdict::Ask { .. } => ("ask", None),
        ExplainedVerdict::Deny { refusal } => ("deny", Some(refusal_facts(refusal))),
    }
}

fn result_facts(result: &ToolResult) -> ResultFacts {
    match &result.metadata.refusal {
        None => ("permit", None),
        Some(refusal) if refusal.code == RefusalCode::ApprovalPending => ("ask", None),
        Some(refusal) if refusal.detail.as_deref() == Some("no_approver") => ("ask", None),
        Some(refusal) => ("deny", Some(refusal_facts(refusal))),
    }
}

#[tokio::test]
async fn explanation_predicts_the_result_after_random_events() {
    let mut seen = std::collections::HashMap::new();
    for number in 1..=5 {
        let mut story = ExplainScenario::new(number);
        for _ in 0..80 {
            if story.rng.next_below(3) == 0 {
                story.random_event().await;
            }
            story.check_call().await;
        }
        story.verdicts.iter().for_each(|word| *seen.entry(*word).or_insert(0) += 1);
    }
    let enough = |word| seen.get(word).is_some_and(|times| *times > 10);
    assert!(["permit", "ask", "deny"].into_iter().all(enough), "{seen:?}");
}
