//! Life cycle of the daemon: binds the sockets, serves, and stops in order. The methods are in `agent.rs` and
//! `control.rs`.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use execution::ToolExecutionLayer;
use nix::sys::resource::{Resource, getrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::activation::Inherited;
use crate::agent::{self, Agent};
use crate::control::{self, Control};
use crate::desktop;
use crate::error::ServeError;
use crate::home::Home;
use crate::listener::{Door, Hall, Listener};
use crate::lock::StateLock;
use crate::reload::{Following, Reloader, give_back_of_start};
use crate::settings::{Limits, Settings};
use crate::socket::BoundSocket;
use crate::worker::{self, Workers};

/// Connections of the control socket. They are counted separately, so that agents cannot use them up.
const CONTROL_CONNECTIONS: usize = 16;
/// Limits that keep control connections available, so that `sinew lockdown` always gets one: an idle
/// connection is closed, and only half of the connections may have subscriptions.
const CONTROL_DOOR: Door = Door {
    max_connections: CONTROL_CONNECTIONS,
    max_followers: CONTROL_CONNECTIONS / 2,
    idle: Some(Duration::from_secs(30)),
};
/// Delay before another attempt to bind a socket.
const BETWEEN_BINDS: Duration = Duration::from_secs(5);
/// Time for sending the last replies after the calls have ended.
const FLUSH: Duration = Duration::from_secs(2);

/// Handle that stops a daemon in this process. Clones stop the same daemon.
#[derive(Clone, Debug, Default)]
pub struct Stop(CancellationToken);

impl Stop {
    /// Requests the stop; a second request has no effect.
    pub fn request(&self) {
        self.0.cancel();
    }

    /// Returns true if a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Result of a stopped daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Every call had ended.
    Drained,
    /// The drain timeout passed; the ledger records these calls as started but not ended.
    CutShort {
        /// Number of calls that were still running.
        running: usize,
    },
    /// A second signal forced an immediate stop.
    Forced,
}

/// Serves until a signal, `control/shutdown` or `stop` requests a stop. The lock proves that this process
/// owns the state; its holder must close the ledger before it releases the lock.
pub async fn serve(
    layer: Arc<ToolExecutionLayer>,
    home: &Home,
    settings: &Settings,
    lock: &StateLock,
    Following { source, watch, held }: Following,
    stop: Stop,
) -> Result<Exit, ServeError> {
    let mut signals = Signals::listen().map_err(ServeError::Signals)?;
    let hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let reloader = Arc::new(Reloader::new(Arc::clone(&layer), source, settings));
    let limits = within_descriptors(settings.limits);
    let paths = [home.agent_socket(), home.control_socket()];
    let [agent_path, control_path] = &paths;
    // Before any socket is bound, so that clients find no worker sockets of an earlier daemon.
    worker::sweep(home.run());
    // The agent socket is bound last: a client that can connect to it can connect to the control socket too.
    let mut inherited = Inherited::from_manager();
    let mut control_socket = BoundSocket::open(control_path, &mut inherited, lock).await?;
    let mut agent_socket = BoundSocket::open(agent_path, &mut inherited, lock).await?;
    let hall = Hall::new(limits);
    let workers = Workers::new(Arc::clone(&layer), hall.clone(), home.run(), descriptors());
    let agent =
        agent::service(Agent { layer: Arc::clone(&layer), limits, workers: Arc::downgrade(&workers) });
    let control = control::service(Control {
        layer: Arc::clone(&layer),
        reloader: Arc::clone(&reloader),
        limits,
        sockets: paths.clone(),
        connections: hall.connections.clone(),
        workers: Arc::clone(&workers),
        stop: stop.clone(),
    });
    let agent = Listener::new(agent, hall.clone(), agents_door(limits));
    let control = Listener::new(control, hall.clone(), CONTROL_DOOR);
    tracing::info!(socket = %agent_path.display(), max_connections = limits.max_connections, "serving");
    tokio::select! {
        () = signals.told_to_stop(&stop) => {}
        never = attend(&agent, &mut agent_socket, (agent_path, lock)) => match never {},
        never = attend(&control, &mut control_socket, (control_path, lock)) => match never {},
        never = layer.watch(home.state()) => match never {},
        never = desktop::tell_of_questions(&layer, &settings.approvals.notify) => match never {},
        never = reloader.follow((watch, held), hangup) => match never {},
        never = give_back_of_start() => match never {},
    }
    // New clients find no socket, instead of a connection that is never served.
    drop((agent_socket, control_socket));
    let exit = wind_down(&layer, &hall, &mut signals).await;
    workers.close_all();
    tracing::info!(?exit, "stopped");
    Ok(exit)
}

/// Accepts connections, and binds the socket again if its file was removed. Open connections are kept.
async fn attend<C: Send + Sync>(
    door: &Listener<C>,
    socket: &mut BoundSocket,
    (path, lock): (&Path, &StateLock),
) -> Infallible {
    loop {
        tokio::select! {
            never = door.run(socket.listener()) => match never {},
            () = socket.vanished() => {}
        }
        match BoundSocket::bind(path, lock).await {
            Ok(another) => {
                tracing::warn!(path = %path.display(), "socket_bound_again");
                *socket = another;
            }
            Err(error) => {
                tracing::error!(%error, "socket_not_bound_again");
                tokio::time::sleep(BETWEEN_BINDS).await;
            }
        }
    }
}

/// Limits of the agent socket: no idle timeout, because an agent may be silent while its model works, and
/// every connection may subscribe to the list of tools.
fn agents_door(limits: Limits) -> Door {
    let max_connections = limits.max_connections;
    Door { max_connections, max_followers: max_connections, idle: None }
}

/// Waits for the calls to end, then closes the connections. The execution layer refuses and records calls
/// that still arrive.
async fn wind_down(layer: &ToolExecutionLayer, hall: &Hall, signals: &mut Signals) -> Exit {
    let orderly = async {
        let running = layer.drain(hall.limits.drain).await;
        hall.stop.cancel();
        hall.connections.close();
        let _ = tokio::time::timeout(FLUSH, hall.connections.wait()).await;
        if running == 0 { Exit::Drained } else { Exit::CutShort { running } }
    };
    tokio::select! {
        exit = orderly => exit,
        () = signals.told_again() => Exit::Forced,
    }
}

/// Reduces the connection limit so that half of the file descriptors remain for tools, the ledger and the
/// daemon.
fn within_descriptors(limits: Limits) -> Limits {
    let max_connections = limits.max_connections.min(affordable(descriptors()));
    Limits { max_connections, ..limits }
}

fn descriptors() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(256, |(soft, _)| soft)
}

