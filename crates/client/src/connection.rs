//! JSON-RPC client of a daemon: connects to a socket, sends one request at a time, and explains why a daemon
//! cannot be reached.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::unistd::Uid;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tool::strict_json;

const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// Longest reply line that a client reads.
const MAX_LINE_BYTES: u64 = 64 * 1024 * 1024;
/// MCP revision of the handshake.
const HANDSHAKE_REVISION: &str = "2025-06-18";
const PROGRESS: &str = "notifications/progress";

/// Connection to a daemon.
pub struct Client {
    lines: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    request_count: u64,
}

/// Error of a client request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon accepts connections on the socket.
    #[error("no daemon answers on `{}`: {}", .socket.display(), unreachable_reason(*.exists, .cause))]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// True if the socket file exists.
        exists: bool,
        /// Error of the connect call.
        cause: std::io::Error,
    },
    /// The socket is served by another user.
    #[error("`{}` is served by uid {uid}, not by this user", .socket.display())]
    ForeignUser {
        /// Path of the socket.
        socket: PathBuf,
        /// User of the serving process.
        uid: u32,
    },
    /// The daemon replied with a JSON-RPC error.
    #[error("{message}")]
    Rpc {
        /// JSON-RPC error code.
        code: i64,
        /// Message for people.
        message: String,
        /// Details; `code` in it is the error code for programs.
        data: Value,
    },
    /// The daemon closed the connection before it replied.
    #[error("the daemon closed the connection before it replied{}", .0.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Closed(Option<std::io::Error>),
    /// The reply is not a valid JSON-RPC response.
    #[error("the daemon's reply cannot be read: {0}")]
    InvalidReply(String),
}

impl ClientError {
    /// Returns a suggestion for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Unreachable { .. } => Some("start one with `sinew serve`".to_owned()),
            ClientError::Closed(_) => Some("`sinew status` shows whether it is running".to_owned()),
            ClientError::ForeignUser { .. } => Some("set SINEW_HOME to a folder of your own".to_owned()),
            ClientError::Rpc { .. } | ClientError::InvalidReply(_) => None,
        }
    }

    /// Returns the error code for programs, such as `not_found`, of a JSON-RPC error.
    pub fn code_word(&self) -> Option<&str> {
        match self {
            ClientError::Rpc { data, .. } => data["code"].as_str(),
            _ => None,
        }
    }
}

impl Client {
    /// Connects to a socket. Retries until `max_wait` has passed, so that a daemon that is just starting is
    /// reached.
    pub async fn connect(socket: &Path, max_wait: Duration) -> Result<Self, ClientError> {
        let (read, write) = Self::connect_stream(socket, max_wait).await?.into_split();
        Ok(Client { lines: BufReader::new(read), write, request_count: 0 })
    }

    /// Like `connect`, but returns the raw stream for callers that implement the protocol themselves. The
    /// peer is verified to be a daemon of this user.
    pub async fn connect_stream(socket: &Path, max_wait: Duration) -> Result<UnixStream, ClientError> {
        let started = Instant::now();
        loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => return check_peer_uid(stream, socket),
                Err(cause) if is_retryable(&cause) && started.elapsed() < max_wait => {
                    tokio::time::sleep(CONNECT_RETRY_INTERVAL.min(max_wait)).await;
                }
                Err(cause) => {
                    let (exists, socket) = (socket.exists(), socket.to_owned());
                    return Err(ClientError::Unreachable { socket, exists, cause });
                }
            }
        }
    }

    /// Introduces this program to the agent socket, so that the operator sees its name in the status and in the ledger.
    pub async fn introduce(&mut self, name: &str, version: &str) -> Result<(), ClientError> {
        let params = json!({"protocolVersion": HANDSHAKE_REVISION, "capabilities": {},
            "clientInfo": {"name": name, "version": version}});
        self.request("initialize", params).await.map(drop)
    }

    /// Sends one request and waits for its reply without a timeout.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.request_with_progress(method, params, |_| {}).await
    }

    /// Like `request`, and passes the parameters of each progress notification to `on_progress`. The request
    /// must have a `progress_token`.
    pub async fn request_with_progress(
        &mut self,
        method: &str,
        params: Value,
        mut on_progress: impl FnMut(&Value),
    ) -> Result<Value, ClientError> {
        self.request_count += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.request_count, "method": method, "params": params});
        // A daemon that closes the connection often sends the reason first, which says more than the write
        // error.
        let written = self.write.write_all(format!("{request}\n").as_bytes()).await;
        loop {
            let Some(answer) = self.next_message().await? else {
                return Err(ClientError::Closed(written.err()));
            };
            match answer.get("method") {
                Some(method) if method == PROGRESS => {
                    on_progress(answer.get("params").unwrap_or(&Value::Null))
                }
                Some(_) => {}
                // An error without an id concerns the whole connection, and therefore this request too.
                None if answer.get("id").is_none_or(|id| id.is_null() || *id == self.request_count) => {
                    return parse_response(answer);
                }
                None => {}
            }
        }
    }

    /// Reads one message, or nothing at the end of the connection.
    async fn next_message(&mut self) -> Result<Option<Value>, ClientError> {
        let mut line = Vec::new();
        let read = (&mut self.lines).take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await;
        match read.map_err(|error| ClientError::Closed(Some(error)))? {
            0 => return Ok(None),
            _ if line.ends_with(b"\n") => {}
            _ if line.len() as u64 == MAX_LINE_BYTES => {
                return Err(ClientError::InvalidReply("the line is too long".to_owned()));
            }
            // A line without a newline was cut off when the daemon ended: it is not a reply.
            _ => return Ok(None),
        }
        let text =
            String::from_utf8(line).map_err(|_| ClientError::InvalidReply("it is not UTF-8".to_owned()))?;
        let parsed = strict_json::parse(&text);
        parsed.map(Some).map_err(|error| ClientError::InvalidReply(error.to_string()))
    }
}

fn check_peer_uid(stream: UnixStream, socket: &Path) -> Result<UnixStream, ClientError> {
    let served_by = stream.peer_cred().map_err(|error| ClientError::Closed(Some(error)))?;
    match served_by.uid() {
        uid if uid == Uid::effective().as_raw() => Ok(stream),
        uid => Err(ClientError::ForeignUser { socket: socket.to_owned(), uid }),
    }
}

fn parse_response(mut answer: Value) -> Result<Value, ClientError> {
    let garbled = |reason: &str| ClientError::InvalidReply(reason.to_owned());
    match (answer.get_mut("result").map(Value::take), answer.get_mut("error").map(Value::take)) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => {
            let error: RpcErrorObject =
                serde_json::from_value(error).map_err(|_| garbled("its error object is malformed"))?;
            Err(ClientError::Rpc { code: error.code, message: error.message, data: error.data })
        }
        _ => Err(garbled("it has neither a result nor an error, or both")),
    }
}

#[derive(Deserialize)]
struct RpcErrorObject {
    code: i64,
    message: String,
    #[serde(default)]
    data: Value,
}

/// Returns true if the socket may accept later: its file is missing, nothing listens yet, or its backlog is
/// full.
fn is_retryable(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
}

fn unreachable_reason(exists: bool, cause: &std::io::Error) -> String {
    match (cause.kind(), exists) {
        (ErrorKind::NotFound, false) => "there is no such socket".to_owned(),
        (ErrorKind::ConnectionRefused, true) => "nothing listens on it".to_owned(),
        _ => cause.to_string(),
    }
}
