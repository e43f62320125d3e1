//! Keys of servers on the network: a manifest names which, the settings say whose and where it is, and nobody but that one
//! server ever sees it.

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

/// Nothing that any detector of secrets would know.
const KEY: &str = "plainword-7f3a9";
pub(super) const BEARER: &str = "authorization: bearer plainword-7f3a9\r\n";

/// What a server of tools answers: it repeats its key wherever it can say something.
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

/// One that answers only those who send this line.
pub(super) fn guarded(line: &'static str) -> Server {
    Server::start(move |request, stream| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let is_known = format!("{head}\r\n").to_lowercase().contains(line);
        let said = match (is_known, answer(&asked)) {
            (false, _) => response("401 Unauthorized", "", "who are you"),
            (true, Some(answer)) => {
                response("200 OK", "Content-Type: application/json\r\n", answer.to_string())
            }
            (true, None) => response("202 Accepted", "", ""),
        };
        let _ = stream.write_all(&said);
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

/// A home with this below `keys` in its settings.
fn home(keys: &str) -> Home {
    let home = crate::web::home(crate::web::OPEN).without_alarms();
    let text = std::fs::read_to_string(home.root().join("config/sinew.yaml")).unwrap();
    home.configure("sinew.yaml", &text.replace("\nkeys: {}\n", &format!("\nkeys: {{{keys}}}\n")));
    home
}

/// A file with the key, and the setting that names it.
fn key_file(home: &Home, mode: u32) -> PathBuf {
    let file = home.user().join("far.key");
    std::fs::write(&file, format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// A home whose settings have the key `far` for this machine, in a file.
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
fn a_key_is_sent_as_its_manifest_wants_it_and_comes_from_a_file_or_a_variable() {
    for (key, line) in
        [(ASKS, BEARER), (", key: {name: far, header: X-API-Key}", "x-api-key: plainword-7f3a9\r\n")]
    {
        let server = guarded(line);
        let home = with_file();
        put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), key));
        let daemon = Daemon::start_in(home);
        let said = echo(&daemon);
        assert_eq!(said["output"]["text"], "hi with [key]", "{said}");
        assert!(server.requests().iter().all(|request| request.to_lowercase().contains(line)));
    }
    let server = guarded(BEARER);
    let home = home("far: {host: 127.0.0.1, key_variable: FAR_KEY}");
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_with(home, &[("FAR_KEY", KEY)]);
    assert_eq!(echo(&daemon)["success"], true, "{}", echo(&daemon));
}

/// A server as they were until 2025, which answers only those who have the key, at both of its addresses.
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
fn a_key_goes_with_a_stream_and_with_a_web_socket_too() {
    let server = old_server();
    let home = with_file();
    put(&home, "far.yaml", &manifest("sse", &server.url("/sse"), ASKS));
    let daemon = Daemon::start_in(home);
    let said = echo(&daemon);
    assert_eq!(said["output"]["text"], "hi with [key]", "{said}");
    // What comes of a handshake is another test's; here it is that the key is part of it.
    let server = Server::saying("401 Unauthorized", "", "");
    let home = with_file();
    put(&home, "far.yaml", &manifest("websocket", &server.url("/").replace("http:", "ws:"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert!(refused["error"].as_str().unwrap().contains("status 401"), "{refused}");
    assert!(server.requests()[0].to_lowercase().contains(BEARER), "{:?}", server.requests());
}

#[test]
fn without_its_key_a_server_is_not_asked_and_the_way_out_is_told() {
    let check = |home: Home, kind: &str, expect: &str, is_asked: bool| {
        let server = guarded(BEARER);
        put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
        let daemon = Daemon::start_in(home);
        let refused = echo(&daemon);
        assert_eq!(refused["metadata"]["failure"]["kind"], kind, "{refused}");
        let told = format!("{} {}", refused["error"], refused["metadata"]["failure"]["hint"]);
        assert!(told.contains(expect) && told.contains("nothing was sent") && !told.contains(KEY), "{told}");
        // Nobody is asked about a call that could not be made, as far as that is known without reading the key.
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
fn a_server_that_is_not_content_with_the_key_is_told_of_as_such() {
    let server = guarded("authorization: bearer another\r\n");
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert_eq!(refused["metadata"]["failure"]["retryable"], false, "{refused}");
    assert!(refused["metadata"]["failure"]["hint"].as_str().unwrap().contains("`sinew doctor`"), "{refused}");
}

/// What a server redirects to is another server.
#[test]
fn a_key_is_not_taken_along_by_a_redirect() {
    let other = guarded(BEARER);
    let location = format!("Location: {}\r\n", other.url("/mcp"));
    let server = Server::saying("307 Temporary Redirect", &location, "");
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let refused = echo(&Daemon::start_in(home));
    assert!(refused["error"].as_str().unwrap().contains("status 307"), "{refused}");
    assert_eq!(other.connections(), 0);
}

/// With everything written that can be, and a server that repeats its key wherever it has something to say.
#[test]
fn a_key_is_in_no_log_span_record_card_or_answer() {
    let collector = Collector::start();
    let server = guarded(BEARER);
    let home = with_file();
    capture_content(&home);
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let daemon = Daemon::start_with(home, &[("SINEW_LOG", "trace"), collector.variable()]);
    let mut told = vec![echo(&daemon).to_string()];
    let failed = daemon.agent().execute("far.fail", &json!({}));
    assert!(failed["error"].as_str().unwrap().contains("[key] is no good"), "{failed}");
    let asked = daemon.agent().execute_with("far.change", &json!({}), &json!({"approval": "async"}));
    let id = asked["metadata"]["refusal"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked}"));
    let card = daemon.home().run(&["approvals", "show", id]).must_exit(0).stdout();
    assert!(card.contains("`far` is sent to 127.0.0.1 as a bearer token"), "{card}");
    told.extend([failed.to_string(), asked.to_string(), card]);
    let commands: [&[&str]; 6] = [
        &["approvals", "show", id, "--json"],
        &["tools", "show", "far.echo", "--json"],
        &["doctor", "--json"],
        &["config", "show", "--json"],
        &["logs", "--json"],
        &["ledger", "tail", "-n", "1000", "--json"],
    ];
    told.extend(commands.iter().map(|words| daemon.home().run(words).to_string()));
    told.push(daemon.log());
    let kept = crate::web::everything_kept(&daemon.stop());
    assert!(kept.contains("far.echo"), "something was really kept");
    told.push(kept);
    let exported = collector.received();
    assert!(exported.has("/v1/traces", b"far.echo"), "spans really arrived");
    told.push(String::from_utf8_lossy(&exported.everything()).into_owned());
    for text in &told {
        let at = text.lines().find(|line| line.contains(KEY));
        assert_eq!(at, None, "the key was told");
    }
}

/// The recommended place is beside the configuration, of which a copy is kept.
#[test]
fn keys_beside_the_configuration_are_not_copied_and_a_new_one_counts_at_once() {
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

/// That a tool takes a key along is something that somebody has to have seen.
#[test]
fn a_manifest_that_newly_asks_for_a_key_waits_for_a_human_who_is_told_of_it() {
    let server = Server::start(|request, stream| {
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let said = match answer(&asked) {
            // It knows no key, so it repeats none.
            Some(answer) => {
                let answer = answer.to_string().replace(KEY, "nothing");
                response("200 OK", "Content-Type: application/json\r\n", answer)
            }
            None => response("202 Accepted", "", ""),
        };
        let _ = stream.write_all(&said);
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

/// Writes this below `keys` of settings that have something else there.
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
fn a_key_that_is_taken_away_is_gone_at_once_and_comes_back_by_a_human_only() {
    let server = guarded(BEARER);
    let home = with_file();
    let entry = format!("far: {{host: 127.0.0.1, key_file: {:?}}}", home.user().join("far.key"));
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
    // A restart is no answer either.
    let daemon = Daemon::start_in(daemon.stop());
    assert_eq!(echo(&daemon)["success"], false);
    assert_eq!(server.connections(), asked, "nothing was sent");
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(echo(&daemon)["success"], true, "{}", echo(&daemon));
}

#[test]
fn a_key_of_another_place_or_host_waits_for_a_human() {
    let server = guarded(BEARER);
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", &server.url("/mcp"), ASKS));
    let file = home.user().join("far.key");
    let other = home.user().join("other.key");
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
        assert!(report.to_string().contains("the key `far` is another: for 127.0.0."), "{report}");
        assert_eq!(echo(&daemon)["success"], true, "what was accepted holds");
        daemon = Daemon::start_in(daemon.stop());
        assert_eq!(echo(&daemon)["success"], true, "over a restart too");
    }
    let sent = server.requests();
    assert!(sent.iter().all(|request| request.contains(KEY)), "{sent:?}");
}

#[test]
fn doctor_says_whether_a_key_is_there_and_whose_it_is() {
    let home = with_file();
    put(&home, "far.yaml", &manifest("streamable_http", "https://mcp.example.com/mcp", ASKS));
    let other = manifest("streamable_http", "https://mcp.example.org/mcp", ", key: {name: other}");
    put(&home, "other.yaml", &other.replace("id: far", "id: other"));
    let told = home.run(&["doctor", "--json"]).must_exit(1);
    let told = told.json();
    let found: Vec<(&str, &str, &str)> = told["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["area"] == "keys")
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap_or_default();
            (text("check"), text("standing"), text("found"))
        })
        .collect();
    let expect = [
        ("far", "good", "it is there, for 127.0.0.1"),
        ("far", "bad", "`far` wants it for mcp.example.com, and it is for 127.0.0.1: nothing is sent"),
        ("other", "note", "`other` wants it for mcp.example.org, and the settings do not have it"),
    ];
    assert_eq!(found, expect);
    assert!(!told.to_string().contains(KEY));
}

/// Everything that anybody is told, or that is kept, of a daemon.
fn everything(daemon: Daemon) -> Vec<String> {
    let mut told = vec![
        daemon.control().request("control/status", &json!({})).to_string(),
        daemon.agent().request("sinew/status", &json!({})).to_string(),
        daemon.home().run(&["status"]).to_string(),
        daemon.home().run(&["logs", "--json"]).to_string(),
        daemon.home().run(&["ledger", "tail", "-n", "1000", "--json"]).to_string(),
        daemon.log(),
    ];
    let home = daemon.stop();
    for file in std::fs::read_dir(home.root().join("state/ledger")).unwrap() {
        told.push(String::from_utf8_lossy(&std::fs::read(file.unwrap().path()).unwrap()).into_owned());
    }
    told
}

/// Where a person wrote a key into the wrong place, only whoever asks for a reload is shown the line, and nothing keeps it.
#[test]
fn a_key_in_a_rejected_configuration_is_in_no_status_log_or_record() {
    let daemon = Daemon::start_in(with_file());
    let text = std::fs::read_to_string(daemon.home().root().join("config/sinew.yaml")).unwrap();
    daemon.home().configure("sinew.yaml", &format!("{text}\nfar_token: {KEY}\n"));
    let report = reload(&daemon);
    assert_eq!(report["result"], "rejected", "{report}");
    assert!(report["error"].as_str().unwrap().contains(KEY), "whoever asked sees the line: {report}");
    let status = daemon.control().request("control/status", &json!({}))["result"].clone();
    assert!(status["reload"]["error"].as_str().unwrap().contains("far_token"), "{status}");
    for told in everything(daemon) {
        assert_eq!(told.lines().find(|line| line.contains(KEY)), None, "the key was told");
    }
}

/// The same in a manifest: below `key`, a word that nobody knows may be the key.
#[test]
fn a_key_in_a_manifest_that_is_left_out_is_in_no_reply_log_or_record() {
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
    for told in everything(daemon) {
        assert_eq!(told.lines().find(|line| line.contains(KEY)), None, "the key was told");
    }
}
