//! Collector on a loopback port: receives OTLP over HTTP, decodes it and responds as configured.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CollectorBehaviour {
    /// Accepts every request.
    Accepting,
    /// Accepts the connection and never responds.
    Silent,
}

#[derive(Default)]
pub(super) struct ReceivedExports {
    pub(super) traces: Vec<ExportTraceServiceRequest>,
    pub(super) metrics: Vec<ExportMetricsServiceRequest>,
    pub(super) logs: Vec<ExportLogsServiceRequest>,
    pub(super) headers: Vec<String>,
    /// All received bytes, to be searched for secrets.
    pub(super) bytes: Vec<u8>,
}

pub(super) struct TestCollector {
    pub(super) endpoint: String,
    pub(super) received: Arc<Mutex<ReceivedExports>>,
    stop: Arc<AtomicBool>,
}

impl TestCollector {
    pub(super) fn start(manner: CollectorBehaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Arc::new(Mutex::new(ReceivedExports::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (theirs, stopped) = (Arc::clone(&taken), Arc::clone(&stop));
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                match manner {
                    CollectorBehaviour::Silent => open.push(stream),
                    CollectorBehaviour::Accepting => {
                        let taken = Arc::clone(&theirs);
                        std::thread::spawn(move || serve(stream, &taken));
                    }
                }
            }
        });
        TestCollector { endpoint: format!("http://{address}"), received: taken, stop }
    }
}

impl Drop for TestCollector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.endpoint.trim_start_matches("http://"));
    }
}

fn serve(stream: TcpStream, taken: &Mutex<ReceivedExports>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut head) = (0, Vec::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push(line);
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let mut taken = taken.lock().unwrap();
        taken.bytes.extend_from_slice(&body);
        let path = head[0].clone();
        match path.split(' ').nth(1).unwrap() {
            // A compressed body is not decoded; only its magic number is checked.
            _ if head.contains(&"content-encoding: gzip".to_owned()) => {
                assert!(body.starts_with(&[0x1f, 0x8b]))
            }
            "/v1/traces" => taken.traces.push(ExportTraceServiceRequest::decode(body.as_slice()).unwrap()),
            "/v1/metrics" => {
                taken.metrics.push(ExportMetricsServiceRequest::decode(body.as_slice()).unwrap())
            }
            "/v1/logs" => taken.logs.push(ExportLogsServiceRequest::decode(body.as_slice()).unwrap()),
            other => panic!("unexpected path {other}"),
        }
        taken.headers.extend(head);
        drop(taken);
        reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}
