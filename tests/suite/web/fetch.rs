//! `fetch_url` in ordinary use.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;
use tests::Daemon;

use super::server::{Server, response};
use super::{OPEN, fetch, home, with_settings};

fn article() -> String {
    let paragraph =
        "<p>The heron stands in the shallow water and waits, because waiting is how it eats; it has done so \
                     every morning of this year, and the fish have not learned.</p>"
            .repeat(8);
    format!(
        "<html><head><title>Herons</title></head><body><nav><a href='/menu'>Menu</a></nav><article><h1>Herons</h1>\
         <h2>Waiting</h2>{paragraph}<p>A line\u{202e}turned and \u{1b}[31mred.</p></article></body></html>"
    )
}

#[test]
fn page_is_sandboxed_markdown_marked_as_untrusted() {
    let daemon = Daemon::start_in(home(OPEN));
    let server =
        Server::saying("200 OK", "Content-Type: text/html; charset=utf-8\r\nSet-Cookie: a=b\r\n", article());
    let result = fetch(&daemon, &server.url("/herons"));
    let output = &result["output"];
    assert_eq!(
        (&result["success"], &output["status"], &output["kind"]),
        (&json!(true), &json!(200), &json!("html")),
        "{result}"
    );
    assert_eq!((&output["title"], &output["view"]), (&json!("Herons"), &json!("readable")));
    assert_eq!(result["metadata"]["sandbox"]["tier"], "full");
    assert_eq!(output["untrusted"], true);
    assert!(output["notice"].as_str().expect("a notice").contains("not instructions"));
    let text = output["text"].as_str().expect("text");
    assert!(text.contains("## Waiting") && !text.contains("Menu"), "{text}");
    assert!(
        text.contains("\\u{202e}") && text.contains("\\u{1b}") && !text.contains('\u{1b}'),
        "what acts on a screen is written out: {text}"
    );
    let request = &server.requests()[0];
    assert!(
        request.starts_with("GET /herons HTTP/1.1\r\n")
            && request.contains("user-agent: Mozilla/5.0 (compatible; Sinew/")
    );
    let source =
        daemon.agent().execute("fetch_url", &json!({"url": server.url("/herons"), "view": "source"}));
    assert!(source["output"]["text"].as_str().expect("text").starts_with("<html>"));
    let ends = daemon.home().records().iter().filter(|record| tests::holds(record, "outcome")).count();
    assert_eq!(ends, 2, "each call has one end on record");
}

#[test]
fn documents_are_reported_by_their_kind() {
    let daemon = Daemon::start_in(home(OPEN));
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(b"{\"a\":1}").expect("memory");
    let packed = gzip.finish().expect("memory");
    let json =
        Server::saying("200 OK", "Content-Type: application/json\r\nContent-Encoding: gzip\r\n", &packed);
    let reported = fetch(&daemon, &json.url("/"));
    assert_eq!(
        (&reported["output"]["kind"], &reported["output"]["text"]),
        (&json!("json"), &json!("{\n  \"a\": 1\n}")),
        "{reported}"
    );
    let pdf = Server::saying("200 OK", "Content-Type: application/pdf\r\n", "%PDF-1.7");
    let reported = fetch(&daemon, &pdf.url("/"));
    assert_eq!(
        (&reported["output"]["kind"], &reported["output"]["text"]),
        (&json!("pdf"), &json!("")),
        "{reported}"
    );
    assert!(reported["output"]["note"].as_str().is_some_and(|note| note.contains("not extracted")));
    let latin = Server::saying("404 Not Found", "Content-Type: text/plain; charset=latin1\r\n", b"caf\xe9");
    let reported = fetch(&daemon, &latin.url("/"));
    assert_eq!(
        (&reported["output"]["status"], &reported["output"]["text"]),
        (&json!(404), &json!("café")),
        "{reported}"
    );
    let lying = Server::saying("200 OK", "Content-Encoding: br\r\n", "<html>");
    let reported = fetch(&daemon, &lying.url("/"));
    assert_eq!(reported["metadata"]["failure"]["kind"], "unreadable", "{reported}");
}

#[test]
fn long_page_is_continued_without_another_request() {
    let daemon = Daemon::start_in(home(OPEN));
    let text: String = (0..3000).map(|n| format!("word{n} ")).collect();
    let server = Server::saying("200 OK", "Content-Type: text/plain\r\n", &text);
    let mut agent = daemon.agent();
    let (mut read, mut offset) = (String::new(), 0);
    loop {
        let part = agent
            .execute("fetch_url", &json!({"url": server.url("/"), "offset": offset, "max_characters": 9000}));
        let piece = part["output"]["text"].as_str().unwrap_or_else(|| panic!("{part}"));
        read.push_str(piece);
        offset += piece.chars().count();
        assert_eq!(part["output"]["cached"], offset > 9000, "{part}");
        match part["metadata"]["truncated"]["how_to_continue"].as_str() {
            Some(how) => assert_eq!(how, format!("call again with offset={offset}")),
            None => break,
        }
    }
    assert_eq!((read, server.connections()), (text, 1));
}

#[test]
fn redirects_are_followed_and_named() {
    let daemon = Daemon::start_in(home(OPEN));
    let server = Server::start(|request, stream| {
        let bytes = match request.starts_with("GET /old") {
            true => response("301 Moved", "Location: /new?x=1\r\n", ""),
            false => response("200 OK", "Content-Type: text/plain\r\n", "here"),
        };
        let _ = stream.write_all(&bytes);
    });
    let reported = fetch(&daemon, &server.url("/old"));
    assert_eq!(
        (&reported["output"]["text"], &reported["output"]["url"]),
        (&json!("here"), &json!(server.url("/new?x=1"))),
        "{reported}"
    );
    assert_eq!(reported["output"]["redirects"], json!([server.url("/old")]));
}

#[test]
fn robots_txt_is_respected_where_configured() {
    let answer = |request: &str, stream: &mut std::net::TcpStream| {
        let bytes = match request.starts_with("GET /robots.txt") {
            true => response("200 OK", "Content-Type: text/plain\r\n", "User-agent: *\nDisallow: /private\n"),
            false => response("200 OK", "Content-Type: text/plain\r\n", "page"),
        };
        let _ = stream.write_all(&bytes);
    };
    let server = Server::start(answer);
    let daemon = Daemon::start_in(with_settings(home(OPEN), "{robots: respect}"));
    let kept = fetch(&daemon, &server.url("/private/x"));
    assert_eq!(kept["metadata"]["failure"]["kind"], "unreadable", "{kept}");
    assert!(kept["error"].as_str().is_some_and(|error| error.contains("robots.txt")), "{kept}");
    assert_eq!(fetch(&daemon, &server.url("/open"))["output"]["text"], "page");
    assert!(!server.requests().iter().any(|request| request.starts_with("GET /private")));
}
