//! Test daemon: a listening socket with a service of a few methods, and a client that can send invalid input.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::connection_state::ConnectionState;
use crate::listener::{ConnectionListener, ListenerLimits, SharedListenerState};
use crate::rpc;
use crate::service::{MethodCall, MethodReply, MethodResult, RpcMethod, SocketService};
use crate::settings::ConnectionLimits;

/// Shared context of the test methods.
#[derive(Clone, Default)]
pub(crate) struct TestServiceContext {
    /// Number of `wait` and `mark` calls that have started.
    started: Arc<AtomicUsize>,
    /// Permits for `wait` calls to complete.
    permits: Arc<PermitGate>,
    /// Number of `mark` calls received.
    pub(crate) received: Arc<AtomicUsize>,
    /// Events of `in_turn` calls, in order.
    pub(crate) events: Arc<Mutex<Vec<&'static str>>>,
}

struct PermitGate(Semaphore);

impl Default for PermitGate {
    fn default() -> Self {
        PermitGate(Semaphore::new(0))
    }
}

const METHODS: &[RpcMethod<TestServiceContext>] = &[
    RpcMethod { name: "echo", run: echo },
    RpcMethod { name: "wait", run: wait },
    RpcMethod { name: "large", run: large },
    RpcMethod { name: "in_turn", run: in_turn },
    RpcMethod { name: "mark", run: mark },
    RpcMethod { name: "follow", run: follow },
    RpcMethod { name: "panic_now", run: |_, _, _| panic!("on purpose") },
    RpcMethod {
        name: "panic_later",
        run: |_, _, _| Ok(MethodReply::deferred(async { panic!("on purpose") })),
    },
];

fn echo(_: &TestServiceContext, _: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    let text = call.params.take("say");
    call.params.finish()?;
    Ok(MethodReply::Immediate(rpc::encode_result(&text)))
}

fn follow(_: &TestServiceContext, _: &mut ConnectionState, _: MethodCall) -> MethodResult {
    Ok(MethodReply::ThenNotify(
        rpc::encode_result(&json!({})),
        Box::new(|_| Box::pin(std::future::pending())),
    ))
}

fn wait(desk: &TestServiceContext, session: &mut ConnectionState, _: MethodCall) -> MethodResult {
    let (desk, connection) = (desk.clone(), session.connection);
    desk.started.fetch_add(1, Ordering::SeqCst);
    Ok(MethodReply::deferred(async move {
        if let Ok(permit) = desk.permits.0.acquire().await {
            permit.forget();
        }
        rpc::encode_result(&json!({"connection": connection}))
    }))
}

/// Records its arrival and its start.
fn in_turn(desk: &TestServiceContext, _: &mut ConnectionState, _: MethodCall) -> MethodResult {
    let notes = Arc::clone(&desk.events);
    notes.lock().unwrap().push("asked");
    Ok(MethodReply::deferred(async move {
        notes.lock().unwrap().push("begun");
        rpc::encode_result(&json!({}))
    }))
}

/// Counts its arrival and its start.
fn mark(desk: &TestServiceContext, _: &mut ConnectionState, _: MethodCall) -> MethodResult {
    let desk = desk.clone();
    desk.received.fetch_add(1, Ordering::SeqCst);
    Ok(MethodReply::deferred(async move {
        desk.started.fetch_add(1, Ordering::SeqCst);
        rpc::encode_result(&json!({}))
    }))
}

fn large(_: &TestServiceContext, _: &mut ConnectionState, mut call: MethodCall) -> MethodResult {
    let bytes: u64 = call.params.required("bytes")?;
    Ok(MethodReply::deferred(async move { rpc::encode_result(&"x".repeat(usize::try_from(bytes).unwrap())) }))
}

/// Listening socket with the test service.
pub(crate) struct TestSocketDaemon {
    pub(crate) context: TestServiceContext,
    pub(crate) shared: SharedListenerState,
    pub(crate) path: PathBuf,
    _folder: Option<tempfile::TempDir>,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) fn limits() -> ConnectionLimits {
    ConnectionLimits {
        max_line_bytes: 128 * 1024,
        write_stall_timeout: Duration::from_millis(500),
        queue_timeout: Duration::from_secs(60),
        ..ConnectionLimits::default()
    }
}

