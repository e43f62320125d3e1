//! Connection to the daemon: one at a time, reconnected when it breaks.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use client::Client;

use super::DaemonStartup;
use crate::command_context::CommandContext;
use crate::daemon_start;
use crate::exit::{CommandError, ExitKind};

/// Timeout for a restarting daemon. A restart by a service manager takes a fraction of it.
pub(super) const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(50);

pub(crate) struct DaemonLink {
    context: CommandContext,
    startup: DaemonStartup,
    state: Mutex<LinkState>,
    changed: Condvar,
}

#[derive(Default)]
struct LinkState {
    /// Stream for the client's lines, while connected.
    stream: Option<Arc<UnixStream>>,
    /// Number of connections so far.
    connections: u64,
    /// True once the client has closed its side.
    finished: bool,
}

impl DaemonLink {
    pub(crate) fn new(context: CommandContext, daemons: DaemonStartup) -> Self {
        DaemonLink { context, startup: daemons, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Connects to a daemon. Starts one or waits for one if none answers, unless the client has left.
    pub(crate) fn connect(&self, timeout: Duration) -> Result<UnixStream, CommandError> {
        let deadline = Instant::now() + timeout;
        loop {
            let failed = match self.open_connection() {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if self.startup == DaemonStartup::StartIfMissing && !self.context.is_state_locked() {
                daemon_start::ensure_daemon(&self.context)?;
            } else if Instant::now() >= deadline || self.is_finished() {
                return Err(failed);
            }
            std::thread::sleep(RECONNECT_INTERVAL);
        }
    }

    fn open_connection(&self) -> Result<UnixStream, CommandError> {
        let runtime = self.context.runtime()?;
        let socket = self.context.home().agent_socket();
        let dialled = runtime.block_on(Client::connect_stream(&socket, Duration::ZERO));
        let connection = dialled.map_err(|error| self.context.client_error(&error))?;
        let blocking =
            connection.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
        blocking.map_err(|error| CommandError::new(ExitKind::Unreachable, error.to_string()))
    }

    /// Makes this connection available to `stream`.
    pub(super) fn set_connected(&self, connection: &UnixStream) {
        let mut state = self.lock();
        state.stream = connection.try_clone().ok().map(Arc::new);
        state.connections += 1;
        if state.finished {
            shutdown_write(&state);
        }
        self.changed.notify_all();
    }

    pub(super) fn set_disconnected(&self) {
        self.lock().stream = None;
    }

    /// Waits for a connection and returns its number and stream.
    pub(super) fn stream(&self) -> (u64, Arc<UnixStream>) {
        let mut state = self.lock();
        loop {
            if let Some(way) = &state.stream {
                return (state.connections, Arc::clone(way));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the connection with this number was replaced by another one.
    pub(super) fn wait_until_replaced(&self, number: u64) {
        let state = self.lock();
        let is_same = |state: &mut LinkState| state.connections == number;
        drop(self.changed.wait_while(state, is_same).unwrap_or_else(PoisonError::into_inner));
    }

    /// Returns true if the connection with this number is still open.
    pub(super) fn is_current(&self, number: u64) -> bool {
        let state = self.lock();
        state.connections == number && state.stream.is_some()
    }

    /// Closes the sending side; responses to requests already sent still arrive.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.finished = true;
        shutdown_write(&state);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    fn lock(&self) -> MutexGuard<'_, LinkState> {
        // The state is consistent after every statement, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shutdown_write(state: &LinkState) {
    if let Some(way) = &state.stream {
        let _ = way.shutdown(Shutdown::Write);
    }
}
