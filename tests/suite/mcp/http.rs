//! Streamable HTTP over a real loopback connection: who may connect, sessions with resumable streams, and the
//! stateless revision.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
#[cfg(target_os = "linux")]
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::{Daemon, Home, sinew, wait_until};

/// Time limit of every read, so that a missing response fails the test.
const TIMEOUT: Duration = Duration::from_secs(20);
/// Time of the bridge for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Running `sinew mcp --http`.
pub(crate) struct HttpBridge {
    process: Child,
    pub(crate) port: u16,
    token: String,
}

impl HttpBridge {
    pub(crate) fn start(home: &Home) -> HttpBridge {
        HttpBridge::start_with(home, &[])
    }

    fn start_with(home: &Home, words: &[&str]) -> HttpBridge {
        HttpBridge::start_command(home, command(home).args(words))
    }

    fn start_command(home: &Home, command: &mut std::process::Command) -> HttpBridge {
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the bridge starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let port = line.strip_prefix("http://127.0.0.1:").and_then(|rest| rest.split('/').next());
        let port = port.and_then(|port| port.parse().ok()).unwrap_or_else(|| panic!("{line}"));
        let token = std::fs::read_to_string(home.root().join("run/http.token")).expect("a token file");
        HttpBridge { process, port, token: token.trim().to_owned() }
    }

    /// Sends a request with these headers beside the usual ones. A header that is given replaces the usual one.
    pub(crate) fn send(&self, method: &str, headers: &[(&str, &str)], body: &str) -> Response {
        let (host, bearer) = (format!("127.0.0.1:{}", self.port), format!("Bearer {}", self.token));
        let length = body.len().to_string();
        let usual = [
            ("host", host.as_str()),
            ("authorization", &bearer),
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
            ("content-length", &length),
        ];
        let given = |name: &str| headers.iter().any(|(known, _)| *known == name);
        let kept =
            usual.iter().filter(|(name, _)| !given(name)).chain(headers.iter().filter(|it| !it.1.is_empty()));
        let head: String = kept.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
        write!(stream, "{method} /mcp HTTP/1.1\r\n{head}\r\n{body}").expect("sent");
        Response::read(stream)
    }

    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Response {
        self.send("POST", headers, &message.to_string())
    }

    fn send_initialize(&self) -> Response {
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "http"}});
        self.post(&[], &request(0, "initialize", params))
    }

    /// Opens a session and returns its id.
    fn initialize(&self) -> String {
        let response = self.send_initialize();
        let session = response.header("mcp-session-id").expect("a session");
        assert_eq!(response.json()["result"]["protocolVersion"], "2025-11-25");
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&[("mcp-session-id", &session)], &initialized).status, 202);
        session
    }
}

