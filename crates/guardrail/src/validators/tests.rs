//! Validators with a real engine, in a thread of this process, which is safe because these validators are
//! harmless.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use knowledge::{FunctionKind, StartedWorker};
use serde_json::{Value, json};
use tool::definition::TextFormat;
use tool::{Category, RiskLevel, ToolSpec};

use super::*;
use crate::guidance::{KnownMistake, KnownQuirk};
use crate::{CuratedGuardrails, Guardrail, InputSchema, KnownTool, ValidatedCall};

fn workers() -> WorkerPool {
    slow_workers(Duration::ZERO)
}

/// Workers that delay their first read by this time.
fn slow_workers(time: Duration) -> WorkerPool {
    WorkerPool::new(move || {
        Box::pin(async move {
            let (client_end, worker_end) = UnixStream::pair()?;
            let delayed_requests = DelayedReader { from: worker_end.try_clone()?, time };
            std::thread::spawn(move || knowledge::serve(delayed_requests, worker_end));
            client_end.set_nonblocking(true)?;
            let (from, to) = tokio::net::UnixStream::from_std(client_end)?.into_split();
            Ok(StartedWorker { from: Box::new(from), to: Box::new(to), kill_guard: Box::new(()) })
        })
    })
}

struct DelayedReader {
    from: UnixStream,
    time: Duration,
}

impl std::io::Read for DelayedReader {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.from.read(bytes);
        std::thread::sleep(std::mem::take(&mut self.time));
        read
    }
}

fn rule(requirements: Vec<Requirement>, source: &str) -> ValidatorRule {
    let function = KnowledgeFunction {
        kind: FunctionKind::Validator,
        id: "check-it".into(),
        source: source.into(),
        helpers: [].into(),
    };
    ValidatorRule { requirements, function: Some(function) }
}

fn guidance() -> ToolGuidance {
    let mistake = |name: &str, wrong: &str| KnownMistake {
        name: name.into(),
        description: "Using update format in create API".into(),
        wrong: wrong.into(),
        correct: "create({\n  assignees: [456]\n})".into(),
        rationale: Some("Create expects an array".into()),
    };
    ToolGuidance {
        command: "create".into(),
        siblings: ["create".into(), "update".into()].into(),
        mistakes: [
            mistake("wrong_format", "create({assignees: {add: [1]}})"),
            mistake("of_another_command", "update({assignees: [1]})"),
            mistake("of_another_field", "create({name: ''})"),
            mistake("of_no_command", "{assignees: {add: [1]}}"),
        ]
        .into(),
        quirks: [
            KnownQuirk {
                name: "of_another_matter".into(),
                description: "A card without a name is untitled".into(),
                mitigation: "Give it one".into(),
            },
            KnownQuirk {
                name: "assignee_format_mismatch".into(),
                description: "Create expects [123]".into(),
                mitigation: "Use a list".into(),
            },
        ]
        .into(),
        reference: None,
    }
}

/// Returns the refusal of a call by a tool with these rules, or `None` if it is valid.
fn call(rules: Vec<ValidatorRule>, arguments: Value) -> Option<Refusal> {
    run_call(rules, workers(), arguments).err().map(|refusal| *refusal)
}

fn run_call(
    rules: Vec<ValidatorRule>,
    workers: WorkerPool,
    arguments: Value,
) -> Result<ValidatedCall, Box<Refusal>> {
    let mut spec = ToolSpec::new("board.create", "Create", Category::NETWORK, RiskLevel::Medium);
    spec.input_schema = Some(json!({"type": "object", "properties": {"name": {"type": "string"},
        "email": {"type": "string"}, "assignees": {"type": "array"}, "n": {"type": "integer"}}}));
    let definition = Arc::new(spec.check().unwrap());
    let guidance = Arc::new(guidance());
    let validators = Arc::new(Validators::new(rules, Arc::clone(&guidance), workers));
    let schema = InputSchema::compile(definition.input_schema()).unwrap();
    let schema = schema.with_validators(validators).with_guidance(guidance);
    let (curated, no_tools) = (CuratedGuardrails::empty(), |_: &str| None);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let known = KnownTool { definition: &definition, schema: &schema };
    match Guardrail::new(&curated, &no_tools).check(known, arguments) {
        Ok(call) => runtime.block_on(call.run_validators()),
        Err(rejected) => Err(rejected.refusal),
    }
}

#[test]
fn validator_accepts_or_refuses_with_its_message() {
    let source = "module.exports = (args) => ({valid: args.n > 1, errors: args.n > 1 ? [] : ['n must be more than 1']})";
    assert_eq!(call(vec![rule(vec![], source)], json!({"n": 2})), None);
    let refusal = call(vec![rule(vec![], source)], json!({"n": 1})).unwrap();
    assert_eq!(refusal.code, RefusalCode::ValidatorRejected);
    assert_eq!(refusal.detail.as_deref(), Some("validator_refused"));
    assert!(refusal.reason.contains("n must be more than 1"), "{}", refusal.reason);
    assert!(refusal.retryable && refusal.schema_error.is_none());
}

#[test]
fn control_characters_in_validator_messages_are_escaped() {
    let source = "module.exports = (args) => ({valid: false, errors: ['no ' + args.name]})";
    let refusal =
        call(vec![rule(vec![], source)], json!({"name": "a\u{202e}b\u{200b}c\nd\u{1b}[2J"})).unwrap();
    let shown = "no a\\u{202e}b\\u{200b}c\\nd\\u{1b}[2J";
    assert_eq!(refusal.problems[0].message, shown);
    assert!(refusal.reason.contains(shown), "{refusal:?}");
}

#[test]
fn tool_without_validators_accepts_the_call() {
    assert_eq!(call(vec![], json!({})), None);
}

