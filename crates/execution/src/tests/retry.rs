//! Tests of retries: a transient failure of an idempotent tool is retried once, and nothing else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tool::{Category, Failure, FailureKind, ToolOutput};

use super::{LayerBench, failure_kind, records, request};

const REMAINING_TIME: Duration = Duration::from_millis(50);

/// Runs a tool that fails in the given ways before it succeeds. Returns success, number of attempts, and the
/// attempts in the recorded outcome.
async fn check(
    fails: &'static [FailureKind],
    idempotent: bool,
    deadline: Option<Duration>,
) -> (bool, usize, Value) {
    let tried = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tried);
    let bench = LayerBench::new().tool_with_spec(
        "flaky",
        Category::READ_ONLY,
        |spec| spec.annotations.idempotent_hint = idempotent,
        move |_| {
            let failure = fails.get(counted.fetch_add(1, Ordering::Relaxed)).copied();
            Box::pin(async move {
                // Leaves too little of the deadline for the pause and another attempt.
                tokio::time::sleep(deadline.unwrap_or_default().saturating_sub(REMAINING_TIME)).await;
                match failure {
                    Some(kind) => Err(Failure::new(kind, "connection reset")),
                    None => Ok(ToolOutput::default()),
                }
            })
        },
    );
    let (layer, folder) = bench.layer();
    let result = layer.execute(request("flaky", json!({}), deadline)).await;
    assert_eq!(result.success, failure_kind(&result).is_none(), "{result:?}");
    let written = records(folder.path());
    let outcomes: Vec<&Value> = written.iter().filter(|record| super::holds(record, "outcome")).collect();
    assert_eq!(outcomes.len(), 1, "one call, one outcome");
    (result.success, tried.load(Ordering::Relaxed), outcomes[0]["run"]["attempts"].clone())
}

#[tokio::test]
async fn transient_failure_is_retried_once() {
    use FailureKind::{Io, ResourceExhausted, TimedOut, Transient, Unreadable};
    assert_eq!(check(&[], true, None).await, (true, 1, Value::Null));
    assert_eq!(check(&[Transient], true, None).await, (true, 2, json!(2)));
    assert_eq!(check(&[Transient, Transient], true, None).await, (false, 2, json!(2)), "no third attempt");
    assert_eq!(
        check(&[Transient], false, None).await,
        (false, 1, Value::Null),
        "a tool that is not idempotent is not retried"
    );
    let two_seconds = Some(Duration::from_secs(2));
    assert_eq!(
        check(&[Transient], true, two_seconds).await,
        (false, 1, Value::Null),
        "no retry past the deadline"
    );
    for lasting in [Io, ResourceExhausted, TimedOut, Unreadable] {
        let fails: &'static [FailureKind] = match lasting {
            Io => &[Io],
            ResourceExhausted => &[ResourceExhausted],
            TimedOut => &[TimedOut],
            _ => &[Unreadable],
        };
        assert_eq!(check(fails, true, None).await, (false, 1, Value::Null), "{lasting:?}");
    }
}

#[tokio::test]
async fn first_cause_of_a_retried_call_is_reported() {
    let tried = AtomicUsize::new(0);
    let bench = LayerBench::new().tool_with_spec(
        "flaky",
        Category::READ_ONLY,
        |spec| spec.annotations.idempotent_hint = true,
        move |_| {
            let cause = ["connection reset", "the provider is in back-off"]
                .get(tried.fetch_add(1, Ordering::Relaxed))
                .copied()
                .unwrap_or_default();
            Box::pin(async move { Err(Failure::new(FailureKind::Transient, cause)) })
        },
    );
    let (layer, _folder) = bench.layer();
    let result = layer.execute(request("flaky", json!({}), None)).await;
    let error = result.error.unwrap_or_default();
    assert!(error.contains("back-off; the first attempt failed: connection reset"), "{error}");
}

#[tokio::test]
async fn denial_of_the_second_attempt_is_a_denial() {
    use FailureKind::{Denied, Transient};
    assert_eq!(check(&[Denied], true, None).await, (false, 1, Value::Null), "a denial is not retried");
    let tried = AtomicUsize::new(0);
    let bench = LayerBench::new().tool_with_spec(
        "flaky",
        Category::READ_ONLY,
        |spec| spec.annotations.idempotent_hint = true,
        move |_| {
            let first = tried.fetch_add(1, Ordering::Relaxed) == 0;
            let (kind, cause) =
                if first { (Transient, "connection reset") } else { (Denied, "redirected inside") };
            Box::pin(async move { Err(Failure::new(kind, cause)) })
        },
    );
    let (layer, folder) = bench.layer();
    let result = layer.execute(request("flaky", json!({}), None)).await;
    assert_eq!(failure_kind(&result), Some(Denied), "the first cause does not hide it: {result:?}");
    let outcome = records(folder.path()).into_iter().rfind(|record| super::holds(record, "outcome")).unwrap();
    assert_eq!(outcome["failure"], "denied", "{outcome}");
}