impl Drop for HttpBridge {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn command(home: &Home) -> std::process::Command {
    let mut command = sinew();
    set_arguments(&mut command, home);
    command
}

fn set_arguments(command: &mut std::process::Command, home: &Home) {
    command.args(["mcp", "--no-start", "--http", "127.0.0.1:0"]).env("SINEW_HOME", home.root());
}

#[allow(clippy::needless_pass_by_value)] // callers write the value in place
fn request(id: u64, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Response whose body is read on demand.
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    body: BufReader<TcpStream>,
}

impl Response {
    fn read(stream: TcpStream) -> Response {
        let mut body = BufReader::new(stream);
        let mut line = || {
            let mut line = String::new();
            body.read_line(&mut line).expect("a head");
            line.trim_end().to_owned()
        };
        let status = line().split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let mut headers = Vec::new();
        loop {
            let line = line();
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Response { status, headers, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    }

    pub(crate) fn json(mut self) -> Value {
        let length = self.header("content-length").and_then(|length| length.parse().ok()).expect("a length");
        let mut body = vec![0; length];
        self.body.read_exact(&mut body).expect("a body");
        serde_json::from_slice(&body).expect("JSON")
    }

    fn event(&mut self) -> (Option<String>, String) {
        self.next_event().expect("the stream ended")
    }

    /// Returns the id and the data of the next event of a chunked stream, or nothing at its end.
    fn next_event(&mut self) -> Option<(Option<String>, String)> {
        let (mut id, mut data) = (None, None);
        loop {
            let mut line = String::new();
            let read = self.body.read_line(&mut line).expect("an event");
            let line = line.trim_end();
            // The last chunk is empty. No line of an event is a lone number.
            if read == 0 || line == "0" {
                return None;
            }
            if let Some(value) = line.strip_prefix("id: ") {
                id = Some(value.to_owned());
            } else if let Some(value) = line.strip_prefix("data:") {
                data = Some(value.trim().to_owned());
            } else if let (true, Some(data)) = (line.is_empty(), data.take()) {
                return Some((id, data));
            }
        }
    }

    fn message(&mut self) -> Value {
        self.next_message().expect("the stream ended")
    }

    /// Returns the next message of a stream, or nothing at its end.
    pub(crate) fn next_message(&mut self) -> Option<Value> {
        loop {
            let (_, data) = self.next_event()?;
            if !data.is_empty() {
                return Some(serde_json::from_str(&data).expect("a message"));
            }
        }
    }

    fn disconnect(self) {
        let _ = self.body.get_ref().shutdown(Shutdown::Both);
    }
}

fn stateless(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {}});
    request(9, method, params)
}

/// Manifest that adds a tool.
const EXTRA_TOOL: &str = "tool:\n  id: extra\n  type: cli\n  name: Extra\n  version: 1.0.0\n  description: Prints\n  \
    cli_specific:\n    executable: echo\n  commands:\n    - {name: print, category: read_only, risk_level: low, parameters: [], argv: [a]}\n";

const STATELESS: (&str, &str) = ("mcp-protocol-version", "2026-07-28");

#[test]
fn foreign_hosts_origins_and_missing_tokens_are_refused() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let list = stateless("tools/list", json!({}));
    let method = ("mcp-method", "tools/list");
    let own = format!("http://localhost:{}", bridge.port);
    let host = format!("localhost:{}", bridge.port);
    for (headers, status) in [
        (vec![], 200),
        (vec![("host", host.as_str()), ("origin", &own)], 200),
        (vec![("host", "evil.example")], 403),
        (vec![("host", "")], 403),
        (vec![("host", "localhost")], 403),
        (vec![("host", "127.0.0.1")], 403),
        (vec![("origin", "http://localhost")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", "http://evil.example")], 403),
        (vec![("origin", "http://localhost:1")], 403),
        (vec![("authorization", "")], 401),
        (vec![("authorization", "Bearer 0123456789abcdef0123456789abcdef")], 401),
    ] {
        let headers = [vec![STATELESS, method], headers].concat();
        assert_eq!(bridge.post(&headers, &list).status, status, "{headers:?}");
    }
    assert_eq!(bridge.send("PUT", &[], "").status, 405);
}

#[test]
fn token_file_of_others_and_other_addresses_are_refused() {
    let daemon = Daemon::start();
    let file = daemon.home().root().join("run/http.token");
    drop(HttpBridge::start(daemon.home()));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = command(daemon.home()).output().unwrap();
    assert_eq!(refused.status.code(), Some(7), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("chmod 600"), "{refused:?}");
    let public = daemon.home().run(&["mcp", "--no-start", "--http", "0.0.0.0:0"]).must_exit(2);
    assert!(public.stderr().contains("loopback"), "{}", public.stderr());
}

#[test]
fn session_serves_calls_and_ends_on_delete() {
    let daemon = Daemon::start();
    daemon.home().file("a.txt", "hello");
    let bridge = HttpBridge::start(daemon.home());
    let session = bridge.initialize();
    let in_session = ("mcp-session-id", session.as_str());
    let listed = bridge.post(&[in_session], &request(1, "tools/list", json!({}))).json();
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    let call = json!({"name": "read_file", "arguments": {"path": "a.txt"}});
    let mut called = bridge.post(&[in_session], &request(2, "tools/call", call));
    assert_eq!(called.header("content-type").as_deref(), Some("text/event-stream"));
    let result = called.message();
    assert_eq!((&result["id"], &result["result"]["content"][0]["text"]), (&json!(2), &json!("hello")));
    assert_eq!(bridge.post(&[], &request(3, "tools/list", json!({}))).status, 400, "no session");
    assert_eq!(bridge.post(&[("mcp-session-id", "x")], &request(3, "ping", json!({}))).status, 404);
    let unknown = [in_session, ("mcp-protocol-version", "1999-01-01")];
    assert_eq!(bridge.post(&unknown, &request(3, "ping", json!({}))).status, 400);
    assert_eq!(bridge.send("DELETE", &[in_session], "").status, 204);
    assert_eq!(bridge.post(&[in_session], &request(4, "ping", json!({}))).status, 404);
}

/// A call goes on while its client reconnects, and nothing is lost or sent twice.
#[test]
fn interrupted_stream_resumes_after_the_last_event() {
    let daemon = Daemon::start();
    let fifo = daemon.home().workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let bridge = HttpBridge::start(daemon.home());
    let session = bridge.initialize();
    let in_session = ("mcp-session-id", session.as_str());
    let call = json!({"name": "run_command", "arguments": {"command": ["cat", "gate"]}});
    let mut stream = bridge.post(&[in_session], &request(5, "tools/call", call));
    let (first, data) = stream.event();
    assert_eq!(data, "", "the first event only has an id");
    let first = first.expect("an id");
    stream.disconnect();
    let mut resumed = bridge.send("GET", &[in_session, ("last-event-id", &first)], "");
    assert_eq!(resumed.status, 200);
    std::fs::write(&fifo, "after the break").unwrap();
    let result = resumed.message();
    assert_eq!(result["id"], 5, "{result}");
    assert_eq!(result["result"]["content"][0]["text"], "after the break", "{result}");
    let mut again = bridge.send("GET", &[in_session, ("last-event-id", &first)], "");
    assert_eq!(again.message(), result, "a finished stream is retained");
    assert_eq!(bridge.send("GET", &[in_session, ("last-event-id", "99-0")], "").status, 404);
    assert_eq!(bridge.send("GET", &[in_session, ("last-event-id", "x")], "").status, 400);
}

#[test]
fn stateless_call_is_cancelled_by_disconnecting() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let fifo = daemon.home().workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let call =
        stateless("tools/call", json!({"name": "run_command", "arguments": {"command": ["cat", "gate"]}}));
    let headers = [STATELESS, ("mcp-method", "tools/call"), ("mcp-name", "run_command")];
    let stream = bridge.post(&headers, &call);
    assert_eq!(stream.status, 200);
    let running = || daemon.home().run(&["status", "--json"]).json()["calls"]["running"].as_u64();
    wait_until("the call runs", || running() == Some(1));
    let started = Instant::now();
    stream.disconnect();
    wait_until("the call ends", || running() == Some(0));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    let records = daemon.home().records();
    assert!(records.iter().any(|record| record.to_string().contains("client_gone")), "{records:?}");
}

/// The daemon does not answer a cancelled call, so its stream would stay open and keep an unused session alive.
#[cfg(target_os = "linux")]
#[test]
fn cancelled_call_ends_its_stream_and_its_idle_session() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start_with(daemon.home(), &["--session-timeout", "1"]);
    let session = bridge.initialize();
    let in_session = ("mcp-session-id", session.as_str());
    let fifo = daemon.home().workspace().join("gate");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let call = json!({"name": "run_command", "arguments": {"command": ["cat", "gate"]}});
    let mut stream = bridge.post(&[in_session], &request(5, "tools/call", call));
    let running = || daemon.home().run(&["status", "--json"]).json()["calls"]["running"].as_u64();
    wait_until("the call runs", || running() == Some(1));
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}});
    assert_eq!(bridge.post(&[in_session], &cancel).status, 202);
    assert_eq!(stream.next_message(), None, "no message, and the end");
    wait_until("the call ends", || running() == Some(0));
    wait_until("the session ends", || session_processes(&bridge) == 0);
}

