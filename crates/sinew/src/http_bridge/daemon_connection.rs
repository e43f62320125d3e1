//! Connections to the daemon: one per stateless request, and a process with one per session.
//!
//! The daemon counts limits and suspends callers by process, which the kernel reports. A session therefore has a
//! process of its own, `sinew mcp`, so that clients of one bridge are as separate as clients that each start it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::bridge::{DaemonLink, DaemonStartup};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};

/// Time for a daemon to become reachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Opens connections, and starts a daemon if none runs.
#[derive(Clone)]
pub(super) struct DaemonConnector {
    link: Arc<DaemonLink>,
    startup: DaemonStartup,
}

/// Connection to the daemon. Dropping it ends the calls on it.
pub(super) struct DaemonConnection {
    pub(super) lines: Lines<BufReader<OwnedReadHalf>>,
    pub(super) write: OwnedWriteHalf,
    /// Process between the bridge and the daemon, if it is the connection of a session.
    pub(super) process: Option<SessionProcess>,
}

/// Process of a session, killed when dropped.
pub(super) struct SessionProcess(Child);

impl Drop for SessionProcess {
    fn drop(&mut self) {
        // A killed process ends at once. Waiting for it leaves no zombie.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl DaemonConnection {
    pub(super) fn from_stream(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        DaemonConnection { lines: BufReader::new(read).lines(), write, process: None }
    }
}

impl DaemonConnector {
    pub(super) fn new(context: CommandContext, daemons: DaemonStartup) -> Self {
        DaemonConnector { link: Arc::new(DaemonLink::new(context, daemons)), startup: daemons }
    }

    pub(super) async fn connect(&self) -> Result<DaemonConnection, CommandError> {
        let link = Arc::clone(&self.link);
        let unreachable = |error: String| CommandError::new(ExitKind::Unreachable, error);
        let connected = tokio::task::spawn_blocking(move || link.connect(CONNECT_TIMEOUT)).await;
        let stream = connected.map_err(|error| unreachable(error.to_string()))??;
        let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
        Ok(DaemonConnection::from_stream(stream.map_err(|error| unreachable(error.to_string()))?))
    }

    /// Connects by a process of its own.
    pub(super) async fn connect_session(&self) -> Result<DaemonConnection, CommandError> {
        // Starts a missing daemon, and reports one that cannot be reached.
        drop(self.connect().await?);
        let failed =
            |error: io::Error| CommandError::failed(format!("the session cannot be started: {error}"));
        let (ours, theirs) = StdUnixStream::pair().map_err(failed)?;
        let mut command = Command::new(sandbox::own_program().map_err(failed)?);
        command.arg0("sinew").arg("mcp");
        if self.startup == DaemonStartup::WaitForDaemon {
            command.arg("--no-start");
        }
        command.stdin(OwnedFd::from(theirs.try_clone().map_err(failed)?)).stdout(OwnedFd::from(theirs));
        let process = SessionProcess(command.spawn().map_err(failed)?);
        // The command keeps the other end open, which would hide the end of the process.
        drop(command);
        ours.set_nonblocking(true).map_err(failed)?;
        let stream = UnixStream::from_std(ours).map_err(failed)?;
        Ok(DaemonConnection { process: Some(process), ..DaemonConnection::from_stream(stream) })
    }
}

/// Sends one message.
pub(super) async fn send_line(write: &mut OwnedWriteHalf, message: &str) -> std::io::Result<()> {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message.as_bytes());
    line.push(b'\n');
    write.write_all(&line).await
}
