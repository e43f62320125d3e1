//! JSON-RPC client for the command line: connects, sends one request at a time, and explains why a daemon
//! cannot be reached.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tool::strict_json;

use crate::budget::{self, MessageBudget};
use crate::error::pid_suffix;
use crate::frame::{LineFrame, LineReader};
use crate::home::SinewHome;
use crate::lock::{LockHolder, StateLock};
use crate::private_folder::own_uid;

const CONNECT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Socket of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonSocket {
    /// `agent.sock`, for tool calls.
    Agent,
    /// `control.sock`, for the operator.
    Control,
}

/// Connection to a daemon.
pub struct Client {
    lines: LineReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    request_count: u64,
}

/// Error of a client request.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon accepts connections on the socket.
    #[error("no daemon answers on `{}`: {}", .socket.display(), unreachable_reason(*.exists, *.holder, .cause))]
    Unreachable {
        /// Path of the socket.
        socket: PathBuf,
        /// True if the socket file exists.
        exists: bool,
        /// Process that holds the state lock.
        holder: LockHolder,
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
            ClientError::Unreachable { holder: LockHolder::NoProcess, .. } => {
                Some("start one with `sinew serve`".to_owned())
            }
            ClientError::Unreachable { holder: LockHolder::Process { pid: Some(pid) }, .. } => {
                Some(format!("it may be starting or stopping: try again, or check it with `ps -p {pid}`"))
            }
            ClientError::Unreachable { holder: LockHolder::Process { pid: None }, .. } => {
                Some("it may be starting or stopping: try again".to_owned())
            }
            ClientError::Closed(_) => Some("`sinew status` shows whether it is running".to_owned()),
            ClientError::ForeignUser { .. } => Some("set SINEW_HOME to a folder of your own".to_owned()),
            ClientError::Rpc { .. } | ClientError::InvalidReply(_) => None,
        }
    }
}

impl Client {
    /// Connects. Retries until `max_wait` has passed, so that a daemon that is just starting is reached.
    pub async fn connect(
        home: &SinewHome,
        socket: DaemonSocket,
        max_wait: Duration,
    ) -> Result<Self, ClientError> {
        let (read, write) = Self::connect_stream(home, socket, max_wait).await?.into_split();
        Ok(Client {
            lines: LineReader::new(read, budget::TOTAL_BYTES, MessageBudget::new()),
            write,
            request_count: 0,
        })
    }

    /// Like `connect`, but returns the raw stream for callers that implement the protocol themselves. The
    /// peer is verified to be a daemon of this user.
    pub async fn connect_stream(
        home: &SinewHome,
        socket: DaemonSocket,
        max_wait: Duration,
    ) -> Result<UnixStream, ClientError> {
        let path = match socket {
            DaemonSocket::Agent => home.agent_socket(),
            DaemonSocket::Control => home.control_socket(),
        };
        let started = Instant::now();
        loop {
            match UnixStream::connect(&path).await {
                Ok(stream) => return check_peer_uid(stream, path),
                Err(cause) if is_retryable(&cause) && started.elapsed() < max_wait => {
                    tokio::time::sleep(CONNECT_RETRY_INTERVAL.min(max_wait)).await;
                }
                Err(cause) => {
                    let (exists, holder) = (path.exists(), StateLock::holder(home));
                    return Err(ClientError::Unreachable { socket: path, exists, holder, cause });
                }
            }
        }
    }

    /// Sends one request and waits for its reply without a timeout.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.request_count += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.request_count, "method": method, "params": params});
        // A daemon that closes the connection often sends the reason first, which says more than the write
        // error.
        let written = self.write.write_all(format!("{request}\n").as_bytes()).await;
        loop {
            let answer = match self.lines.next().await {
                Ok(LineFrame::Line(line)) => strict_json::parse(line.text)
                    .map_err(|error| ClientError::InvalidReply(error.to_string()))?,
                Ok(LineFrame::End) => return Err(ClientError::Closed(written.err())),
                Ok(LineFrame::NotUtf8(_)) => {
                    return Err(ClientError::InvalidReply("it is not UTF-8".to_owned()));
                }
                Ok(LineFrame::TooLong(_)) => {
                    return Err(ClientError::InvalidReply("the line is too long".to_owned()));
                }
                Ok(LineFrame::Unusable(why, _)) => {
                    return Err(ClientError::InvalidReply(format!("the line is unusable ({why:?})")));
                }
                Err(error) => return Err(ClientError::Closed(Some(error))),
            };
            // An error without an id concerns the whole connection, and therefore this request too.
            if answer.get("id").is_none_or(|id| id.is_null() || *id == self.request_count) {
                return parse_response(answer);
            }
        }
    }
}

