//! The client of the command line against real sockets.

use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::time::Duration;

use ::client::{Client, ClientError};
use serde_json::json;

use super::daemon::{daemon_at, limits};
use crate::listener::SharedListenerState;
use crate::settings::ConnectionLimits;

fn socket() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sock");
    (folder, path)
}

#[tokio::test]
async fn missing_daemon_is_explained() {
    let (_folder, path) = socket();
    let unreachable = async || {
        let error = Client::connect(&path, Duration::ZERO).await.err().unwrap();
        assert!(error.to_string().contains(&path.display().to_string()), "{error}");
        assert!(error.hint().unwrap().contains("`sinew serve`"));
        error.to_string()
    };
    assert!(unreachable().await.ends_with("there is no such socket"));
    drop(UnixListener::bind(&path).unwrap());
    assert!(unreachable().await.ends_with("nothing listens on it"));
}

#[tokio::test(flavor = "multi_thread")]
async fn client_waits_for_a_starting_daemon() {
    let (_folder, path) = socket();
    let later = path.clone();
    let starting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(150));
        daemon_at(SharedListenerState::new(limits()), later)
    });
    let mut client = Client::connect(&path, Duration::from_secs(10)).await.unwrap();
    assert_eq!(client.request("echo", json!({"say": 1})).await.unwrap(), 1);
    assert_eq!(client.request("echo", json!({"say": "é"})).await.unwrap(), "é");
    let error = client.request("ecoh", json!({})).await.unwrap_err();
    let ClientError::Rpc { code, message, data } = error else { panic!("{error}") };
    assert_eq!((code, data["did_you_mean"].as_str()), (-32601, Some("echo")), "{message}");
    let large = client.request("large", json!({"bytes": limits().max_line_bytes - 100})).await.unwrap();
    assert_eq!(large.as_str().map(str::len), Some(limits().max_line_bytes - 100));
    let daemon = starting.join().unwrap();
    daemon.shared.stop.cancel();
    let error = client.request("wait", json!({})).await.unwrap_err();
    // A request that arrived before the connection stopped receiving is answered.
    let is_answered = error.code_word() == Some("shutting_down");
    assert!(is_answered || matches!(error, ClientError::Closed(_)), "{error}");
    drop(client);
    std::thread::spawn(move || drop(daemon)).join().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn busy_error_of_a_full_daemon_reaches_the_client() {
    let (_folder, path) = socket();
    let sockets = SharedListenerState::new(ConnectionLimits { max_connections: 1, ..limits() });
    let there = path.clone();
    let daemon = std::thread::spawn(move || daemon_at(sockets, there)).join().unwrap();
    let mut first = Client::connect(&path, Duration::ZERO).await.unwrap();
    first.request("echo", json!({})).await.unwrap();
    let mut second = Client::connect(&path, Duration::ZERO).await.unwrap();
    let error = second.request("echo", json!({})).await.unwrap_err();
    assert!(matches!(&error, ClientError::Rpc { data, .. } if data["code"] == "busy"), "{error}");
    std::thread::spawn(move || drop(daemon)).join().unwrap();
}
