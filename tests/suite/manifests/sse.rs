//! MCP servers with the SSE transport of 2024-11-05: answers come from an event stream, and requests are
//! posted to another address.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Mutex;

use serde_json::{Value, json};
use tests::Daemon;

use super::run::put;
use super::started::Started;
use crate::web::server::{Server, response};

fn manifest(url: &str) -> String {
    format!(
        "tool:\n  id: old\n  type: mcp\n  name: Old\n  version: 1.0.0\n  description: d\n  mcp_specific: {{transport: sse, \
         url: \"{url}\"}}\n  commands:\n    - {{name: echo, category: read_only, risk_level: low, timeout_seconds: 15}}\n"
    )
}

fn daemon(url: &str) -> Daemon {
    let home = crate::web::home(crate::web::OPEN);
    put(&home, "old.yaml", &manifest(url));
    Daemon::start_in(home)
}

/// Answer of an MCP server.
fn answer(asked: &Value) -> Option<Value> {
    let result = match asked["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {}}),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": asked["params"]["arguments"]["text"]}]}),
        _ => return None,
    };
    Some(json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}

/// Server that announces this endpoint for requests, and answers on the most recently opened stream.
fn server(endpoint: String) -> Server {
    let open: Mutex<Option<TcpStream>> = Mutex::new(None);
    Server::start(move |request, stream| {
        if request.starts_with("GET ") {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
            let first = format!("{head}: hello\n\nevent: endpoint\ndata: {endpoint}\n\n");
            *open.lock().unwrap() = Some(stream.try_clone().unwrap());
            let _ = stream.write_all(first.as_bytes());
            return;
        }
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        let asked: Value = serde_json::from_str(body).unwrap_or_default();
        let _ = stream.write_all(&response("202 Accepted", "", "Accepted"));
        if let (Some(answer), Some(open)) = (answer(&asked), open.lock().unwrap().as_mut()) {
            let _ = open.write_all(
                b"event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n",
            );
            let _ = open.write_all(format!("event: message\r\ndata: {answer}\r\n\r\n").as_bytes());
        }
    })
}

#[test]
fn sse_server_answers_on_its_stream() {
    let server = server("/messages?session=1".to_owned());
    let daemon = daemon(&server.url("/sse"));
    let mut agent = daemon.agent();
    for text in ["one", "two"] {
        let result = agent.execute("old.echo", &json!({"text": text}));
        assert_eq!(result["output"]["text"], text, "{text}");
    }
    let requests = server.requests();
    let streams = requests.iter().filter(|request| request.starts_with("GET /sse ")).count();
    assert_eq!(streams, 2, "a stream is open for one call: {requests:?}");
}

/// A request may contain the caller's own text, so it goes only to the accepted server.
#[test]
fn sse_server_cannot_redirect_requests_to_another_origin() {
    let elsewhere = Server::saying("202 Accepted", "", "");
    let server = server(elsewhere.url("/messages"));
    let refused = daemon(&server.url("/sse")).agent().execute("old.echo", &json!({"text": "mine"}));
    assert!(refused["error"].as_str().unwrap().contains("has a different origin"), "{refused}");
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn server_of_the_official_library_works_over_sse() {
    let Some((_started, port)) = Started::script("SINEW_PYTHON", "sse_server.py") else { return };
    let daemon = daemon(&format!("http://127.0.0.1:{port}/sse"));
    let result = daemon.agent().execute("old.echo", &json!({"text": "hello"}));
    assert_eq!(result["output"]["result"], "hello", "{result}");
}
