//! Keys of servers on the network: a manifest names the key, the settings define its host and source, and
//! only that one server receives it.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Mutex;

use serde_json::{Value, json};
use tests::{Daemon, Home};

use super::run::put;
use crate::telemetry::collector::{Collector, capture_content};
use crate::web::server::{Server, response};

/// Value that no secret detector recognises.
const KEY: &str = "plainword-7f3a9";
pub(super) const BEARER: &str = "authorization: bearer plainword-7f3a9\r\n";

/// Answer of an MCP server that repeats its key in every text it can return.
fn answer(asked: &Value) -> Option<Value> {
    let result = match asked["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {}}),
        "tools/list" => {
            let tool =
                |name: &str| json!({"name": name, "description": KEY, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("echo"), tool("fail"), tool("change")]})
        }
        "tools/call" if asked["params"]["name"] == "fail" => {
            let error = json!({"code": -1, "message": format!("{KEY} is no good")});
            return Some(json!({"jsonrpc": "2.0", "id": asked["id"], "error": error}));
        }
        "tools/call" => {
            let text = asked["params"]["arguments"]["text"].as_str().unwrap_or_default();
            json!({"content": [{"type": "text", "text": format!("{text} with {KEY}")}]})
        }
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

/// Server that answers only requests with this header line.
pub(super) fn guarded(line: &'static str) -> Server {
    Server::start(move |request, stream| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let is_known = format!("{head}\r\n").to_lowercase().contains(line);
        let response = match (is_known, answer(&asked)) {
            (false, _) => response("401 Unauthorized", "", "who are you"),
            (true, Some(answer)) => {
                response("200 OK", "Content-Type: application/json\r\n", answer.to_string())
            }
            (true, None) => response("202 Accepted", "", ""),
        };
        let _ = stream.write_all(&response);
    })
}

pub(super) fn manifest(transport: &str, url: &str, key: &str) -> String {
    format!(
        "tool:\n  id: far\n  type: mcp\n  name: Far\n  version: 1.0.0\n  description: d\n  mcp_specific: \
         {{transport: {transport}, url: \"{url}\"{key}}}\n  commands:\n    - {{name: echo, category: read_only, \
         risk_level: low, timeout_seconds: 15}}\n    - {{name: fail, category: read_only, risk_level: low}}\n    \
         - {{name: change, category: network, requires_approval: true}}\n"
    )
}

/// Home with this text below `keys` in its settings.
fn home(keys: &str) -> Home {
    let home = crate::web::home(crate::web::OPEN).without_automatic_modes();
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &text.replace("\nkeys: {}\n", &format!("\nkeys: {{{keys}}}\n")));
    home
}

/// Writes a file with the key.
fn key_file(home: &Home, mode: u32) -> PathBuf {
    let file = home.user_home().join("far.key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// Home whose settings have the key `far` for this machine, in a file.
pub(super) fn with_file() -> Home {
    let home = home("");
    let file = key_file(&home, 0o600);
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let entry = format!("\nkeys: {{far: {{host: 127.0.0.1, key_file: {:?}}}}}\n", file.display().to_string());
    home.configure("sinew.yaml", &text.replace("\nkeys: {}\n", &entry));
    home
}

pub(super) const ASKS: &str = ", key: {name: far}";

pub(super) fn echo(daemon: &Daemon) -> Value {
    daemon.agent().execute("far.echo", &json!({"text": "hi"}))
}

#[test]
fn key_is_sent_as_the_manifest_requires() {
    for (key, line) in
        [(ASKS, BEARER), (", key: {name: far, header: X-API-Key}", "x-api-key: plainword-7f3a9\r\n")]
    {
        let server = guarded(line);
        let home = with_file();
        put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), key));
        let daemon = Daemon::start_in(home);
        let result = echo(&daemon);
        assert_eq!(result["output"]["text"], "hi with [key]", "{result}");
        assert!(server.requests().iter().all(|request| request.to_lowercase().contains(line)));
    }
    let server = guarded(BEARER);
    let home = home("far: {host: 127.0.0.1, key_variable: FAR_KEY}");
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_with(home, &[("FAR_KEY", KEY)]);
    assert_eq!(echo(&daemon)["success"], true, "{}", echo(&daemon));
}

/// Server of the SSE transport of 2024-11-05 that requires the key at both of its addresses.
fn old_server() -> Server {
    let open: Mutex<Option<TcpStream>> = Mutex::new(None);
    Server::start(move |request, stream| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        if !format!("{head}\r\n").to_lowercase().contains(BEARER) {
            return drop(stream.write_all(&response("401 Unauthorized", "", "")));
        }
        if request.starts_with("GET ") {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            *open.lock().unwrap() = Some(stream.try_clone().unwrap());
            return drop(stream.write_all(format!("{head}event: endpoint\ndata: /tell\n\n").as_bytes()));
        }
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let _ = stream.write_all(&response("202 Accepted", "", ""));
        if let (Some(answer), Some(open)) = (answer(&asked), open.lock().unwrap().as_mut()) {
            let _ = open.write_all(format!("event: message\ndata: {answer}\n\n").as_bytes());
        }
    })
}

