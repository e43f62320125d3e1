//! Tests of rate limits: under concurrency, across a restart, and in results.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tool::{Category, RefusalCode};

use super::{LayerBench, caller, ready_output, records, request};

/// Bench with a tool that may run ten times an hour, and a counter of its runs.
fn bench() -> (LayerBench, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let bench = LayerBench::new().tool_with_spec(
        "ten",
        Category::READ_ONLY,
        |spec| spec.rate_limit_per_hour = Some(10),
        move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            Box::pin(async {
                tokio::task::yield_now().await;
                Ok(tool::ToolOutput::default())
            })
        },
    );
    (bench.tool("other", Category::READ_ONLY, |_| ready_output(json!({}))), ran)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_calls_cannot_exceed_a_rate_limit() {
    let (bench, ran) = bench();
    let (layer, folder) = bench.layer();
    let calls: Vec<_> = (0..10_000)
        .map(|_| {
            let layer = Arc::clone(&layer);
            tokio::spawn(async move { layer.execute(request("ten", json!({}), None)).await })
        })
        .collect();
    let mut done = 0;
    for call in calls {
        let result = call.await.unwrap();
        done += usize::from(result.success);
        let Some(refusal) = result.metadata.refusal else { continue };
        assert_eq!(
            (refusal.code, refusal.detail.as_deref()),
            (RefusalCode::RateLimited, Some("tool_per_hour"))
        );
        let after = refusal.retry_after_ms.unwrap();
        assert!((3_500_000..=3_600_000).contains(&after), "an hour from the first: {after}");
    }
    assert_eq!((done, ran.load(Ordering::Relaxed)), (10, 10));
    assert!(layer.execute(request("other", json!({}), None)).await.success, "another tool is not affected");
    layer.close("test");
    drop(layer);
    let (bench, ran) = self::bench();
    let again = LayerBench::layer_in(folder.path(), bench.registry);
    let refused = again.execute(request("ten", json!({}), None)).await;
    assert_eq!(refused.metadata.refusal.unwrap().code, RefusalCode::RateLimited, "a restart resets nothing");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn every_result_reports_remaining_calls() {
    let (bench, _) = bench();
    let (layer, _folder) = bench.layer();
    for left in (0..10).rev() {
        let result = layer.execute(request("ten", json!({}), None)).await;
        assert_eq!(result.metadata.remaining["tool_per_hour"], left, "{result:?}");
        assert!(result.metadata.remaining["mode_per_minute"].as_u64().unwrap() > 500, "{result:?}");
    }
    let busy = {
        layer.capacity.limits.set_capacity(0);
        let mut refusal = tool::Refusal::new("other", RefusalCode::Busy, "busy");
        let (call, _) = crate::call::PipelineCall::judge_only(
            request("other", json!({}), None),
            &layer.recorder.ledger,
            layer.current.snapshot.load_full(),
            layer.mode(),
        );
        layer.capacity.limits.set_retry_after(&call, &mut refusal);
        refusal.retry_after_ms
    };
    assert_eq!(busy, Some(1000));
}

#[tokio::test]
async fn kind_of_a_refusal_does_not_come_from_the_tool_name() {
    let (bench, _) = bench();
    let (layer, folder) = bench.layer();
    for _ in 0..3 {
        let refused = layer.execute(request("(malformed)", json!({}), None)).await;
        assert_eq!(refused.metadata.refusal.unwrap().code, RefusalCode::UnknownTool);
        layer.refuse_malformed(caller(), RefusalCode::InvalidArguments, "no object");
    }
    layer.close("test");
    drop(layer);
    let records = records(folder.path());
    let refusals = |code: &str| {
        records.iter().filter(|record| record["kind"] == "refusal" && record["code"] == code).count()
    };
    assert_eq!((refusals("unknown_tool"), refusals("invalid_arguments")), (3, 1), "{records:?}");
    let groups: Vec<_> = records.iter().filter(|record| record["about"] == "grouped").collect();
    let [group] = groups.as_slice() else { panic!("{groups:?}") };
    assert_eq!(
        (&group["data"]["kind"], &group["data"]["count"]),
        (&json!("malformed"), &json!(2)),
        "{group}"
    );
}
