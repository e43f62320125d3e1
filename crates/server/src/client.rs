//! A small client for the command line: connects, asks one thing at a time, and says what is wrong when it cannot.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tool::strict_json;

use crate::budget::{self, Budget};
use crate::error::of_pid;
use crate::frame::{Frame, LineReader};
use crate::home::Home;
use crate::lock::{Holder, StateLock};
use crate::private_folder::own_uid;

const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

/// Which of a daemon's sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// Where tools are called.
    Agent,
    /// Where the daemon is controlled.
    Control,
}

/// A connection to a daemon.
pub struct Client {
    lines: LineReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    asked: u64,
}

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing answers on the socket.
    #[error("no daemon answers on `{}`: {}", .socket.display(), why(*.exists, *.holder, .cause))]
    Unreachable {
        /// The socket.
        socket: PathBuf,
        /// Whether it is there.
        exists: bool,
        /// Who owns the state.
        holder: Holder,
        /// What the system said.
        cause: std::io::Error,
    },
    /// Something answers that is not ours.
    #[error("`{}` is served by uid {uid}, not by this user", .socket.display())]
    Foreign {
        /// The socket.
        socket: PathBuf,
        /// Whose process it is.
        uid: u32,
    },
    /// The daemon answered with an error.
    #[error("{message}")]
    Answered {
        /// The JSON-RPC code.
        code: i64,
        /// The sentence.
        message: String,
        /// The facts; `code` in it is the word.
        data: Value,
    },
    /// The daemon went away before it had answered.
    #[error("the daemon closed the connection before it had answered{}", .0.as_ref().map(|e| format!(": {e}")).unwrap_or_default())]
    Closed(Option<std::io::Error>),
    /// What came back is not an answer.
    #[error("the daemon's answer cannot be read: {0}")]
    Garbled(String),
}

impl ClientError {
    /// What to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            ClientError::Unreachable { holder: Holder::Nobody, .. } => {
                Some("start one with `sinew serve`".to_owned())
            }
            ClientError::Unreachable { holder: Holder::Process { pid: Some(pid) }, .. } => {
                Some(format!("it may be starting or stopping: try again, or look at it with `ps -p {pid}`"))
            }
            ClientError::Unreachable { holder: Holder::Process { pid: None }, .. } => {
                Some("it may be starting or stopping: try again".to_owned())
            }
            ClientError::Closed(_) => Some("`sinew status` shows whether it is running".to_owned()),
            ClientError::Foreign { .. } => Some("set SINEW_HOME to a folder of your own".to_owned()),
            ClientError::Answered { .. } | ClientError::Garbled(_) => None,
        }
    }
}

impl Client {
    /// Connects. A daemon that is just starting is waited for, up to `patience`.
    pub async fn connect(home: &Home, socket: Socket, patience: Duration) -> Result<Self, ClientError> {
        let (read, write) = Self::dial(home, socket, patience).await?.into_split();
        Ok(Client { lines: LineReader::new(read, budget::TOTAL, Budget::new()), write, asked: 0 })
    }

    /// The same for one who speaks the protocol itself: the bare connection, with this user's daemon at its end.
    pub async fn dial(home: &Home, socket: Socket, patience: Duration) -> Result<UnixStream, ClientError> {
        let path = match socket {
            Socket::Agent => home.agent_socket(),
            Socket::Control => home.control_socket(),
        };
        let started = Instant::now();
        loop {
            match UnixStream::connect(&path).await {
                Ok(stream) => return ours(stream, path),
                Err(cause) if may_yet_come(&cause) && started.elapsed() < patience => {
                    tokio::time::sleep(BETWEEN_ATTEMPTS.min(patience)).await;
                }
                Err(cause) => {
                    let (exists, holder) = (path.exists(), StateLock::holder(home));
                    return Err(ClientError::Unreachable { socket: path, exists, holder, cause });
                }
            }
        }
    }

    /// Asks, and waits for the answer as long as it takes.
    pub async fn request(&mut self, method: &str, params: Value) -> Result<Value, ClientError> {
        self.asked += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.asked, "method": method, "params": params});
        // A daemon that closes the connection has often said why before: that is worth more than the write's error.
        let written = self.write.write_all(format!("{request}\n").as_bytes()).await;
        loop {
            let answer = match self.lines.next().await {
                Ok(Frame::Line(line)) => {
                    strict_json::parse(line.text).map_err(|error| ClientError::Garbled(error.to_string()))?
                }
                Ok(Frame::End) => return Err(ClientError::Closed(written.err())),
                Ok(Frame::NotUtf8) => return Err(ClientError::Garbled("it is not UTF-8".to_owned())),
                Ok(Frame::Unusable(why)) => return Err(ClientError::Garbled(format!("the line is {why:?}"))),
                Err(error) => return Err(ClientError::Closed(Some(error))),
            };
            // An error without an id is about the connection, and so about this request too.
            if answer.get("id").is_none_or(|id| id.is_null() || *id == self.asked) {
                return read_answer(answer);
            }
        }
    }
}

