//! WebSockets: the handshake, the accepted frames and their limits.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::permits::{OPEN, SHIPPED, permit};
use super::server::{Server, response};
use super::{ScriptedResolver, gateway, limits, outcome_of};
use crate::{HttpRequest, OutboundError, ResponseLimits, WebSocketConnection};

/// Limit of one message in these tests.
const MOST: u64 = 1000;

/// Returns the response with which a server completes the handshake.
fn handshake_response(request: &str, with: &str) -> String {
    let key = request.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap_or_default();
    let accept = derive_accept_key(key.as_bytes());
    format!("HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: {accept}\r\n{with}\r\n")
}

const USUAL: &str = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: mcp\r\n";

/// Starts a server that completes the handshake and then calls `then`.
fn websocket_server(then: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> Server {
    Server::start(move |request, stream| {
        let _ = stream.write_all(handshake_response(request, USUAL).as_bytes());
        then(stream);
    })
}

/// Returns a server frame with this first byte and payload.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    [&[first, 126][..], &length, payload].concat()
}

const TEXT: u8 = 0x81;
const BINARY: u8 = 0x82;

async fn open(server: &Server) -> Result<WebSocketConnection, OutboundError> {
    let question = HttpRequest::get(server.url("/").replace("http://", "ws://"));
    gateway().open_websocket(&permit(OPEN), &question, "mcp", limits(MOST)).await
}

async fn receive(server: &Server) -> Result<Option<String>, OutboundError> {
    let next = open(server).await?.next().await?;
    Ok(next.map(|text| String::from_utf8(text).unwrap()))
}

#[tokio::test]
async fn texts_go_both_ways_and_pings_are_answered() {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server = websocket_server(move |stream| {
        // One text in two fragments, with a ping between them.
        for part in [frame(0x01, b"hel"), vec![0x89, 1, b'p'], frame(0x80, b"lo")] {
            let _ = stream.write_all(&part);
        }
        let mut bytes = [0; 7 + 6 + 4];
        stream.read_exact(&mut bytes).unwrap();
        sender.lock().unwrap().send(bytes).unwrap();
    });
    let mut socket = open(&server).await.unwrap();
    assert_eq!(socket.next().await.unwrap().as_deref(), Some(&b"hello"[..]));
    socket.send("thanks".to_owned()).await.unwrap();
    let bytes = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!((bytes[0], bytes[1] & 0x80), (0x8a, 0x80), "a pong, masked: {bytes:?}");
    assert_eq!(bytes[6] ^ bytes[2], b'p', "with what the ping had");
    assert_eq!(bytes[7], TEXT, "and then the text");
    let asked = server.requests().concat().to_lowercase();
    assert!(asked.starts_with("get / http/1.1\r\n") && asked.contains("sec-websocket-protocol: mcp\r\n"));
    assert!(!asked.contains("extensions") && !asked.contains("origin"), "{asked}");
    socket.close().await;
}

/// A frame that is not text, or not valid, ends the connection.
#[tokio::test]
async fn only_text_frames_are_accepted() {
    let check = async |bytes: Vec<u8>, expect: &str| {
        let shown = format!("{bytes:?}");
        let server = websocket_server(move |stream| {
            let _ = stream.write_all(&bytes);
        });
        let end = receive(&server).await;
        let outcome_text = end.as_ref().map_or_else(|error| error.to_string(), |text| format!("{text:?}"));
        assert!(outcome_text.contains(expect), "{shown}: {outcome_text}");
    };
    check(frame(TEXT, b"good"), "good").await;
    check(frame(BINARY, b"bad"), "binary").await;
    check(frame(TEXT, b"\xff\xfe"), "UTF-8").await;
    check(frame(0xc1, b"packed"), "reserved bits").await;
    check(vec![TEXT, 0x81, 0, 0, 0, 0, b'x'], "masked").await;
    check(frame(0x80, b"of nothing"), "nothing to continue").await;
    check(vec![0x83, 0], "invalid opcode").await;
    check(b"HTTP/1.1 200 OK\r\n\r\n".repeat(20), "violated the WebSocket protocol").await;
    check(vec![0x88, 0], "None").await;
    check(Vec::new(), "None").await;
    check(frame(TEXT, b"cut")[..5].to_vec(), "None").await;
}

/// The limit applies to the announced length of a frame, to the sum of its fragments, and to frames without
/// content.
#[tokio::test]
async fn received_bytes_are_limited() {
    let check = async |then: fn(&mut TcpStream)| {
        let server = websocket_server(then);
        let end = tokio::time::timeout(Duration::from_secs(30), receive(&server)).await.expect("an end");
        assert_eq!(outcome_of(&end), "TooManyBytes", "{end:?}");
    };
    check(|stream| {
        let _ = stream.write_all(&[&[TEXT, 127][..], &(1_u64 << 40).to_be_bytes()].concat());
        let _ = stream.read(&mut [0]);
    })
    .await;
    check(|stream| {
        let _ = stream.write_all(&frame(0x01, &[b'x'; 600]));
        let _ = stream.write_all(&frame(0x80, &[b'x'; 600]));
        let _ = stream.read(&mut [0]);
    })
    .await;
    check(|stream| while stream.write_all(&[0x89, 0].repeat(1000)).is_ok() {}).await;
    check(|stream| {
        let _ = stream.write_all(&[0x01, 0]);
        while stream.write_all(&[0x00, 0].repeat(1000)).is_ok() {}
    })
    .await;
    check(|stream| while stream.write_all(&[0x8a, 0].repeat(1000)).is_ok() {}).await;
}

