//! Connection of the console to `control.sock`. All requests share one connection, on which the console has announced
//! its port: the daemon then knows that they come from a browser. If the daemon restarts, the connection is opened
//! again, and the port is announced before any request passes.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{Mutex, Notify, mpsc, oneshot, watch};
use tool::strict_json;

/// Wait for a daemon that restarts before a request fails.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of attempts to connect.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// Requests that wait for the connection.
const QUEUED_REQUESTS: usize = 64;

type ReplySender = oneshot::Sender<Result<Value, ClientError>>;

struct LinkRequest {
    method: &'static str,
    params: Value,
    reply: ReplySender,
}

/// Connection to the daemon that is opened again when it ends.
pub(super) struct ControlLink {
    socket: PathBuf,
    port: u16,
    queue: mpsc::Sender<LinkRequest>,
    waiting: Mutex<mpsc::Receiver<LinkRequest>>,
    first: Mutex<Option<OpenLink>>,
    is_open: watch::Sender<bool>,
    event: Notify,
}

/// Open connection whose port is announced.
struct OpenLink {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl ControlLink {
    /// Connects to the daemon and announces the port.
    pub(super) async fn open(socket: PathBuf, port: u16) -> Result<ControlLink, ClientError> {
        let first = OpenLink::connect(&socket, port).await?;
        let (queue, waiting) = mpsc::channel(QUEUED_REQUESTS);
        Ok(ControlLink {
            socket,
            port,
            queue,
            waiting: Mutex::new(waiting),
            first: Mutex::new(Some(first)),
            is_open: watch::Sender::new(true),
            event: Notify::new(),
        })
    }

    /// Sends a request and waits for the reply.
    pub(super) async fn request(&self, method: &'static str, params: Value) -> Result<Value, ClientError> {
        let mut is_open = self.is_open.subscribe();
        let opened = async { is_open.wait_for(|open| *open).await.is_ok() };
        if tokio::time::timeout(RECONNECT_TIMEOUT, opened).await != Ok(true) {
            return Err(ClientError::Closed(None));
        }
        let (reply, received) = oneshot::channel();
        let sent = self.queue.send(LinkRequest { method, params, reply }).await;
        sent.map_err(|_| ClientError::Closed(None))?;
        received.await.unwrap_or(Err(ClientError::Closed(None)))
    }

    /// Returns true while the daemon is connected.
    pub(super) fn is_open(&self) -> bool {
        *self.is_open.borrow()
    }

    /// Waits until the daemon reports an event, or the connection was opened or lost.
    pub(super) async fn event(&self) {
        self.event.notified().await;
    }

    /// Serves the connection, and opens it again whenever it ends.
    pub(super) async fn keep_open(&self) -> ! {
        let mut waiting = self.waiting.lock().await;
        let mut open = self.first.lock().await.take();
        loop {
            let link = match open.take() {
                Some(link) => link,
                None => match OpenLink::connect(&self.socket, self.port).await {
                    Ok(link) => link,
                    Err(_) => {
                        tokio::time::sleep(RETRY_INTERVAL).await;
                        continue;
                    }
                },
            };
            self.is_open.send_replace(true);
            self.event.notify_one();
            self.serve(link, &mut waiting).await;
            self.is_open.send_replace(false);
            self.event.notify_one();
            // Their senders get the error of a lost connection.
            while waiting.try_recv().is_ok() {}
        }
    }

    async fn serve(&self, mut link: OpenLink, waiting: &mut mpsc::Receiver<LinkRequest>) {
        let mut pending: HashMap<u64, ReplySender> = HashMap::new();
        // 1 and 2 were used to open the connection.
        let mut last_id: u64 = 2;
        loop {
            tokio::select! {
                Some(request) = waiting.recv() => {
                    last_id += 1;
                    pending.insert(last_id, request.reply);
                    if link.send(last_id, request.method, &request.params).await.is_err() {
                        return;
                    }
                }
                line = link.lines.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let Ok(message) = strict_json::parse(&line) else { return };
                    match message.get("id").and_then(Value::as_u64) {
                        Some(id) => {
                            if let Some(reply) = pending.remove(&id) {
                                let _ = reply.send(result_of(message));
                            }
                        }
                        None => self.event.notify_one(),
                    }
                }
            }
        }
    }
}

impl OpenLink {
    async fn connect(socket: &std::path::Path, port: u16) -> Result<OpenLink, ClientError> {
        let (read, write) = Client::connect_stream(socket, Duration::ZERO).await?.into_split();
        let mut link = OpenLink { lines: BufReader::new(read).lines(), write };
        link.open(1, "control/console.open", &json!({"port": port})).await?;
        link.open(2, "control/events", &json!({})).await?;
        Ok(link)
    }

    async fn open(&mut self, id: u64, method: &str, params: &Value) -> Result<(), ClientError> {
        self.send(id, method, params).await.map_err(|error| ClientError::Closed(Some(error)))?;
        loop {
            let line = self.lines.next_line().await.map_err(|error| ClientError::Closed(Some(error)))?;
            let line = line.ok_or(ClientError::Closed(None))?;
            let message =
                strict_json::parse(&line).map_err(|error| ClientError::InvalidReply(error.to_string()))?;
            if message.get("id").is_some_and(|found| *found == id) {
                return result_of(message).map(drop);
            }
        }
    }

    async fn send(&mut self, id: u64, method: &str, params: &Value) -> std::io::Result<()> {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.write.write_all(format!("{request}\n").as_bytes()).await
    }
}

fn result_of(mut message: Value) -> Result<Value, ClientError> {
    if let Some(result) = message.get_mut("result") {
        return Ok(result.take());
    }
    let error = message.get("error").unwrap_or(&Value::Null);
    Err(ClientError::Rpc {
        code: error["code"].as_i64().unwrap_or_default(),
        message: error["message"]
            .as_str()
            .unwrap_or("the reply has neither a result nor an error")
            .to_owned(),
        data: error["data"].clone(),
    })
}