fn affordable(descriptors: u64) -> usize {
    let half = usize::try_from(descriptors / 2).unwrap_or(usize::MAX);
    half.saturating_sub(CONTROL_CONNECTIONS).max(1)
}

/// Signals that stop the daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn told_to_stop(&mut self, stop: &Stop) {
        tokio::select! {
            () = stop.0.cancelled() => tracing::info!("stopping"),
            () = self.next() => stop.request(),
        }
    }

    /// Waits for a signal after the stop began. If `control/shutdown` caused the stop, the first signal
    /// forces it.
    async fn told_again(&mut self) {
        self.next().await;
    }

    /// Waits for the next SIGTERM or SIGINT.
    async fn next(&mut self) {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        };
        tracing::info!(signal = name, "stopping");
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::UnixStream;

    use super::*;
    use crate::tests::daemon::{Desk, limits, listener};

    /// Asserts that a request on this path gets a reply.
    async fn must_answer(path: &Path) {
        let mut stream = BufReader::new(UnixStream::connect(path).await.unwrap());
        stream
            .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"echo\",\"params\":{}}\n")
            .await
            .unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.contains("\"result\""), "{line}");
    }

    #[tokio::test(start_paused = true)]
    async fn removed_socket_file_is_bound_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(folder.path()).unwrap();
        home.prepare().unwrap();
        let lock = StateLock::acquire(&home).unwrap();
        let path = home.agent_socket();
        let mut socket = BoundSocket::bind(&path, &lock).await.unwrap();
        let door = listener(agents_door(limits()), Hall::new(limits()), Desk::default());
        let removed = async {
            must_answer(&path).await;
            let mut inside = UnixStream::connect(&path).await.unwrap();
            for _ in 0..2 {
                std::fs::remove_file(&path).unwrap();
                while !path.exists() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                must_answer(&path).await;
            }
            inside.write_all(b"{}\n").await.expect("open connections are kept");
        };
        tokio::select! {
            never = attend(&door, &mut socket, (&path, &lock)) => match never {},
            found = tokio::time::timeout(Duration::from_secs(90), removed) => found.expect("it is bound again"),
        }
    }

    #[test]
    fn connections_leave_descriptors_for_tools() {
        for (descriptors, expect) in [(64, 16), (256, 112), (1024, 496), (0, 1), (u64::MAX, usize::MAX / 2)] {
            let afforded = affordable(descriptors);
            assert!(afforded.abs_diff(expect) <= CONTROL_CONNECTIONS, "{descriptors}: {afforded}");
            assert!(afforded >= 1);
        }
    }
}