/// A server may send this many bytes again for each request, without a total limit.
#[tokio::test]
async fn receive_limit_is_reset_for_each_request() {
    let server = websocket_server(|stream| while stream.write_all(&frame(TEXT, &[b'x'; 900])).is_ok() {});
    let mut socket = open(&server).await.unwrap();
    for _ in 0..500 {
        socket.set_receive_limit(1000);
        assert_eq!(socket.next().await.unwrap().map(|text| text.len()), Some(900));
    }
}

#[tokio::test]
async fn handshake_must_match_the_request() {
    let check = async |answer: fn(&str) -> String, expect: &str| {
        let server = Server::start(move |request, stream| {
            let _ = stream.write_all(answer(request).as_bytes());
        });
        let end = open(&server).await;
        let error_text = end.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error_text.contains("did not open a WebSocket") && error_text.contains(expect),
            "{expect}: {error_text}"
        );
    };
    let plain = |answer: Vec<u8>| String::from_utf8(answer).unwrap();
    assert!(open(&websocket_server(|_| {})).await.is_ok());
    check(|request| handshake_response(request, &USUAL.replace("mcp", "chat")), "subprotocol `mcp`").await;
    check(|request| handshake_response(request, &USUAL.replace("mcp", "mcp, chat")), "subprotocol `mcp`")
        .await;
    check(
        |request| handshake_response(request, "Upgrade: websocket\r\nConnection: Upgrade\r\n"),
        "subprotocol `mcp`",
    )
    .await;
    check(
        |request| handshake_response(request, &format!("{USUAL}Sec-WebSocket-Protocol: chat\r\n")),
        "subprotocol `mcp`",
    )
    .await;
    check(
        |request| {
            handshake_response(request, &format!("{USUAL}Sec-WebSocket-Extensions: permessage-deflate\r\n"))
        },
        "extension",
    )
    .await;
    check(|_| handshake_response("", USUAL), "Sec-WebSocket-Accept").await;
    check(
        |request| handshake_response(request, "Upgrade: h2c\r\nConnection: Upgrade\r\n"),
        "WebSocket upgrade",
    )
    .await;
    check(|request| handshake_response(request, "Upgrade: websocket\r\n"), "WebSocket upgrade").await;
    check(|_| "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n".to_owned(), "status 403").await;
    check(|_| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(), "status 200").await;
    let elsewhere = Server::with_response(response("200 OK", "", ""));
    let location = format!("Location: {}\r\n", elsewhere.url("/"));
    let moved = plain(response("307 Temporary", &location, ""));
    let server = Server::with_response(moved);
    let text = open(&server).await.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(text.contains("status 307; redirects are not followed"), "{text}");
    assert_eq!(elsewhere.connections(), 0);
}

/// The host is judged, resolved once and vetted as for any other request, and only WebSocket URLs are
/// accepted.
#[tokio::test]
async fn websocket_reaches_only_permitted_hosts() {
    let inside = websocket_server(|_| {});
    let check = async |rules: &str, url: String, expect: &str| {
        let script = Arc::new(ScriptedResolver::of(&[("inner.example.org", &[&["127.0.0.1"]])]));
        let question = HttpRequest::get(url.clone());
        let (keeper, permit) = (gateway().with_resolver(script), permit(rules));
        let opened = keeper.open_websocket(&permit, &question, "mcp", limits(MOST)).await;
        assert_eq!(outcome_of(&opened), expect, "{url}");
    };
    let port = inside.port;
    check(SHIPPED, format!("ws://127.0.0.1:{port}/"), "private_address").await;
    check(SHIPPED, format!("wss://localhost:{port}/"), "private_address").await;
    check(SHIPPED, format!("ws://inner.example.org:{port}/"), "private_address").await;
    check(SHIPPED, format!("ws://me:mine@example.org:{port}/"), "userinfo").await;
    check("{allowed_domains: [b.example]}", "ws://a.example/".to_owned(), "not_listed").await;
    check(OPEN, "ws://127.0.0.1:22/".to_owned(), "BlockedPort").await;
    for other in ["http", "https", "WS", "file"] {
        check(OPEN, format!("{other}://127.0.0.1:{port}/"), "WebSocketRefused").await;
    }
    assert_eq!(inside.connections(), 0);
    check(OPEN, format!("ws://inner.example.org:{port}/"), "ok").await;
    assert_eq!(inside.connections(), 1);
}

#[tokio::test]
async fn handshake_ends_at_the_deadline() {
    let silent = Server::start(|_, stream| {
        let _ = stream.read(&mut [0]);
    });
    let question = HttpRequest::get(silent.url("/").replace("http://", "ws://"));
    let soon = ResponseLimits { body_bytes: MOST, deadline: Instant::now() + Duration::from_millis(400) };
    let end = gateway().open_websocket(&permit(OPEN), &question, "mcp", soon).await;
    assert_eq!(outcome_of(&end), "TimedOut");
    let nonsense = Server::with_response("220 mail.example.org ESMTP\r\n");
    assert_eq!(outcome_of(&open(&nonsense).await), "InvalidResponse");
    let endless = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 101 Yes\r\nA: ");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    assert_eq!(outcome_of(&open(&endless).await), "InvalidResponse");
}