#[test]
fn failing_validator_refuses_the_call() {
    for (source, message) in [
        ("throw new Error('broken')", "broken"),
        ("({valid: false, errors: []})", "without giving a reason"),
        ("({valid: true})", "invalid format"),
        ("function (", "execution failed"),
        ("for (;;) {}", "exceeded 500ms timeout. Validation failed for safety"),
        ("const a = []; for (;;) a.push('x'.repeat(999))", "exceeded 8MB memory limit"),
    ] {
        let refusal =
            call(vec![rule(vec![], source)], json!({})).unwrap_or_else(|| panic!("{source} passed"));
        assert!(refusal.reason.contains(message), "{source}: {}", refusal.reason);
    }
}

#[test]
fn declarative_checks_need_no_function() {
    let fine = "({valid: true, errors: []})";
    let declared = vec![
        Requirement::Present(vec!["name".into(), "n".into()]),
        Requirement::Format(None, TextFormat::Email),
    ];
    let ask = |arguments| call(vec![rule(declared.clone(), fine)], arguments);
    assert_eq!(ask(json!({"name": "x", "n": 0, "email": "ada@example.org"})), None, "0 is there");
    let refusal = ask(json!({"name": "", "email": "no address"})).unwrap();
    let messages: Vec<&str> = refusal.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "Required field 'name' is missing",
            "Required field 'n' is missing",
            "Field 'email' is not a valid email"
        ]
    );
}

#[test]
fn value_that_looks_like_an_option_is_refused() {
    let rule = || ValidatorRule {
        requirements: vec![Requirement::NotAnOption(vec!["name".into(), "n".into(), "assignees".into()])],
        function: None,
    };
    assert_eq!(call(vec![rule()], json!({"name": "a-b", "n": 3, "assignees": ["x"], "email": "-e"})), None);
    for wrong in [
        json!({"name": "-rf"}),
        json!({"name": "--exec=x"}),
        json!({"n": -1}),
        json!({"assignees": ["a", "-o"]}),
    ] {
        let refusal = call(vec![rule()], wrong.clone()).unwrap_or_else(|| panic!("{wrong} passed"));
        assert!(refusal.reason.contains("taken for an option"), "{}", refusal.reason);
    }
}

#[test]
fn every_validator_runs_and_messages_are_deduplicated() {
    let message_text = |what: &str| rule(vec![], &format!("({{valid: false, errors: ['{what}', 'both']}})"));
    let refusal = call(vec![message_text("one"), message_text("two")], json!({})).unwrap();
    let messages: Vec<&str> = refusal.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages, ["one", "both", "two"]);
}

#[test]
fn listed_problems_are_bounded_and_the_rest_counted() {
    let message = |what: &str, count: usize| {
        let errors = format!("Array.from({{length: {count}}}, (_, n) => '{what} ' + n)");
        rule(vec![], &format!("({{valid: false, errors: {errors}}})"))
    };
    let refusal = call(vec![message("wrong", MAX_LISTED_PROBLEMS)], json!({})).unwrap();
    assert_eq!(refusal.problems.len(), MAX_LISTED_PROBLEMS);
    assert!(!refusal.reason.contains("And "), "{}", refusal.reason);
    let refusal = call(vec![message("wrong", MAX_LISTED_PROBLEMS), message("bad", 4)], json!({})).unwrap();
    assert_eq!(refusal.problems.len(), MAX_LISTED_PROBLEMS);
    assert!(refusal.reason.contains(" And 4 more."), "{}", refusal.reason);
}

#[test]
fn only_slow_validators_are_reported_with_their_time() {
    let fine = || vec![rule(vec![], "({valid: true, errors: []})")];
    let time = Validation::SLOW_THRESHOLD + Duration::from_millis(10);
    let slow = run_call(fine(), slow_workers(time), json!({})).unwrap().slow_validators;
    assert!(slow.len() == 1 && &*slow[0].0 == "check-it" && slow[0].1 >= time, "{slow:?}");
    let slow = run_call(fine(), workers(), json!({})).unwrap().slow_validators;
    assert!(
        slow.iter().all(|(_, took)| *took > Validation::SLOW_THRESHOLD),
        "slow only on a busy machine: {slow:?}"
    );
}

#[test]
fn only_the_matching_mistake_is_shown() {
    let by_schema = call(vec![], json!({"assignees": {"add": [1]}})).unwrap();
    assert_eq!(by_schema.code, RefusalCode::InvalidArguments);
    let by_validator =
        call(vec![rule(vec![], "({valid: false, errors: ['assignees must be ids']})")], json!({})).unwrap();
    for refusal in [by_schema, by_validator] {
        let reason = &refusal.reason;
        assert!(
            ["`wrong_format`", "`of_no_command`", "`assignee_format_mismatch`"]
                .iter()
                .all(|name| reason.contains(name)),
            "{reason}"
        );
        assert!(reason.contains("→ correct: create({ assignees: [456] })"), "{reason}");
        assert!(reason.contains("Why: Create expects an array"), "{reason}");
        assert!(!reason.contains("of_another"), "{reason}");
    }
}

/// A call is not valid before its validators have run.
#[test]
fn schema_check_alone_refuses_a_tool_with_validators() {
    let spec = ToolSpec::new("t", "T", Category::READ_ONLY, RiskLevel::Low);
    let definition = Arc::new(spec.check().unwrap());
    let validators =
        Validators::new(vec![rule(vec![], "({valid: true, errors: []})")], Arc::default(), workers());
    let schema =
        InputSchema::compile(definition.input_schema()).unwrap().with_validators(Arc::new(validators));
    let refusal = crate::check(&definition, &schema, json!({})).unwrap_err();
    assert_eq!(refusal.detail.as_deref(), Some("validator_unavailable"));
}
