//! Web server of a test that returns given responses and stores the requests.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Server on the loopback interface.
pub(crate) struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts a server that lets `answer` write the response to each request.
    pub(crate) fn start(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Server {
        Server::at("127.0.0.1", answer)
    }

    pub(crate) fn at(address: &str, answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (came, received, answer) = (Arc::clone(&connections), Arc::clone(&requests), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                came.fetch_add(1, Ordering::SeqCst);
                let (received, answer) = (Arc::clone(&received), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let request = read(&mut stream);
                    received.lock().expect("the lock is not poisoned").push(request.clone());
                    answer(&request, &mut stream);
                });
            }
        });
        Server { port, connections, requests }
    }

    /// Starts a server that gives every request the same response.
    pub(crate) fn saying(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Server {
        let bytes = response(status, headers, body);
        Server::start(move |_, stream| {
            let _ = stream.write_all(&bytes);
        })
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().expect("the lock is not poisoned").clone()
    }
}

/// Complete response.
pub(crate) fn response(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Reads a request with its body.
fn read(stream: &mut TcpStream) -> String {
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a time limit");
    let (mut bytes, mut byte) = (Vec::new(), [0]);
    while !bytes.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        bytes.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&bytes).into_owned();
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    let _ = stream.read_exact(&mut body);
    format!("{head}{}", String::from_utf8_lossy(&body))
}
