//! `explain` predicts the exact result of a call after random events, and gives the caller and the operator
//! the same explanation.

use governance::Permit;
use registry::{Change, Preview};
use tool::{Failure, FailureKind};

use super::*;
use crate::approvals::Dice;
use crate::{Answer, Explanation, Finding, Hearer, Lasting};

/// Tool that replaces `before` by `after` if `before` matches the current value.
struct Replaces {
    there: Arc<AtomicUsize>,
}

impl ToolExecutor for Replaces {
    fn preview(&self, permit: &Permit) -> Result<Preview, Failure> {
        let arguments = permit.call().arguments();
        let there = self.there.load(Ordering::SeqCst);
        if arguments.get("before") != Some(&json!(there)) {
            return Err(Failure::new(FailureKind::Conflict, "the value does not match"));
        }
        let after = arguments.get("after").map(ToString::to_string).unwrap_or_default();
        let change = Change {
            path: "/somewhere".into(),
            before: Some(there.to_string().into_bytes()),
            after: Some(after.into_bytes()),
        };
        Ok(Preview { changes: vec![change], ..Preview::default() })
    }

    fn run(&self, _: Arc<Order>) -> Running {
        done(json!({}))
    }
}

/// Random scenario: a layer with mode changes, decisions and changes of the current value.
struct Story {
    layer: Arc<ToolExecutionLayer>,
    _folder: tempfile::TempDir,
    there: Arc<AtomicUsize>,
    questions: Vec<String>,
    dice: Dice,
    seen: Vec<&'static str>,
}

const TOOLS: [&str; 4] = ["replace", "always_asked", "look", "nowhere"];

impl Story {
    fn begin(number: u64) -> Story {
        let there = Arc::new(AtomicUsize::new(0));
        let replaces = || Replaces { there: Arc::clone(&there) };
        let bench = Bench::new()
            .run_by("replace", Category::SYSTEM_WRITE, |_| {}, replaces())
            .run_by("always_asked", Category::READ_ONLY, |spec| spec.requires_approval = true, replaces())
            .tool("look", Category::READ_ONLY, |_| done(json!({})));
        let (layer, _folder) = bench.layer();
        let dice = Dice::of(number);
        Story { layer, _folder, there, questions: Vec::new(), dice, seen: Vec::new() }
    }

    fn any_request(&mut self) -> Request {
        let tool = TOOLS[self.dice.roll(TOOLS.len())];
        let after = match self.dice.roll(5) {
            0 => json!("x".repeat(20_000)),
            1 => json!("token=v1/src/deploy.sh"),
            n => json!(n),
        };
        let arguments = match self.dice.roll(12) {
            0 => json!([]),
            _ => json!({"before": self.dice.roll(2), "after": after}),
        };
        let asking = [Asking::Async, Asking::Async, Asking::Async, Asking::Never][self.dice.roll(4)];
        let doors = [Door::Socket, Door::Mcp, Door::Control, Door::Embedded];
        let door = doors[self.dice.roll(doors.len() * 2) % doors.len()];
        let approval_id = match self.dice.roll(3) {
            0 => self.dice.pick(&self.questions).cloned(),
            1 if self.dice.roll(8) == 0 => Some("never-asked".to_owned()),
            _ => None,
        };
        let key = (self.dice.roll(6) == 0).then(|| format!("key-{}", self.dice.roll(4)));
        let caller = Caller { door, ..caller() };
        Request { caller, asking, approval_id, idempotency_key: key, ..request(tool, arguments, None) }
    }

    /// Triggers a random event that changes the result of later calls.
    async fn turn_of_events(&mut self) {
        match self.dice.roll(4) {
            0 => {
                let mode = Mode::ALL[self.dice.roll(Mode::ALL.len())];
                // Not every transition is allowed; otherwise the mode stays.
                let _ = self.layer.set_mode(mode, "test", &caller(), None).await;
            }
            1 => {
                self.there.fetch_xor(1, Ordering::SeqCst);
            }
            _ => {
                let Some(id) = self.dice.pick(&self.questions).cloned() else { return };
                let lasting = Lasting { lasts: Some(Duration::from_secs(600)), ..Lasting::default() };
                let answer = match self.dice.roll(3) {
                    0 => Answer::Once,
                    1 => Answer::Deny(None),
                    _ => self.displayed(&id, lasting).await,
                };
                // The request may be decided already.
                let _ = self.layer.decide(&id, answer, &caller(), None).await;
            }
        }
    }

    /// A rule is created only as displayed, so it is displayed first.
    async fn displayed(&self, id: &str, lasting: Lasting) -> Answer {
        match self.layer.decide(id, Answer::Lasting(lasting.clone()), &caller(), None).await {
            Err(crate::DecideError::NotDisplayed { lines }) => {
                Answer::Lasting(Lasting { displayed: Some(lines), ..lasting })
            }
            _ => Answer::Once,
        }
    }

    async fn call(&mut self) {
        let request = self.any_request();
        let explanation = self.layer.explain(request.clone(), None, Hearer::Caller).await;
        let for_operator = self.layer.explain(request.clone(), None, Hearer::Operator).await;
        assert_eq!(explanation, for_operator, "{request:?}");
        let result = self.layer.execute(request.clone()).await;
        let happened = happened(&result);
        assert_eq!(foretold(&explanation), happened, "{request:?}\n{explanation:?}\n{result:?}");
        self.seen.push(explanation.finding.as_str());
        let asked = result.metadata.refusal.and_then(|refusal| refusal.approval_id);
        self.questions.extend(asked.filter(|id| !self.questions.contains(id)));
    }
}

/// Facts of a result that a program can distinguish.
type Word = (&'static str, Option<(RefusalCode, Option<String>, String, Option<tool::RuleRef>)>);

fn word(refusal: &tool::Refusal) -> (RefusalCode, Option<String>, String, Option<tool::RuleRef>) {
    (refusal.code, refusal.detail.clone(), refusal.reason.clone(), refusal.rule.clone())
}

fn foretold(explanation: &Explanation) -> Word {
    match &explanation.finding {
        Finding::Permit => ("permit", None),
        Finding::Ask { .. } => ("ask", None),
        Finding::Deny { refusal } => ("deny", Some(word(refusal))),
    }
}

fn happened(result: &ToolResult) -> Word {
    match &result.metadata.refusal {
        None => ("permit", None),
        Some(refusal) if refusal.code == RefusalCode::ApprovalPending => ("ask", None),
        Some(refusal) if refusal.detail.as_deref() == Some("no_approver") => ("ask", None),
        Some(refusal) => ("deny", Some(word(refusal))),
    }
}

#[tokio::test]
async fn explanation_predicts_the_result_after_random_events() {
    let mut seen = std::collections::HashMap::new();
    for number in 1..=5 {
        let mut story = Story::begin(number);
        for _ in 0..80 {
            if story.dice.roll(3) == 0 {
                story.turn_of_events().await;
            }
            story.call().await;
        }
        story.seen.iter().for_each(|word| *seen.entry(*word).or_insert(0) += 1);
    }
    let enough = |word| seen.get(word).is_some_and(|times| *times > 10);
    assert!(["permit", "ask", "deny"].into_iter().all(enough), "{seen:?}");
}