fn check_peer_uid(stream: UnixStream, socket: PathBuf) -> Result<UnixStream, ClientError> {
    let served_by = stream.peer_cred().map_err(|error| ClientError::Closed(Some(error)))?;
    match served_by.uid() {
        uid if uid == own_uid() => Ok(stream),
        uid => Err(ClientError::ForeignUser { socket, uid }),
    }
}

fn parse_response(mut answer: Value) -> Result<Value, ClientError> {
    let garbled = |what: &str| ClientError::InvalidReply(what.to_owned());
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

fn unreachable_reason(exists: bool, holder: LockHolder, cause: &std::io::Error) -> String {
    let socket = match (cause.kind(), exists) {
        (ErrorKind::NotFound, false) => "there is no such socket".to_owned(),
        (ErrorKind::ConnectionRefused, true) => "nothing listens on it".to_owned(),
        _ => cause.to_string(),
    };
    match holder {
        LockHolder::NoProcess => format!("{socket}, and no daemon is running"),
        LockHolder::Process { pid } => {
            format!("{socket}, but a process{} holds the state lock", pid_suffix(pid))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::listener::SharedListenerState;
    use crate::settings::ConnectionLimits;
    use crate::tests::daemon::{daemon_at, limits};

    fn home() -> (tempfile::TempDir, SinewHome) {
        let folder = tempfile::tempdir().unwrap();
        let home = SinewHome::from_root(folder.path()).unwrap();
        home.prepare().unwrap();
        (folder, home)
    }

    /// Returns the message and the hint of a connection attempt that must fail.
    async fn unreachable(home: &SinewHome) -> (String, String) {
        let error = Client::connect(home, DaemonSocket::Agent, Duration::ZERO).await.err().unwrap();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        (error.to_string(), error.hint().unwrap())
    }

    #[tokio::test]
    async fn missing_daemon_is_explained() {
        let (_folder, home) = home();
        let check = |(message, hint): (String, String), message_text: &str, advises: &str| {
            assert!(message.contains(&home.agent_socket().display().to_string()), "{message}");
            assert!(message.ends_with(message_text), "{message}");
            assert!(hint.contains(advises), "{hint}");
        };
        let start = "`sinew serve`";
        check(unreachable(&home).await, "there is no such socket, and no daemon is running", start);
        drop(UnixListener::bind(home.agent_socket()).unwrap());
        check(unreachable(&home).await, "nothing listens on it, and no daemon is running", start);
        let _lock = StateLock::acquire(&home).unwrap();
        let holds = format!("but a process (pid {}) holds the state lock", std::process::id());
        check(unreachable(&home).await, &holds, &format!("ps -p {}", std::process::id()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn client_waits_for_a_starting_daemon() {
        let (_folder, home) = home();
        let path = home.control_socket();
        let starting = std::thread::spawn(move || {
            std::thread::sleep(CONNECT_RETRY_INTERVAL * 3);
            daemon_at(SharedListenerState::new(limits()), path)
        });
        let mut client =
            Client::connect(&home, DaemonSocket::Control, Duration::from_secs(10)).await.unwrap();
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
        assert!(matches!(error, ClientError::Closed(_)), "{error}");
        drop(client);
        std::thread::spawn(move || drop(daemon)).join().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn busy_error_of_a_full_daemon_reaches_the_client() {
        let (_folder, home) = home();
        let path = home.agent_socket();
        let sockets = SharedListenerState::new(ConnectionLimits { max_connections: 1, ..limits() });
        let daemon = std::thread::spawn(move || daemon_at(sockets, path)).join().unwrap();
        let mut first = Client::connect(&home, DaemonSocket::Agent, Duration::ZERO).await.unwrap();
        first.request("echo", json!({})).await.unwrap();
        let mut second = Client::connect(&home, DaemonSocket::Agent, Duration::ZERO).await.unwrap();
        let error = second.request("echo", json!({})).await.unwrap_err();
        assert!(matches!(&error, ClientError::Rpc { data, .. } if data["code"] == "busy"), "{error}");
        std::thread::spawn(move || drop(daemon)).join().unwrap();
    }
}