#[test]
fn stateless_headers_and_errors_have_their_status() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let list = ("mcp-method", "tools/list");
    let check = |headers: &[(&str, &str)], message: &Value, status: u16, code: i64| {
        let response = bridge.post(headers, message);
        let found = response.status;
        let body = response.json();
        assert_eq!((found, &body["error"]["code"]), (status, &json!(code)), "{headers:?}: {body}");
        assert_eq!(body["id"], message["id"], "{body}");
    };
    let body = stateless("tools/list", json!({}));
    check(&[STATELESS, ("mcp-method", "tools/call")], &body, 400, -32020);
    check(&[STATELESS], &body, 400, -32020);
    check(&[list, ("mcp-protocol-version", "2025-11-25")], &body, 400, -32020);
    check(&[STATELESS, list], &request(1, "tools/list", json!({})), 400, -32602);
    check(&[STATELESS, ("mcp-method", "ping")], &stateless("ping", json!({})), 404, -32601);
    check(&[STATELESS, ("mcp-method", "a/b")], &stateless("a/b", json!({})), 404, -32601);
    let mut other = stateless("tools/list", json!({}));
    other["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2031-01-01");
    check(&[("mcp-protocol-version", "2031-01-01"), list], &other, 400, -32022);
    let invalid = bridge.send("POST", &[STATELESS, list], "{");
    assert_eq!(invalid.status, 400);
    assert_eq!(bridge.send("GET", &[], "").status, 405, "no session, no stream");
}

