//! Test daemon: a listening socket with a service of a few methods, and a client that can send invalid input.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::listener::{Door, Hall, Listener};
use crate::rpc::{self, RpcError};
use crate::service::{Answer, Call, Method, Service};
use crate::session::Session;
use crate::settings::Limits;

/// Shared context of the test methods.
#[derive(Clone, Default)]
pub(crate) struct Desk {
    /// Number of `wait` and `mark` calls that have started.
    begun: Arc<AtomicUsize>,
    /// Permits for `wait` calls to complete.
    gate: Arc<Gate>,
    /// Number of `meet` calls that have started, with a condition variable for changes.
    meeting: Arc<(Mutex<usize>, Condvar)>,
    /// Number of `mark` calls received.
    pub(crate) asked: Arc<AtomicUsize>,
    /// Events of `in_turn` calls, in order.
    pub(crate) notes: Arc<Mutex<Vec<&'static str>>>,
}

/// Time a `meet` call waits for another: less than the read timeout of a client.
const PATIENCE: Duration = Duration::from_secs(4);

struct Gate(Semaphore);

impl Default for Gate {
    fn default() -> Self {
        Gate(Semaphore::new(0))
    }
}

type Answered = Result<Answer, RpcError>;

const METHODS: &[Method<Desk>] = &[
    Method { name: "echo", run: echo },
    Method { name: "wait", run: wait },
    Method { name: "meet", run: meet },
    Method { name: "large", run: large },
    Method { name: "in_turn", run: in_turn },
    Method { name: "mark", run: mark },
    Method { name: "follow", run: follow },
    Method { name: "panic_now", run: |_, _, _| panic!("on purpose") },
    Method { name: "panic_later", run: |_, _, _| Ok(Answer::later(async { panic!("on purpose") })) },
];

fn echo(_: &Desk, _: &mut Session, mut call: Call) -> Answered {
    let said = call.params.take("say");
    call.params.finish()?;
    Ok(Answer::Now(rpc::answer(&said)))
}

fn follow(_: &Desk, _: &mut Session, _: Call) -> Answered {
    Ok(Answer::Follow(rpc::answer(&json!({})), Box::new(|_| Box::pin(std::future::pending()))))
}

fn wait(desk: &Desk, session: &mut Session, _: Call) -> Answered {
    let (desk, connection) = (desk.clone(), session.connection);
    desk.begun.fetch_add(1, Ordering::SeqCst);
    Ok(Answer::later(async move {
        if let Ok(permit) = desk.gate.0.acquire().await {
            permit.forget();
        }
        rpc::answer(&json!({"connection": connection}))
    }))
}

/// Blocks its worker thread until another `meet` call has started on another thread, and returns true if one
/// has.
fn meet(desk: &Desk, _: &mut Session, _: Call) -> Answered {
    let meeting = Arc::clone(&desk.meeting);
    Ok(Answer::shared(async move {
        let (begun, changed) = &*meeting;
        *begun.lock().unwrap() += 1;
        changed.notify_all();
        let alone = |begun: &mut usize| *begun < 2;
        let (begun, _) = changed.wait_timeout_while(begun.lock().unwrap(), PATIENCE, alone).unwrap();
        rpc::answer(&(*begun >= 2))
    }))
}

/// Records its arrival and its start.
fn in_turn(desk: &Desk, _: &mut Session, _: Call) -> Answered {
    let notes = Arc::clone(&desk.notes);
    notes.lock().unwrap().push("asked");
    Ok(Answer::later(async move {
        notes.lock().unwrap().push("begun");
        rpc::answer(&json!({}))
    }))
}

/// Counts its arrival and its start.
fn mark(desk: &Desk, _: &mut Session, _: Call) -> Answered {
    let desk = desk.clone();
    desk.asked.fetch_add(1, Ordering::SeqCst);
    Ok(Answer::shared(async move {
        desk.begun.fetch_add(1, Ordering::SeqCst);
        rpc::answer(&json!({}))
    }))
}

