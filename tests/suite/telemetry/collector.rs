//! OTLP collector on loopback that stores the path and body of each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use tests::Home;

/// Collector that lives as long as the test.
pub(crate) struct Collector {
    address: String,
    posts: Receiver<(String, Vec<u8>)>,
}

/// Requests that a collector received, each with path and body.
pub(crate) struct Received(Vec<(String, Vec<u8>)>);

impl Collector {
    pub(crate) fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let address = format!("http://{}", listener.local_addr().expect("its address"));
        let (sender, posts) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                std::thread::spawn(move || serve(&stream, &sender));
            }
        });
        Collector { address, posts }
    }

    /// Environment variable that makes a daemon export to this collector.
    pub(crate) fn variable(&self) -> (&'static str, &str) {
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &self.address)
    }

    /// Requests received since the last call.
    pub(crate) fn received(&self) -> Received {
        Received(self.posts.try_iter().collect())
    }
}

impl Received {
    /// Returns true if a request to this path contains these bytes. Names are plain text in the protobuf
    /// encoding, so that needs no decoder.
    pub(crate) fn has(&self, path: &str, bytes: &[u8]) -> bool {
        self.0.iter().any(|(at, body)| at.ends_with(path) && contains(body, bytes))
    }

    /// Concatenated bodies of all requests.
    pub(crate) fn everything(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(_, body)| body.iter().copied()).collect()
    }
}

pub(crate) fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

/// Enables writing of every call, with its redacted arguments and results, to logs and spans.
pub(crate) fn capture_content(home: &Home) {
    let file = home.root().join("config/sinew.yaml");
    let text = std::fs::read_to_string(&file).expect("the settings");
    assert!(
        text.contains("capture_content: false") && text.contains("  calls: failed"),
        "the settings have the keys"
    );
    let changed = text
        .replace("capture_content: false", "capture_content: true")
        .replace("  calls: failed", "  calls: all   ");
    std::fs::write(&file, changed).expect("write the settings");
}

fn serve(stream: &TcpStream, sender: &Sender<(String, Vec<u8>)>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        if reader.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).expect("a header");
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("the body");
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let _ = sender.send((path, body));
        let mut answer = stream;
        answer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("an answer");
    }
}
