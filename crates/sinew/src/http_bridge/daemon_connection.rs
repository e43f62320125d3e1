//! Connections to the daemon, one per session or stateless request.

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
pub(super) struct DaemonConnector(Arc<DaemonLink>);

/// Connection to the daemon. Dropping both halves ends the calls on it.
pub(super) struct DaemonConnection {
    pub(super) lines: Lines<BufReader<OwnedReadHalf>>,
    pub(super) write: OwnedWriteHalf,
}

impl DaemonConnector {
    pub(super) fn new(setting: CommandContext, daemons: DaemonStartup) -> Self {
        DaemonConnector(Arc::new(DaemonLink::new(setting, daemons)))
    }

    pub(super) async fn connect(&self) -> Result<DaemonConnection, CommandError> {
        let link = Arc::clone(&self.0);
        let unreachable = |error: String| CommandError::new(ExitKind::Unreachable, error);
        let connected = tokio::task::spawn_blocking(move || link.connect(CONNECT_TIMEOUT)).await;
        let stream = connected.map_err(|error| unreachable(error.to_string()))??;
        let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
        let (read, write) = stream.map_err(|error| unreachable(error.to_string()))?.into_split();
        Ok(DaemonConnection { lines: BufReader::new(read).lines(), write })
    }
}

/// Sends one message.
pub(super) async fn send_line(write: &mut OwnedWriteHalf, message: &str) -> std::io::Result<()> {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend_from_slice(message.as_bytes());
    line.push(b'\n');
    write.write_all(&line).await
}