fn large(_: &Desk, _: &mut Session, mut call: Call) -> Answered {
    let bytes: u64 = call.params.need("bytes")?;
    Ok(Answer::later(async move { rpc::answer(&"x".repeat(usize::try_from(bytes).unwrap())) }))
}

/// Listening socket with the test service.
pub(crate) struct Daemon {
    pub(crate) desk: Desk,
    pub(crate) hall: Hall,
    pub(crate) path: PathBuf,
    _folder: Option<tempfile::TempDir>,
    _runtime: tokio::runtime::Runtime,
}

pub(crate) fn limits() -> Limits {
    Limits { max_line_bytes: 128 * 1024, write_stall: Duration::from_millis(500), ..Limits::default() }
}

pub(crate) fn daemon(limits: Limits) -> Daemon {
    daemon_in(Hall::new(limits))
}

pub(crate) fn daemon_in(hall: Hall) -> Daemon {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("test.sock");
    Daemon { _folder: Some(folder), ..daemon_at(hall, path) }
}

/// Starts a daemon on the given socket path.
pub(crate) fn daemon_at(hall: Hall, path: PathBuf) -> Daemon {
    let max_connections = hall.limits.max_connections;
    daemon_behind(Door { max_connections, max_followers: max_connections, idle: None }, hall, path)
}

/// Starts a daemon with the given listener limits.
pub(crate) fn daemon_behind(door: Door, hall: Hall, path: PathBuf) -> Daemon {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let desk = Desk::default();
    let listener = listener(door, hall.clone(), desk.clone());
    let socket = runtime.block_on(async { tokio::net::UnixListener::bind(&path).unwrap() });
    runtime.spawn(async move { listener.run(&socket).await });
    Daemon { desk, hall, path, _folder: None, _runtime: runtime }
}

/// Creates a listener for the test service.
pub(crate) fn listener(door: Door, hall: Hall, desk: Desk) -> Listener<Desk> {
    let elsewhere: (&str, fn(&str) -> bool) = ("other.sock", |method| method == "elsewhere");
    let notices = crate::mcp::NOTICES;
    let service = Service {
        socket: "test.sock",
        methods: METHODS,
        notices,
        elsewhere,
        worker: None,
        malformed: |_, _, error| error,
        admit: |_, _, _| Ok(()),
        context: desk,
    };
    Listener::new(service, hall, door)
}

impl Daemon {
    pub(crate) fn client(&self) -> Peer {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Peer { lines: BufReader::new(stream.try_clone().unwrap()), stream }
    }

    /// Returns a client with an acknowledged subscription.
    pub(crate) fn following(&self) -> Peer {
        let mut client = self.client();
        client.ask(1, "follow", &json!({}));
        assert!(client.hear()["result"].is_object());
        client
    }

    /// Polls until the condition holds; fails after ten seconds.
    pub(crate) fn until(&self, what: &str, so: impl Fn(&Self) -> bool) {
        let started = Instant::now();
        while !so(self) {
            assert!(started.elapsed() < Duration::from_secs(10), "timed out waiting until {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn begun(&self) -> usize {
        self.desk.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn open_gate(&self, calls: usize) {
        self.desk.gate.0.add_permits(calls);
    }
}

/// Client that can send arbitrary bytes.
pub(crate) struct Peer {
    pub(crate) stream: UnixStream,
    lines: BufReader<UnixStream>,
}

impl Peer {
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    pub(crate) fn ask(&mut self, id: impl Into<Value>, method: &str, params: &Value) {
        let request = json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params});
        self.send(format!("{request}\n"));
    }

    pub(crate) fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Receives an error and returns its `data.code`.
    pub(crate) fn hear_error(&mut self) -> String {
        self.hear()["error"]["data"]["code"].as_str().unwrap().to_owned()
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
        self.ask("alive", "echo", &json!({"say": "yes"}));
        let reply = self.hear();
        assert_eq!((&reply["id"], &reply["result"]), (&json!("alive"), &json!("yes")));
    }
}
