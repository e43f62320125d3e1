//! Output of commands and receipts of runs: the whole output can be read, and no byte of it is changed.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};
use tests::Daemon;

use super::{home, output, run};

/// All pages of a spilled output.
fn read_on(daemon: &Daemon, id: &str, page: u64) -> Vec<Value> {
    let (mut pages, mut offset) = (Vec::new(), 0);
    loop {
        let arguments = json!({"id": id, "offset": offset, "max_bytes": page});
        let result = daemon.agent().execute("read_output", &arguments);
        assert_eq!(result["success"], true, "{result}");
        pages.push(result["output"].clone());
        match result["output"]["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => return pages,
        }
    }
}

#[test]
fn omitted_output_is_stored_and_readable() {
    let daemon = Daemon::start_in(home(""));
    let result = run(&daemon, &["sh", "-c", "seq 100000; seq 5 >&2"]);
    let whole: String = (1..=100_000).map(|number| format!("{number}\n")).collect();
    let output = &result["output"];
    assert_eq!(
        output["stdout_omitted_bytes"],
        whole.len() as u64 - 65_536,
        "{}",
        output["stdout_omitted_bytes"]
    );
    assert_eq!((&output["stderr"], &output["stderr_spill"]), (&json!("1\n2\n3\n4\n5\n"), &json!(null)));
    assert_eq!(output["stdout_spill"]["bytes"], whole.len());
    let id = output["stdout_spill"]["id"].as_str().expect("an id");
    let pages = read_on(&daemon, id, 200_000);
    assert!(pages.len() > 2, "more than one page");
    assert_eq!(pages.iter().map(|page| page["content"].as_str().expect("text")).collect::<String>(), whole);

    let mut kept = std::fs::read_dir(daemon.home().root().join("state/output")).expect("the outputs");
    let kept = kept.next().expect("one").expect("readable").path();
    assert!(!kept.to_str().expect("text").contains(id), "its name does not give the id away");
    assert_eq!(kept.metadata().expect("a file").permissions().mode() & 0o777, 0o600);
    let unknown = daemon.agent().execute("read_output", &json!({"id": "0".repeat(32)}));
    assert_eq!(unknown["metadata"]["failure"]["kind"], "not_found", "{unknown}");
    for offset in [whole.len() as u64 + 1, (1 << 53) - 1] {
        let past = daemon.agent().execute("read_output", &json!({"id": id, "offset": offset}));
        assert_eq!(past["metadata"]["failure"]["kind"], "not_found", "{past}");
        assert!(past["error"].as_str().expect("why").contains("past the end"), "{past}");
    }
    for offset in [1 << 53, 1 << 63, u64::MAX] {
        let no_offset = daemon.agent().execute("read_output", &json!({"id": id, "offset": offset}));
        assert_eq!(no_offset["metadata"]["refusal"]["code"], "invalid_arguments", "{no_offset}");
    }
    let mut stranger = daemon.agent();
    let client = json!({"name": "stranger", "version": "1"});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client});
    stranger.request("initialize", &hello);
    let stolen = stranger.execute("read_output", &json!({"id": id}));
    assert_eq!(stolen["metadata"]["failure"]["kind"], "not_found", "another's output: {stolen}");
    let terms = json!({"allowlist": ["read_output"]});
    let mut orchestrator = daemon.agent();
    let session = orchestrator.request("sinew/session.open", &terms)["result"].clone();
    let mut worker = tests::Client::connect(session["socket"].as_str().expect("a path").as_ref());
    let stolen = worker.execute("read_output", &json!({"id": id}));
    assert_eq!(stolen["metadata"]["failure"]["kind"], "not_found", "nor a worker's: {stolen}");
    let outside = daemon.agent().execute("read_output", &json!({"id": "../../config/settings.yaml"}));
    assert_eq!(outside["success"], false, "{outside}");
    let again = run(&daemon, &["cat", kept.to_str().expect("text")]);
    assert_eq!(again["output"]["exit_code"], 1, "no command reads them: {again}");
}

