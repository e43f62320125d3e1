//! Limits of a response in size, time and headers. Decoding is not covered here.

use std::io::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::permits::{OPEN, permit};
use super::server::{Server, response};
use super::{gateway, limits, outcome};
use crate::ResponseLimits;

fn soon() -> ResponseLimits {
    ResponseLimits { body_bytes: 1000, deadline: Instant::now() + Duration::from_millis(400) }
}

#[tokio::test]
async fn endless_body_is_truncated_at_the_limit() {
    let server = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let answer = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(100_000)).await.unwrap();
    assert_eq!((answer.body.len(), answer.is_cut), (100_000, true));
}

#[tokio::test]
async fn wrong_content_length_is_handled() {
    let check = async |bytes: &str, body: &str, is_cut: bool| {
        let server = Server::with_response(bytes);
        let answer = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(10)).await.unwrap();
        assert_eq!((answer.body.as_slice(), answer.is_cut), (body.as_bytes(), is_cut), "{bytes}");
    };
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", "abc", false).await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "abc", true).await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nabcdefghijklm", "abcdefghij", true).await;
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\nabcdefghijklm", "abcdefghij", true)
        .await;
    check("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabcdefghij", "abcdefghij", false).await;
}

/// Slow, silent and endless servers all end at the deadline or at a limit.
#[tokio::test]
async fn time_and_headers_are_limited() {
    let drip = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let header_drip = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"A: b\r\n").is_ok() {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    for url in [
        drip.url("/"),
        header_drip.url("/"),
        format!("http://127.0.0.1:{port}/"),
        format!("https://127.0.0.1:{port}/"),
    ] {
        let began = Instant::now();
        let end = gateway().get(&permit(OPEN), &url, &[], soon()).await;
        assert_eq!(outcome(&end), "TimedOut", "{url}");
        assert!(began.elapsed() < Duration::from_secs(8), "{url}: {:?}", began.elapsed());
    }
    let endless = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nA: ");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    let million = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        for n in 0..1_000_000 {
            if write!(stream, "A{n}: b\r\n").is_err() {
                return;
            }
        }
    });
    for url in [endless.url("/"), million.url("/")] {
        let end = gateway().get(&permit(OPEN), &url, &[], limits(100)).await;
        assert_eq!(outcome(&end), "InvalidResponse", "{url}");
    }
    let nonsense = Server::with_response("220 mail.example.org ESMTP\r\n");
    let end = gateway().get(&permit(OPEN), &nonsense.url("/"), &[], limits(100)).await;
    assert_eq!(outcome(&end), "InvalidResponse");
}

#[tokio::test]
async fn interim_responses_end_at_the_deadline() {
    let announcing = |max: usize| {
        Server::start(move |_, stream| {
            let mut announced = 0;
            while announced < max && stream.write_all(b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n").is_ok() {
                announced += 1;
            }
            let _ = stream.write_all(&response("200 OK", "", "x"));
        })
    };
    let (few, many) = (announcing(32), announcing(usize::MAX));
    let answer = gateway().get(&permit(OPEN), &few.url("/"), &[], limits(100)).await.unwrap();
    assert_eq!(answer.body, b"x", "some are usual");
    let end = gateway().get(&permit(OPEN), &many.url("/"), &[], soon()).await;
    assert_eq!(outcome(&end), "TimedOut");
}

#[tokio::test]
async fn unused_headers_are_dropped() {
    let headers =
        "Content-Type: text/html\r\nContent-Encoding: gzip, br\r\nRetry-After: 7\r\nSet-Cookie: id=kept\r\n";
    let server = Server::with_response(response("429 Slow", headers, "x"));
    let answer = gateway().get(&permit(OPEN), &server.url("/?a=b#c"), &[], limits(100)).await.unwrap();
    assert_eq!(answer.codings, ["gzip", "br"]);
    assert_eq!(answer.retry_after.as_deref(), Some("7"));
    assert!(!format!("{answer:?}").contains("kept"), "{answer:?}");
    assert!(server.requests()[0].starts_with("GET /?a=b HTTP/1.1\r\n"), "no fragment, no proxy form");
}

#[tokio::test]
async fn status_of_a_failing_gateway_is_a_transient_network_fault() {
    for (status, headers, pause) in [
        ("502 Bad Gateway", "", None),
        ("503 Busy", "Retry-After: 7\r\n", Some(Duration::from_secs(7))),
        ("504 Timeout", "Retry-After: Fri, 31 Dec 1999 23:59:59 GMT\r\n", Some(Duration::MAX)),
    ] {
        let server = Server::with_response(response(status, headers, "no"));
        let error = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(1000)).await.unwrap_err();
        let failure = tool::Failure::from(error);
        assert_eq!((failure.kind.as_str(), failure.fault()), ("transient", tool::FaultParty::Network));
        assert_eq!((failure.retry_after, server.connections()), (pause, 1), "{status}: {failure:?}");
        assert!(failure.message.contains(&status[..3]), "{failure:?}");
    }
    let broken = Server::with_response(response("500 Broken", "", "why"));
    let answer = gateway().get(&permit(OPEN), &broken.url("/"), &[], limits(1000)).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (500, b"why".as_slice()), "an answer of the server");
}

#[tokio::test]
async fn silent_host_leaves_half_of_the_time_for_a_retry() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://127.0.0.1:{}/", silent.local_addr().unwrap().port());
    let caps = ResponseLimits { body_bytes: 1000, deadline: Instant::now() + Duration::from_secs(4) };
    let error = gateway().get(&permit(OPEN), &url, &[], caps).await.unwrap_err();
    assert!(caps.deadline > Instant::now() + Duration::from_secs(1), "time is left");
    let failure = tool::Failure::from(error);
    assert_eq!((failure.kind.as_str(), failure.fault()), ("timed_out", tool::FaultParty::Network));
    assert!(failure.is_transient(), "{failure:?}");
}

#[tokio::test]
async fn reset_connection_is_a_transient_network_fault() {
    let server = Server::start(|_, stream| {
        // Closing a socket that lingers for no time resets the connection.
        nix::sys::socket::setsockopt(
            stream,
            nix::sys::socket::sockopt::Linger,
            &nix::libc::linger { l_onoff: 1, l_linger: 0 },
        )
        .unwrap();
    });
    let error = gateway().get(&permit(OPEN), &server.url("/"), &[], limits(1000)).await.unwrap_err();
    let failure = tool::Failure::from(error);
    assert_eq!((failure.kind.as_str(), failure.kind.is_retryable()), ("transient", true), "{failure:?}");
    assert_eq!(failure.fault(), tool::FaultParty::Network);
}