#[test]
fn subscription_is_a_stream() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let listen = stateless("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let mut stream = bridge.post(&[STATELESS, ("mcp-method", "subscriptions/listen")], &listen);
    let acknowledged = stream.message();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{acknowledged}");
}

/// A message is sent to one client only, and an old one is not sent again.
#[test]
fn list_changes_are_sent_on_the_stream_of_the_session() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let session = bridge.initialize();
    let in_session = ("mcp-session-id", session.as_str());
    let mut stream = bridge.send("GET", &[in_session], "");
    assert_eq!(stream.event().1, "", "a position to resume from");
    daemon.home().put_tool("extra.yaml", EXTRA_TOOL);
    daemon.home().run(&["reload", "--accept"]).must_exit(0);
    assert_eq!(stream.message()["method"], "notifications/tools/list_changed");
    let mut second = bridge.send("GET", &[in_session], "");
    let (position, data) = second.event();
    assert_eq!((position.as_deref(), data.as_str()), (Some("0-3"), ""), "the old message is not repeated");
}

/// Another program can connect to the port and keep silent. Its connection is closed in favour of a client
/// with the token.
#[test]
fn silent_connections_do_not_delay_a_client() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let connect = |_| TcpStream::connect(("127.0.0.1", bridge.port)).expect("a connection");
    let started = Instant::now();
    let mut silent: Vec<TcpStream> = (0..300).map(connect).collect();
    let oldest = &mut silent[0];
    oldest.set_read_timeout(Some(TIMEOUT)).expect("a timeout");
    assert_eq!(oldest.read(&mut [0]).unwrap_or(0), 0, "the oldest is closed");
    let session = bridge.initialize();
    let listed = bridge.post(&[("mcp-session-id", &session)], &request(1, "tools/list", json!({})));
    assert_eq!(listed.status, 200);
    // Without eviction the oldest is closed and its place is free only when the time for a head is over.
    assert!(started.elapsed() < HEAD_TIMEOUT, "{:?}", started.elapsed());
    let refused = bridge.post(
        &[STATELESS, ("mcp-method", "tools/list"), ("authorization", "")],
        &stateless("tools/list", json!({})),
    );
    assert_eq!((refused.status, refused.header("connection").as_deref()), (401, Some("close")));
}

/// Processes that the bridge has started, one per session.
#[cfg(target_os = "linux")]
fn session_processes(bridge: &HttpBridge) -> usize {
    let parent = bridge.process.id();
    let folders = std::fs::read_dir("/proc").expect("processes").filter_map(Result::ok);
    let is_child = |stat: String| {
        // The name in parentheses can contain spaces.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        fields.get(1).is_some_and(|ppid| *ppid == parent.to_string()) && fields.first() != Some(&"Z")
    };
    folders.filter(|it| std::fs::read_to_string(it.path().join("stat")).is_ok_and(is_child)).count()
}

