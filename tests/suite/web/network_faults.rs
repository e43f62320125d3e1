//! Faults of the network that pass: one retry within the deadline, and a failure that names the first cause.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::Daemon;

use super::server::{Server, response};
use super::{OPEN, everything_kept, fetch, home, with_settings};

const FOUND: &str = r#"{"results": [{"title": "A", "url": "https://a.org/", "content": "about a"}]}"#;

/// Fault of a server, before it recovers.
#[derive(Clone, Copy, Debug)]
enum Fault {
    Silent,
    Reset,
    Status(&'static str, &'static str),
}

impl Fault {
    fn happen(self, stream: &mut TcpStream) {
        match self {
            // Silent until the client gives up and closes the connection.
            Fault::Silent => {
                stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
                let _ = std::io::copy(stream, &mut std::io::sink());
            }
            // Closing a socket that lingers for no time resets the connection.
            Fault::Reset => {
                let at_once = nix::libc::linger { l_onoff: 1, l_linger: 0 };
                nix::sys::socket::setsockopt(&*stream, nix::sys::socket::sockopt::Linger, &at_once)
                    .expect("a socket option");
            }
            Fault::Status(status, headers) => {
                let _ = stream.write_all(&response(status, headers, "no"));
            }
        }
    }
}

/// Server whose first `faults` connections fail and whose others return this JSON.
fn failing(fault: Fault, faults: usize, body: &'static str) -> Server {
    let count = AtomicUsize::new(0);
    Server::start(move |_, stream| match count.fetch_add(1, Ordering::SeqCst) < faults {
        true => fault.happen(stream),
        false => {
            let _ = stream.write_all(&response("200 OK", "Content-Type: application/json\r\n", body));
        }
    })
}

fn daemon() -> Daemon {
    let home = home(OPEN);
    let rule = "{category: network, allowed_in_modes: [NORMAL], timeout_seconds: 6}";
    home.configure("governance/tools.yaml", &format!("tools:\n  fetch_url: {rule}\n  web_search: {rule}\n"));
    Daemon::start_in(home)
}

fn assert_network_fault(result: &Value, kind: &str, label: &str) {
    let failure = &result["metadata"]["failure"];
    let fields = (&failure["kind"], &failure["fault"], &failure["retryable"]);
    assert_eq!(fields, (&json!(kind), &json!("network"), &json!(true)), "{label}: {result}");
}

#[test]
fn passing_network_fault_is_retried_within_the_deadline() {
    let daemon = daemon();
    for fault in [Fault::Silent, Fault::Reset, Fault::Status("502 Bad", ""), Fault::Status("504 Late", "")] {
        let server = failing(fault, 1, "{}");
        let began = Instant::now();
        let result = fetch(&daemon, &server.url("/"));
        assert_eq!((&result["success"], server.connections()), (&json!(true), 2), "{fault:?}: {result}");
        assert!(began.elapsed() < Duration::from_secs(6), "{fault:?}: {:?}", began.elapsed());
        assert!(began.elapsed() >= Duration::from_millis(500), "{fault:?}: there is a pause");
    }
    let kept = everything_kept(&daemon.stop());
    assert_eq!(kept.matches("\"attempts\":2").count(), 4, "each retry is recorded");
}

#[test]
fn lasting_network_fault_is_named_after_one_retry() {
    let daemon = daemon();
    for (fault, kind, cause) in [
        (Fault::Silent, "timed_out", "did not respond in time"),
        (Fault::Reset, "transient", "reset"),
        (Fault::Status("503 Busy", ""), "transient", "status 503"),
    ] {
        let server = failing(fault, usize::MAX, "{}");
        let result = fetch(&daemon, &server.url("/"));
        assert_network_fault(&result, kind, cause);
        assert!(result["error"].as_str().is_some_and(|error| error.contains(cause)), "{result}");
        assert_eq!(server.connections(), 2, "{fault:?}: one retry");
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://127.0.0.1:{}/", closed.local_addr().expect("its address").port());
    drop(closed);
    let result = fetch(&daemon, &url);
    assert_network_fault(&result, "transient", "refused");
    assert!(result["error"].as_str().is_some_and(|error| error.contains("refused")), "{result}");
}

#[test]
fn requested_pause_beyond_five_seconds_is_left_to_the_caller() {
    let daemon = daemon();
    let busy = failing(Fault::Status("503 Busy", "Retry-After: 60\r\n"), 1, "{}");
    let result = fetch(&daemon, &busy.url("/"));
    assert_network_fault(&result, "transient", "a long pause");
    assert_eq!(busy.connections(), 1, "{result}");
    let brief = failing(Fault::Status("503 Busy", "Retry-After: 1\r\n"), 1, "{}");
    let began = Instant::now();
    let result = fetch(&daemon, &brief.url("/"));
    assert_eq!((&result["success"], brief.connections()), (&json!(true), 2), "{result}");
    assert!(began.elapsed() >= Duration::from_secs(1), "the pause is kept");
}

#[test]
fn deadline_of_the_caller_is_a_network_fault_of_a_web_tool() {
    let daemon = daemon();
    let silent = failing(Fault::Silent, usize::MAX, "{}");
    let arguments = json!({"url": silent.url("/")});
    let result = daemon.agent().execute_with("fetch_url", &arguments, &json!({"deadline_ms": 700}));
    assert_network_fault(&result, "timed_out", "deadline");
}

#[test]
fn back_off_of_a_provider_spares_the_retry_of_the_same_call() {
    for fault in [Fault::Silent, Fault::Reset, Fault::Status("503 Busy", "")] {
        let server = failing(fault, 1, FOUND);
        let entry = format!("{{search: {{providers: [{{name: searxng, url: \"{}\"}}]}}}}", server.url("/"));
        let daemon = Daemon::start_in(with_settings(tests::Home::initialised(), &entry));
        let result = daemon.agent().execute("web_search", &json!({"query": "q"}));
        assert_eq!((&result["success"], server.connections()), (&json!(true), 2), "{fault:?}: {result}");
    }
    let server = failing(Fault::Reset, usize::MAX, FOUND);
    let entry = format!("{{search: {{providers: [{{name: searxng, url: \"{}\"}}]}}}}", server.url("/"));
    let daemon = Daemon::start_in(with_settings(tests::Home::initialised(), &entry));
    let search = || daemon.agent().execute("web_search", &json!({"query": "q"}));
    let result = search();
    assert_network_fault(&result, "transient", "reset");
    assert!(result["error"].as_str().is_some_and(|error| error.contains("reset")), "{result}");
    assert_eq!(server.connections(), 2);
    let next = search();
    assert_network_fault(&next, "transient", "paused");
    assert_eq!(server.connections(), 2, "the pause holds for another call: {next}");
}