pub(crate) fn daemon(limits: ConnectionLimits) -> TestSocketDaemon {
    daemon_with_state(SharedListenerState::new(limits))
}

pub(crate) fn daemon_with_state(sockets: SharedListenerState) -> TestSocketDaemon {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.sock");
    TestSocketDaemon { _folder: Some(folder), ..daemon_at(sockets, path) }
}

/// Starts a daemon on the given socket path.
pub(crate) fn daemon_at(sockets: SharedListenerState, path: PathBuf) -> TestSocketDaemon {
    let max_connections = sockets.limits.max_connections;
    daemon_with_limits(
        ListenerLimits { max_connections, max_followers: max_connections, idle_timeout: None },
        sockets,
        path,
    )
}

/// Starts a daemon with the given listener limits.
pub(crate) fn daemon_with_limits(
    endpoint: ListenerLimits,
    sockets: SharedListenerState,
    path: PathBuf,
) -> TestSocketDaemon {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let desk = TestServiceContext::default();
    let listener = listener(endpoint, sockets.clone(), desk.clone());
    let socket = runtime.block_on(async { tokio::net::UnixListener::bind(&path).unwrap() });
    runtime.spawn(async move { listener.run(&socket).await });
    TestSocketDaemon { context: desk, shared: sockets, path, _folder: None, _runtime: runtime }
}

/// Creates a listener for the test service.
pub(crate) fn listener(
    endpoint: ListenerLimits,
    sockets: SharedListenerState,
    desk: TestServiceContext,
) -> ConnectionListener<TestServiceContext> {
    let elsewhere: (&str, fn(&str) -> bool) = ("other.sock", |method| method == "elsewhere");
    let notices = crate::mcp::NOTIFICATIONS;
    let service = SocketService {
        socket: "test.sock",
        methods: METHODS,
        notifications: notices,
        other_socket: elsewhere,
        worker: None,
        on_malformed: |_, _, _, error| error,
        admit: |_, _, _| Ok(()),
        charge_line: |_, _, _| {},
        before_write: |_| {},
        request_slots: None,
        context: desk,
    };
    ConnectionListener::new(service, sockets, endpoint)
}

impl TestSocketDaemon {
    pub(crate) fn client(&self) -> TestSocketClient {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        TestSocketClient { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Returns a client with an acknowledged subscription.
    pub(crate) fn subscribed_client(&self) -> TestSocketClient {
        let mut client = self.client();
        client.send_request(1, "follow", &json!({}));
        assert!(client.receive()["result"].is_object());
        client
    }

    /// Polls until the condition holds; fails after ten seconds.
    pub(crate) fn wait_until(&self, condition_text: &str, condition: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !condition(self) {
            assert!(started.elapsed() < Duration::from_secs(10), "timed out waiting until {condition_text}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn started_calls(&self) -> usize {
        self.context.started.load(Ordering::SeqCst)
    }

    pub(crate) fn release_calls(&self, calls: usize) {
        self.context.permits.0.add_permits(calls);
    }
}

/// Client that can send arbitrary bytes.
pub(crate) struct TestSocketClient {
    pub(crate) stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl TestSocketClient {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn send_request(&mut self, id: impl Into<Value>, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        self.send(format!("{request}\n"));
    }

    pub(crate) fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Receives an error and returns its `data.code`.
    pub(crate) fn receive_error_code(&mut self) -> String {
        self.receive()["error"]["data"]["code"].as_str().unwrap().to_owned()
    }

    /// Asserts that nothing more arrives and that the daemon has closed the connection.
    pub(crate) fn expect_end(&mut self) {
        let mut rest = Vec::new();
        match self.lines.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        assert_eq!(String::from_utf8(rest).unwrap(), "");
    }

    pub(crate) fn expect_alive(&mut self) {
        self.send_request("alive", "echo", &json!({"say": "yes"}));
        let reply = self.receive();
        assert_eq!((&reply["id"], &reply["result"]), (&json!("alive"), &json!("yes")));
    }
}
