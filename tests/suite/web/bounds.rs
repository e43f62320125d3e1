//! Hostile servers against `fetch_url`: bounded time, bounded memory, a typed failure, and a daemon that
//! stays available.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tests::Daemon;

use super::server::Server;
use super::{OPEN, fetch, home};

/// Peak memory of the daemon in bytes.
fn peak(daemon: &Daemon) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).expect("the daemon runs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") * 1024
}

fn gzip(write: impl Fn(&mut GzEncoder<Vec<u8>>)) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    write(&mut encoder);
    encoder.finish().expect("memory")
}

/// A decompression bomb is cut at the limit on decoded bytes.
#[test]
fn decompression_bomb_is_cut_at_the_decoded_limit() {
    let bomb = gzip(|encoder| (0..48).for_each(|_| encoder.write_all(&[b'a'; 1 << 20]).expect("memory")));
    let nested = gzip(|encoder| encoder.write_all(&bomb).expect("memory"));
    assert!(bomb.len() < 1 << 20 && nested.len() < bomb.len());
    let one = Server::saying("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", &bomb);
    let two =
        Server::saying("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip, gzip\r\n", &nested);
    let daemon = Daemon::start_in(home(OPEN));
    fetch(&daemon, &Server::saying("200 OK", "Content-Type: text/plain\r\n", "warm").url("/"));
    let before = peak(&daemon);
    for server in [one, two] {
        let result = fetch(&daemon, &server.url("/"));
        let output = &result["output"];
        assert_eq!(
            (&output["characters"], &output["source_cut"]),
            (&json!(1 << 20), &json!(true)),
            "{result:.300}"
        );
    }
    // The kernel counts in batches, so an earlier reading of the peak can be slightly higher than a later
    // one.
    let grown = peak(&daemon).saturating_sub(before);
    assert!(grown < 20 << 20, "96 MiB went by and the daemon grew by {grown}");
}

/// Pages built to attack the parser.
#[test]
fn pages_that_attack_their_parser_stay_within_bounds() {
    let daemon = Daemon::start_in(home(OPEN));
    let check = |page: String, headers: &str, expect: &dyn Fn(&Value)| {
        let server = Server::saying("200 OK", headers, page);
        let began = Instant::now();
        expect(&fetch(&daemon, &server.url("/")));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    };
    let html = "Content-Type: text/html\r\n";
    check(format!("{}deep down", "<b>".repeat(60_000)), html, &|result| {
        assert_eq!(result["output"]["text"], "deep down", "{result:.300}");
        assert!(result["output"]["note"].as_str().is_some_and(|note| note.contains("deep")));
    });
    check("&amp;&lol9;".repeat(8_000), html, &|result| assert_eq!(result["success"], true, "{result:.300}"));
    check("[".repeat(100_000), "Content-Type: application/json\r\n", &|result| {
        assert!(
            result["output"]["note"].as_str().is_some_and(|note| note.contains("not valid JSON")),
            "{result:.300}"
        );
    });
    check(
        "+ADw-script+AD4-\u{1b}]0;x\u{7}".to_owned(),
        "Content-Type: text/plain; charset=utf-7\r\n",
        &|result| {
            assert_eq!(result["output"]["text"], "+ADw-script+AD4-\\u{1b}]0;x\\u{7}", "{result:.300}");
        },
    );
}

/// The timeout of the policy limits the call, and the daemon answers others meanwhile.
#[test]
fn server_that_never_ends_hits_the_deadline() {
    let home = home(OPEN);
    let rules = "tools:\n  fetch_url: {category: network, allowed_in_modes: [NORMAL], timeout_seconds: 2}\n  \
                 read_file: {allowed_in_modes: [NORMAL]}\n";
    home.configure("governance/tools.yaml", rules);
    home.file("a.txt", "a");
    let daemon = Daemon::start_in(home);
    let drip = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(b"x").is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let began = Instant::now();
    let result = fetch(&daemon, &drip.url("/"));
    assert_eq!(result["metadata"]["failure"]["kind"], "timed_out", "{result}");
    assert!(began.elapsed() < Duration::from_secs(12), "{:?}", began.elapsed());
    let headers = Server::start(|_, stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(b"A: b\r\n").is_ok() {}
    });
    let result = fetch(&daemon, &headers.url("/"));
    assert_eq!(result["metadata"]["failure"]["kind"], "unreadable", "{result}");
    let next = daemon.agent().execute("read_file", &json!({"path": "a.txt"}));
    assert_eq!(next["success"], true, "{next}");
}
