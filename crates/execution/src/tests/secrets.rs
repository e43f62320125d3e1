//! Blocked secrets pass neither in arguments nor in any kind of output of a tool.

use std::sync::Mutex;
use tool::{Failure, Progress, ProgressNote};

use super::*;
use crate::secret_screening;

#[tokio::test]
async fn blocked_secret_passes_in_neither_direction() {
    let secret = "-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc";
    let bench = LayerBench::new()
        .tool("echo", Category::READ_ONLY, |_| ready_output(json!({"text": "fine"})))
        .tool("leak", Category::READ_ONLY, move |_| ready_output(json!({"deep": [{"text": secret}]})));
    let (layer, folder) = bench.layer();
    let rsa = "-----BEGIN RSA PRIVATE KEY-----";
    for arguments in
        [json!({"a": [{"b": secret}]}), json!({"a": rsa}), json!({rsa: 1}), json!({"a": [{rsa: null}]})]
    {
        let refused = layer.execute(request("echo", arguments, None)).await;
        let refusal = refused.metadata.refusal.unwrap();
        let code_and_detail = (refusal.code, refusal.detail.as_deref());
        assert_eq!(code_and_detail, (RefusalCode::ValidatorRejected, Some("secret")));
        let rule = refusal.rule.unwrap();
        assert!(
            rule.file.ends_with("safety.yaml") && rule.line > 0 && rule.id.contains("private_key"),
            "{rule:?}"
        );
    }
    let withheld = layer.execute(request("leak", json!({}), None)).await;
    assert_eq!(failure_kind(&withheld), Some(FailureKind::Unreadable), "{withheld:?}");
    assert_eq!(withheld.output, json!({}));
    assert!(!records(folder.path()).iter().any(|record| record.to_string().contains("PRIVATE KEY")));
}

/// The policy judges file names as they are, but the ledger must not repeat a secret in one.
#[tokio::test]
async fn secret_in_a_file_name_is_not_recorded() {
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let (layer, folder) = LayerBench::new()
        .tool_with_spec(
            "look",
            Category::READ_ONLY,
            |spec| {
                let path = json!({"type": "string", "format": "path"});
                spec.input_schema = Some(json!({"type": "object", "properties": {"path": path}}));
            },
            |_| ready_output(json!({"text": "fine"})),
        )
        .layer();
    for name in ["notes.txt".to_owned(), secret.clone()] {
        std::fs::write(folder.path().join(&name), "x").unwrap();
        let looked = layer.execute(request("look", json!({"path": name}), None)).await;
        assert!(looked.success, "{looked:?}");
    }
    let decisions: Vec<Value> =
        records(folder.path()).into_iter().filter(|record| super::holds(record, "decision")).collect();
    let [plain, telling] = decisions.as_slice() else { panic!("{decisions:?}") };
    assert!(plain["facts"].to_string().contains("notes.txt"), "an ordinary name is recorded: {plain}");
    assert!(!telling.to_string().contains(&secret), "{telling}");
}

#[tokio::test]
async fn failure_reveals_no_secret_and_keeps_the_output_limit() {
    let secret = "-----BEGIN RSA PRIVATE KEY-----";
    let failing = |failure: Failure| {
        move |_| -> ExecutorFuture {
            let failure = failure.clone();
            Box::pin(async { Err(failure) })
        }
    };
    let failed = || Failure::new(FailureKind::TimedOut, "it took too long").with_hint("try later");
    let with = |output: Value| Failure { output: Some(output), ..failed() };
    let (layer, folder) = LayerBench::new()
        .tool("output", Category::READ_ONLY, failing(with(json!({"stdout": ["x", {secret: 1}]}))))
        .tool("words", Category::READ_ONLY, failing(Failure { message: format!("a {secret}"), ..failed() }))
        .tool("way_out", Category::READ_ONLY, failing(failed().with_hint(format!("use {secret}"))))
        .tool("flood", Category::READ_ONLY, failing(with(json!({"stdout": "x".repeat(2 << 20)}))))
        .tool("talker", Category::READ_ONLY, failing(Failure { message: "y".repeat(1 << 20), ..failed() }))
        .tool("modest", Category::READ_ONLY, failing(with(json!({"stdout": "so far"}))))
        .layer();
    for tool in ["output", "words", "way_out"] {
        let result = layer.execute(request(tool, json!({}), None)).await;
        assert_eq!(
            failure_kind(&result),
            Some(FailureKind::TimedOut),
            "{tool}: the failure kind is still reported"
        );
        let text = serde_json::to_string(&result).unwrap();
        assert!(!text.contains("PRIVATE KEY") && text.contains("withheld"), "{tool}: {text}");
    }
    let flood = layer.execute(request("flood", json!({}), None)).await;
    assert_eq!(flood.output, json!({}));
    assert!(serde_json::to_string(&flood).unwrap().contains("try later; its output is omitted"), "{flood:?}");
    let talker = layer.execute(request("talker", json!({}), None)).await;
    assert!(serde_json::to_string(&talker).unwrap().len() < 10_000, "the failure text is limited");
    let modest = layer.execute(request("modest", json!({}), None)).await;
    assert_eq!(
        (modest.output, modest.error.unwrap().as_str()),
        (json!({"stdout": "so far"}), "it took too long")
    );
    assert!(!records(folder.path()).iter().any(|record| record.to_string().contains("PRIVATE KEY")));
}

#[test]
fn progress_is_withheld_from_the_secret_on() {
    let (_layer, _folder) = LayerBench::new().layer();
    let received = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&received);
    let progress = secret_screening::screen_progress(&Progress::with_listener(move |note| {
        sink.lock().unwrap().push(note)
    }));
    let piece = |text: &str| ProgressNote {
        message: "some bytes".into(),
        done_of_total: Some((1, 2)),
        data: Some(json!({"source": "stdout", "content": text})),
    };
    for text in ["so far\n-----BEGIN RSA PRIV", "ATE KEY-----\nMIIE", "the rest of it"] {
        progress.report(piece(text));
    }
    let received = received.lock().unwrap();
    let contents: Vec<_> =
        received.iter().map(|note| note.data.as_ref().map(|data| data["content"].clone())).collect();
    assert_eq!(contents, [Some(json!("so far\n-----BEGIN RSA PRIV")), None, None]);
    assert!(
        received[1].message.contains("withheld") && received[1].done_of_total.is_some(),
        "{:?}",
        received[1]
    );
    assert!(
        !secret_screening::screen_progress(&Progress::default()).has_listener(),
        "no progress is built without a listener"
    );
}