#[test]
fn no_page_cuts_a_character_and_no_byte_is_lost() {
    let daemon = Daemon::start_in(home(""));
    let text = run(&daemon, &["sh", "-c", "yes 'a€€€' | head -c 200000"]);
    let id = text["output"]["stdout_spill"]["id"].as_str().expect("an id");
    let pages = read_on(&daemon, id, 65_000);
    assert!(pages.iter().rev().skip(1).all(|page| page["encoding"] == "utf-8"), "whole characters");
    let bytes = run(&daemon, &["head", "-c", "200000", "/dev/zero"]);
    assert_eq!(bytes["output"]["stdout_spill"]["bytes"], 200_000, "{}", bytes["output"]["stdout_spill"]);
    let binary = run(&daemon, &["sh", "-c", "yes | head -c 70000; printf '\\377\\376'"]);
    let id = binary["output"]["stdout_spill"]["id"].as_str().expect("an id");
    let last = read_on(&daemon, id, 69_999).pop().expect("a page");
    assert_eq!((&last["encoding"], &last["content"]), (&json!("base64"), &json!("Cv/+")), "{last}");
}

#[test]
fn result_has_a_receipt() {
    let daemon = Daemon::start_in(home(""));
    let script = "head -c 1000000 /dev/zero > made; cat made | wc -c";
    let result = run(&daemon, &["sh", "-c", script]);
    assert_eq!(output(&result).trim(), "1000000");
    let receipt = &result["output"]["sandbox"];
    let number = |name: &str| receipt[name].as_u64().unwrap_or_else(|| panic!("{name}: {receipt}"));
    assert!(number("written_bytes") >= 2_000_000, "the file and the pipe: {receipt}");
    assert!(number("read_bytes") >= 3_000_000, "the zeros, the file and the pipe: {receipt}");
    assert_eq!(number("processes"), 4, "a shell, head, cat and wc: {receipt}");
    assert!(number("max_memory_bytes") > 0 && receipt["cpu_ms"].as_f64() > Some(0.0), "{receipt}");
    assert_eq!(receipt["program_sha256"].as_str().map(str::len), Some(64));
    let sandbox = |words: &[&str]| run(&daemon, words)["output"]["sandbox"]["sandbox_sha256"].clone();
    assert_eq!(sandbox(&["true"]), receipt["sandbox_sha256"], "the same grants, whatever runs");
    daemon.home().file(".env", "a new name to hide");
    assert_ne!(sandbox(&["true"]), receipt["sandbox_sha256"], "another sandbox");
    let metadata = &result["metadata"];
    assert_eq!(metadata["policy_hash"].as_str().map(str::len), Some(64), "{metadata}");
    assert_eq!(metadata["usage"]["written_bytes"], receipt["written_bytes"]);
}

#[test]
fn denied_operation_is_named_with_its_grant() {
    let daemon = Daemon::start_in(home(""));
    let path = "/usr/new";
    let denied = run(&daemon, &["touch", path]);
    let first = &denied["output"]["denied"][0];
    assert!(first["message"].as_str().is_some_and(|what| what.contains(path)), "{denied}");
    assert!(first["grant"].as_str().is_some_and(|grant| grant.contains("sinew workspace add")), "{denied}");
    assert_eq!(run(&daemon, &["true"])["output"]["denied"], json!(null), "nothing was");
}

#[test]
fn output_is_reported_piece_by_piece() {
    let daemon = Daemon::start_in(home("    timeout_seconds: 20\n"));
    let mut client = daemon.agent();
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    client.request("initialize", &hello);
    client.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    daemon.home().file("go", "");
    // The script does not write the second piece before the test has received the first.
    let script = "echo one; while [ -e go ]; do sleep 0.01; done; echo two >&2";
    let params = json!({"name": "run_command", "arguments": {"command": ["sh", "-c", script]}, "_meta": {"progressToken": "p"}});
    client.send(
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}))
            .as_bytes(),
    );
    let mut pieces = Vec::new();
    let result = loop {
        let message = client.receive().expect("a message");
        if message["method"] == "notifications/progress" {
            let data = message["params"]["_meta"]["sinew/data"].clone();
            pieces.push((data["sequence"].clone(), data["source"].clone(), data["content"].clone()));
            let _ = std::fs::remove_file(daemon.home().workspace().join("go"));
        } else if message["id"] == 7 {
            break message;
        }
    };
    let expect = [(0, "stdout", "one\n"), (1, "stderr", "two\n")];
    assert_eq!(pieces, expect.map(|(n, source, text)| (json!(n), json!(source), json!(text))), "{result}");
    assert_eq!(result["result"]["structuredContent"]["stdout"], "one\n", "{result}");
}