#[cfg(target_os = "linux")]
#[test]
fn unused_session_ends_after_its_timeout() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start_with(daemon.home(), &["--session-timeout", "1"]);
    let session = bridge.initialize();
    let listening = bridge.initialize();
    let stream = bridge.send("GET", &[("mcp-session-id", &listening)], "");
    assert_eq!((stream.status, session_processes(&bridge)), (200, 2));
    wait_until("the unused session ends", || session_processes(&bridge) == 1);
    assert_eq!(bridge.post(&[("mcp-session-id", &session)], &request(1, "ping", json!({}))).status, 404);
    assert_eq!(bridge.post(&[("mcp-session-id", &listening)], &request(1, "ping", json!({}))).status, 200);
    stream.disconnect();
    wait_until("the session ends without its client", || session_processes(&bridge) == 0);
}

/// Requests that arrive together do not all get the last free slot.
#[cfg(target_os = "linux")]
#[test]
fn sessions_that_start_together_keep_to_their_limit() {
    const STARTED: usize = 100;
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let answered = AtomicUsize::new(0);
    let (responses, most) = std::thread::scope(|scope| {
        let initialize = || {
            let response = bridge.send_initialize();
            answered.fetch_add(1, Ordering::SeqCst);
            (response.status, response.header("mcp-session-id"))
        };
        let clients: Vec<_> = (0..STARTED).map(|_| scope.spawn(initialize)).collect();
        let mut most = 0;
        while answered.load(Ordering::SeqCst) < STARTED {
            most = most.max(session_processes(&bridge));
        }
        let responses: Vec<_> =
            clients.into_iter().map(|client| client.join().expect("a response")).collect();
        (responses, most.max(session_processes(&bridge)))
    });
    let served: Vec<_> = responses.iter().filter_map(|(_, session)| session.as_deref()).collect();
    let refused = responses.iter().filter(|(status, _)| *status == 503).count();
    assert_eq!((most, served.len(), refused), (64, 64, STARTED - 64));
    assert_eq!(bridge.send("DELETE", &[("mcp-session-id", served[0])], "").status, 204);
    assert_eq!(bridge.send_initialize().status, 200, "the place of an ended session is free");
}

/// Limits and suspension apply to a session and not to all clients of the bridge.
#[test]
fn suspended_session_leaves_the_others_alone() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let [hostile, good] = [bridge.initialize(), bridge.initialize()];
    let mut id = 0;
    let mut write = |session: &str, path: &str| {
        id += 1;
        let call = json!({"name": "write_file", "arguments": {"path": path, "content": "x"}});
        bridge.post(&[("mcp-session-id", session)], &request(id, "tools/call", call)).message()["result"]
            .clone()
    };
    for number in 0..21 {
        let forbidden = daemon.home().user_home().join(".ssh").join(number.to_string());
        assert_eq!(write(&hostile, &forbidden.display().to_string())["isError"], true);
    }
    let detail = |result: &Value| result["_meta"]["sinew/refusal"]["detail"].clone();
    wait_until("the suspension", || detail(&write(&hostile, "a.txt")) == "caller_suspended");
    let served = write(&good, "a.txt");
    assert_eq!(served["isError"], false, "{served}");
}

/// A session outlives a restart of the daemon, like the bridge on standard input and output.
#[cfg(target_os = "linux")]
#[test]
fn bridge_opens_sessions_after_an_upgrade() {
    let daemon = Daemon::start();
    let program = daemon.home().user_home().join("sinew");
    std::fs::copy(sinew().get_program(), &program).expect("a copy");
    let mut command = std::process::Command::new(&program);
    set_arguments(&mut command, daemon.home());
    let bridge = HttpBridge::start_command(daemon.home(), &mut command);
    let session = bridge.initialize();
    let newer = program.with_extension("new");
    std::fs::write(&newer, "another version").expect("written");
    std::fs::rename(&newer, &program).expect("replaced");
    let another = bridge.initialize();
    for session in [session, another] {
        let ping = bridge.post(&[("mcp-session-id", &session)], &request(1, "ping", json!({})));
        assert_eq!(ping.status, 200);
    }
}

#[test]
fn session_survives_a_restart_of_the_daemon() {
    let daemon = Daemon::start();
    let bridge = HttpBridge::start(daemon.home());
    let session = bridge.initialize();
    let daemon = Daemon::start_in(daemon.stop());
    let listed = bridge.post(&[("mcp-session-id", &session)], &request(1, "tools/list", json!({}))).json();
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    drop(daemon);
}