#[test]
fn key_is_sent_over_sse_and_websocket() {
    let server = old_server();
    let home = with_file();
    put(&home, "far.yaml", &manifest("sse", &server.url("/sse"), ASKS));
    let daemon = Daemon::start_in(home);
    let result = echo(&daemon);
    assert_eq!(result["output"]["text"], "hi with [key]", "{result}");
    // Another test covers the rest of the handshake. This one checks that the key is part of it.
    let server = Server::saying("401 Unauthorized", "", "");
    let home = with_file();
    put(&home, "far.yaml", &manifest("websocket", &server.url("/").replace("http:", "ws:"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert!(refused["error"].as_str().unwrap().contains("status 401"), "{refused}");
    assert!(server.requests()[0].to_lowercase().contains(BEARER), "{:?}", server.requests());
}

#[test]
fn missing_key_stops_the_call_with_instructions() {
    let check = |home: Home, kind: &str, expect: &str, is_asked: bool| {
        let server = guarded(BEARER);
        put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
        let daemon = Daemon::start_in(home);
        let refused = echo(&daemon);
        assert_eq!(refused["metadata"]["failure"]["kind"], kind, "{refused}");
        let reported = format!("{} {}", refused["error"], refused["metadata"]["failure"]["hint"]);
        assert!(
            reported.contains(expect) && reported.contains("nothing was sent") && !reported.contains(KEY),
            "{reported}"
        );
        // No approval is requested for a call that cannot be made, as far as that is known without reading
        // the key.
        let asked = daemon.agent().execute_with("far.change", &json!({}), &json!({"approval": "async"}));
        assert_eq!(asked["metadata"]["refusal"]["approval_id"].is_string(), is_asked, "{asked}");
        assert_eq!(server.connections(), 0);
    };
    check(home(""), "not_found", "keys: {far: {host: 127.0.0.1, key_file: ", false);
    check(home("far: {host: 127.0.0.1, key_variable: NO_SUCH_KEY}"), "not_found", "NO_SUCH_KEY", true);
    check(
        home("far: {host: mcp.example.com, key_variable: PATH}"),
        "denied",
        "is for `mcp.example.com`",
        false,
    );
    let open = with_file();
    key_file(&open, 0o644);
    check(open, "not_found", "chmod 600", true);
}

#[test]
fn rejected_key_is_reported_as_such() {
    let server = guarded("authorization: bearer another\r\n");
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert_eq!(refused["metadata"]["failure"]["retryable"], false, "{refused}");
    assert!(refused["metadata"]["failure"]["hint"].as_str().unwrap().contains("`sinew doctor`"), "{refused}");
}

/// A redirect leads to another server.
#[test]
fn key_is_not_sent_along_a_redirect() {
    let other = guarded(BEARER);
    let location = format!("Location: {}\r\n", other.url("/mcp"));
    let server = Server::saying("307 Temporary Redirect", &location, "");
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert!(refused["error"].as_str().unwrap().contains("status 307"), "{refused}");
    assert_eq!(other.connections(), 0);
}

/// All logging and content capture is on, and the server repeats its key in every text.
#[test]
fn key_is_in_no_log_span_record_approval_or_answer() {
    let collector = Collector::start();
    let server = guarded(BEARER);
    let home = with_file();
    capture_content(&home);
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace"), collector.variable()]);
    let mut reported = vec![echo(&daemon).to_string()];
    let failed = daemon.agent().execute("far.fail", &json!({}));
    assert!(failed["error"].as_str().unwrap().contains("[key] is no good"), "{failed}");
    let asked = daemon.agent().execute_with("far.change", &json!({}), &json!({"approval": "async"}));
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let approval_request = daemon.home().run(&["approvals", "show", id]).must_exit(0).stdout();
    assert!(approval_request.contains("`far` is sent to 127.0.0.1 as a bearer token"), "{approval_request}");
    reported.extend([failed.to_string(), asked.to_string(), approval_request]);
    let commands: [&[&str]; 6] = [
        &["approvals", "show", id, "--json"],
        &["tools", "show", "far.echo", "--json"],
        &["doctor", "--json"],
        &["config", "show", "--json"],
        &["logs", "--json"],
        &["ledger", "tail", "-n", "1000", "--json"],
    ];
    reported.extend(commands.iter().map(|words| daemon.home().run(words).to_string()));
    reported.push(daemon.log());
    let kept = crate::web::everything_kept(&daemon.stop());
    assert!(kept.contains("far.echo"), "something was really kept");
    reported.push(kept);
    let exported = collector.received();
    assert!(exported.has("/v1/traces", b"far.echo"), "spans really arrived");
    reported.push(String::from_utf8_lossy(&exported.everything()).into_owned());
    for text in &reported {
        let at = text.lines().find(|line| line.contains(KEY));
        assert_eq!(at, None, "the key was told");
    }
}

/// The recommended directory for keys is inside the configuration, of which the daemon keeps a copy.
#[test]
fn keys_are_not_copied_and_a_new_one_counts_at_once() {
    let server = guarded(BEARER);
    let home = home("");
    let folder = home.root().join("config/keys");
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("far");
    let write = |key: &str| {
        std::fs::write(&file, key).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    write("an-older-one");
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let entry = format!("\nkeys: {{far: {{host: 127.0.0.1, key_file: {:?}}}}}\n", file.display().to_string());
    home.configure("sinew.yaml", &text.replace("\nkeys: {}\n", &entry));
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_in(home);
    assert_eq!(echo(&daemon)["success"], false);
    write(KEY);
    assert_eq!(echo(&daemon)["success"], true, "{}", echo(&daemon));
    daemon.home().run(&["reload"]).must_exit(0);
    let home = daemon.stop();
    assert!(home.root().join("state/accepted/config/sinew.yaml").exists());
    assert!(!home.root().join("state/accepted/config/keys").exists());
}

/// An operator has to have seen that a tool sends a key.
#[test]
fn manifest_that_newly_needs_a_key_waits_for_acceptance() {
    let server = Server::start(|request, stream| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let response = match answer(&asked) {
            // This server does not know the key, so it does not repeat it.
            Some(answer) => {
                let answer = answer.to_string().replace(KEY, "nothing");
                response("200 OK", "Content-Type: application/json\r\n", answer)
            }
            None => response("202 Accepted", "", ""),
        };
        let _ = stream.write_all(&response);
    });
    let home = with_file();
    let url = server.url("/mcp");
    put(&home, "far.yaml", &manifest("streamable_http", &url, ""));
    let daemon = Daemon::start_in(home);
    assert_eq!(echo(&daemon)["success"], true);
    put(daemon.home(), "far.yaml", &manifest("streamable_http", &url, ASKS));
    let waiting = daemon.control().request("control/reload", &json!({}));
    assert_eq!(waiting["result"]["result"], "waiting", "{waiting}");
    assert!(waiting.to_string().contains("`far` is sent to 127.0.0.1 as a bearer token"), "{waiting}");
    echo(&daemon);
    let sent = || server.requests().iter().any(|request| request.contains(KEY));
    assert!(!sent(), "not before it was accepted");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(echo(&daemon)["success"], true);
    assert!(sent(), "{:?}", server.requests());
}

/// Replaces the `keys` entry of settings that already have one.
fn rewrite_keys(home: &Home, keys: &str) {
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    let lines = text.lines().map(|line| match line.starts_with("keys: ") {
        true => format!("keys: {{{keys}}}\n"),
        false => format!("{line}\n"),
    });
    home.configure("sinew.yaml", &lines.collect::<String>());
}

fn reload(daemon: &Daemon) -> Value {
    daemon.control().request("control/reload", &json!({}))["result"].clone()
}

#[test]
fn removed_key_stops_at_once_and_needs_acceptance_again() {
    let server = guarded(BEARER);
    let home = with_file();
    let entry = format!("far: {{host: 127.0.0.1, key_file: {:?}}}", home.user_home().join("far.key"));
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_in(home);
    assert_eq!(echo(&daemon)["success"], true);
    let asked = server.connections();
    rewrite_keys(daemon.home(), "");
    let report = reload(&daemon);
    assert!(matches!(report["result"].as_str(), Some("applied" | "unchanged")), "{report}");
    assert_eq!(echo(&daemon)["metadata"]["failure"]["kind"], "not_found");
    assert_eq!(server.connections(), asked, "nothing was sent");
    rewrite_keys(daemon.home(), &entry);
    let report = reload(&daemon);
    assert_eq!(report["result"], "waiting", "{report}");
    assert!(report.to_string().contains("the key `far` is new: for 127.0.0.1, from "), "{report}");
    assert_eq!(echo(&daemon)["success"], false);
    // A restart does not accept it either.
    let daemon = Daemon::start_in(daemon.stop());
    assert_eq!(echo(&daemon)["success"], false);
    assert_eq!(server.connections(), asked, "nothing was sent");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(echo(&daemon)["success"], true, "{}", echo(&daemon));
}

#[test]
fn key_of_another_file_or_host_waits_for_acceptance() {
    let server = guarded(BEARER);
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let file = home.user_home().join("far.key");
    let other = home.user_home().join("other.key");
    std::fs::write(&other, "another-word-1").unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut daemon = Daemon::start_in(home);
    assert_eq!(echo(&daemon)["success"], true);
    for entry in [
        format!("far: {{host: 127.0.0.1, key_file: {other:?}}}"),
        format!("far: {{host: 127.0.0.2, key_file: {file:?}}}"),
        format!("far: {{host: 127.0.0.1, key_file: {file:?}, key_variable: OTHER}}"),
    ] {
        rewrite_keys(daemon.home(), &entry);
        let report = reload(&daemon);
        assert_eq!(report["result"], "waiting", "{entry}: {report}");
        assert!(report.to_string().contains("the key `far` is changed: for 127.0.0."), "{report}");
        assert_eq!(echo(&daemon)["success"], true, "what was accepted holds");
        daemon = Daemon::start_in(daemon.stop());
        assert_eq!(echo(&daemon)["success"], true, "over a restart too");
    }
    let sent = server.requests();
    assert!(sent.iter().all(|request| request.contains(KEY)), "{sent:?}");
}

#[test]
fn doctor_reports_presence_and_host_of_a_key() {
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", "https://mcp.example.com/mcp", ASKS));
    let other = manifest("streamable_http", "https://mcp.example.org/mcp", ", key: {name: other}");
    put(&home, "other.yaml", &other.replace("id: far", "id: other"));
    let reported = home.run(&["doctor", "--json"]).must_exit(1);
    let reported = reported.json();
    let found: Vec<(&str, &str, &str)> = reported["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["area"] == "keys")
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap_or_default();
            (text("check"), text("status"), text("found"))
        })
        .collect();
    let expect = [
        ("far", "good", "found, for 127.0.0.1"),
        ("far", "bad", "`far` needs it for mcp.example.com, but it is for 127.0.0.1: it is not sent"),
        ("other", "note", "`other` needs it for mcp.example.org, but the settings do not define it"),
    ];
    assert_eq!(found, expect);
    assert!(!reported.to_string().contains(KEY));
}

/// All texts that a daemon reports or stores.
fn everything(daemon: Daemon) -> Vec<String> {
    let mut reported = vec![
        daemon.control().request("control/status", &json!({})).to_string(),
        daemon.agent().request("sinew/status", &json!({})).to_string(),
        daemon.home().run(&["status"]).to_string(),
        daemon.home().run(&["logs", "--json"]).to_string(),
        daemon.home().run(&["ledger", "tail", "-n", "1000", "--json"]).to_string(),
        daemon.log(),
    ];
    let home = daemon.stop();
    for file in std::fs::read_dir(home.root().join("state/ledger")).unwrap() {
        reported.push(String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned());
    }
    reported
}

/// If a person writes a key into the wrong place, only the client that requested the reload sees the line,
/// and nothing stores it.
#[test]
fn key_in_rejected_settings_is_in_no_status_log_or_record() {
    let daemon = Daemon::start_in(with_file());
    let text = std::fs::read_to_string(daemon.home().root().join("config/sinew.yaml")).unwrap();
    daemon.home().configure("sinew.yaml", &format!("{text}\nfar_token: {KEY}\n"));
    let report = reload(&daemon);
    assert_eq!(report["result"], "rejected", "{report}");
    assert!(report["error"].as_str().unwrap().contains(KEY), "the caller sees the line: {report}");
    let status = daemon.control().request("control/status", &json!({}))["result"].clone();
    assert!(status["reload"]["error"].as_str().unwrap().contains("far_token"), "{status}");
    for reported in everything(daemon) {
        assert_eq!(reported.lines().find(|line| line.contains(KEY)), None, "the key was told");
    }
}

/// Keys in a rejected manifest: an unknown field below `key` may be the key itself.
#[test]
fn key_in_rejected_manifest_is_in_no_reply_log_or_record() {
    let planted = [
        format!(", key: {{name: far, {KEY}: 1}}"),
        format!(", key: {{name: far, name{KEY}: 1}}"),
        format!(", api_key: {KEY}"),
    ];
    let daemon = Daemon::start_in(with_file());
    for (number, key) in planted.iter().enumerate() {
        let manifest = manifest("streamable_http", "https://mcp.example.com/mcp", key);
        put(daemon.home(), &format!("far{number}.yaml"), &manifest);
        let path = daemon.home().root().join(format!("tools/far{number}.yaml"));
        let checked =
            daemon.home().run(&["manifest", "check", path.to_str().unwrap(), "--json"]).must_exit(7);
        assert!(checked.stdout().contains("UNKNOWN_FIELD"), "{checked}");
        assert!(!checked.to_string().contains(KEY), "{checked}");
    }
    let report = reload(&daemon);
    assert!(!report.to_string().contains(KEY), "{report}");
    for reported in everything(daemon) {
        assert_eq!(reported.lines().find(|line| line.contains(KEY)), None, "the key was told");
    }
}
