//! Connection to the daemon: one at a time, reconnected when it breaks.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use server::{Client, Socket};

use super::Daemons;
use crate::exit::{Exit, Problem};
use crate::setting::Setting;
use crate::start;

/// Timeout for a restarting daemon. A restart by a service manager takes a fraction of it.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(50);

pub(super) struct Link {
    setting: Setting,
    daemons: Daemons,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Stream for the client's lines, while connected.
    way: Option<Arc<UnixStream>>,
    /// True once the client has closed its side.
    finished: bool,
}

impl Link {
    pub(super) fn new(setting: Setting, daemons: Daemons) -> Self {
        Link { setting, daemons, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Connects to a daemon. Starts one or waits for one if none answers.
    pub(super) fn connect(&self, patience: Duration) -> Result<UnixStream, Problem> {
        let deadline = Instant::now() + patience;
        loop {
            let failed = match self.dial() {
                Ok(connection) => return Ok(connection),
                Err(error) => error,
            };
            if self.daemons == Daemons::Started && !self.setting.is_held() {
                start::daemon(&self.setting)?;
            } else if Instant::now() >= deadline {
                return Err(failed);
            }
            std::thread::sleep(BETWEEN_ATTEMPTS);
        }
    }

    fn dial(&self) -> Result<UnixStream, Problem> {
        let runtime = self.setting.runtime()?;
        let dialled = runtime.block_on(Client::dial(self.setting.home(), Socket::Agent, Duration::ZERO));
        let connection = dialled.map_err(|error| self.setting.unanswered(&error))?;
        let blocking =
            connection.into_std().and_then(|stream| stream.set_nonblocking(false).map(|()| stream));
        blocking.map_err(|error| Problem::new(Exit::Unreachable, error.to_string()))
    }

    /// Makes this connection available to `stream`.
    pub(super) fn is_up(&self, connection: &UnixStream) {
        let mut state = self.lock();
        state.way = connection.try_clone().ok().map(Arc::new);
        if state.finished {
            hang_up(&state);
        }
        self.changed.notify_all();
    }

    pub(super) fn is_down(&self) {
        self.lock().way = None;
    }

    /// Waits for a connection and returns its stream.
    pub(super) fn way(&self) -> Arc<UnixStream> {
        let mut state = self.lock();
        loop {
            if let Some(way) = &state.way {
                return Arc::clone(way);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the sending side; responses to requests already sent still arrive.
    pub(super) fn finish(&self) {
        let mut state = self.lock();
        state.finished = true;
        hang_up(&state);
    }

    pub(super) fn is_finished(&self) -> bool {
        self.lock().finished
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent after every statement, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hang_up(state: &State) {
    if let Some(way) = &state.way {
        let _ = way.shutdown(Shutdown::Write);
    }
}