fn ours(stream: UnixStream, socket: PathBuf) -> Result<UnixStream, ClientError> {
    let served_by = stream.peer_cred().map_err(|error| ClientError::Closed(Some(error)))?;
    match served_by.uid() {
        uid if uid == own_uid() => Ok(stream),
        uid => Err(ClientError::Foreign { socket, uid }),
    }
}

fn read_answer(mut answer: Value) -> Result<Value, ClientError> {
    let garbled = |what: &str| ClientError::Garbled(what.to_owned());
    match (answer.get_mut("result").map(Value::take), answer.get_mut("error").map(Value::take)) {
        (Some(result), None) => Ok(result),
        (None, Some(error)) => {
            let error: Answered =
                serde_json::from_value(error).map_err(|_| garbled("the error has no shape"))?;
            Err(ClientError::Answered { code: error.code, message: error.message, data: error.data })
        }
        _ => Err(garbled("it is neither a result nor an error")),
    }
}

#[derive(Deserialize)]
struct Answered {
    code: i64,
    message: String,
    #[serde(default)]
    data: Value,
}

/// Not there yet, not listening yet, or more callers than it can take in at once.
fn may_yet_come(cause: &std::io::Error) -> bool {
    matches!(cause.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused | ErrorKind::WouldBlock)
}

fn why(exists: bool, holder: Holder, cause: &std::io::Error) -> String {
    let socket = match (cause.kind(), exists) {
        (ErrorKind::NotFound, false) => "there is no such socket".to_owned(),
        (ErrorKind::ConnectionRefused, true) => "nothing listens on it".to_owned(),
        _ => cause.to_string(),
    };
    match holder {
        Holder::Nobody => format!("{socket}, and no daemon is running"),
        Holder::Process { pid } => format!("{socket}, though a process{} holds the state", of_pid(pid)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::listener::Hall;
    use crate::settings::Limits;
    use crate::tests::daemon::{daemon_at, limits};

    fn home() -> (tempfile::TempDir, Home) {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        home.prepare().unwrap();
        (folder, home)
    }

    /// What a client says that does not get through, message and hint.
    async fn unreachable(home: &Home) -> (String, String) {
        let error = Client::connect(home, Socket::Agent, Duration::ZERO).await.err().unwrap();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
        (error.to_string(), error.hint().unwrap())
    }

    #[tokio::test]
    async fn nobody_there_is_explained() {
        let (_folder, home) = home();
        let check = |(message, hint): (String, String), says: &str, advises: &str| {
            assert!(message.contains(&home.agent_socket().display().to_string()), "{message}");
            assert!(message.ends_with(says), "{message}");
            assert!(hint.contains(advises), "{hint}");
        };
        let start = "`sinew serve`";
        check(unreachable(&home).await, "there is no such socket, and no daemon is running", start);
        drop(UnixListener::bind(home.agent_socket()).unwrap());
        check(unreachable(&home).await, "nothing listens on it, and no daemon is running", start);
        let _lock = StateLock::acquire(&home).unwrap();
        let holds = format!("though a process (pid {}) holds the state", std::process::id());
        check(unreachable(&home).await, &holds, &format!("ps -p {}", std::process::id()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_daemon_that_is_starting_is_waited_for() {
        let (_folder, home) = home();
        let path = home.control_socket();
        let starting = std::thread::spawn(move || {
            std::thread::sleep(BETWEEN_ATTEMPTS * 3);
            daemon_at(Hall::new(limits()), path)
        });
        let mut client = Client::connect(&home, Socket::Control, Duration::from_secs(10)).await.unwrap();
        assert_eq!(client.request("echo", json!({"say": 1})).await.unwrap(), 1);
        assert_eq!(client.request("echo", json!({"say": "é"})).await.unwrap(), "é");
        let error = client.request("ecoh", json!({})).await.unwrap_err();
        let ClientError::Answered { code, message, data } = error else { panic!("{error}") };
        assert_eq!((code, data["did_you_mean"].as_str()), (-32601, Some("echo")), "{message}");
        let large = client.request("large", json!({"bytes": limits().max_line_bytes - 100})).await.unwrap();
        assert_eq!(large.as_str().map(str::len), Some(limits().max_line_bytes - 100));
        let daemon = starting.join().unwrap();
        daemon.hall.stop.cancel();
        let error = client.request("wait", json!({})).await.unwrap_err();
        assert!(matches!(error, ClientError::Closed(_)), "{error}");
        drop(client);
        std::thread::spawn(move || drop(daemon)).join().unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_full_house_is_told_as_it_was_said() {
        let (_folder, home) = home();
        let path = home.agent_socket();
        let hall = Hall::new(Limits { max_connections: 1, ..limits() });
        let daemon = std::thread::spawn(move || daemon_at(hall, path)).join().unwrap();
        let mut first = Client::connect(&home, Socket::Agent, Duration::ZERO).await.unwrap();
        first.request("echo", json!({})).await.unwrap();
        let mut second = Client::connect(&home, Socket::Agent, Duration::ZERO).await.unwrap();
        let error = second.request("echo", json!({})).await.unwrap_err();
        assert!(matches!(&error, ClientError::Answered { data, .. } if data["code"] == "busy"), "{error}");
        std::thread::spawn(move || drop(daemon)).join().unwrap();
    }
}
