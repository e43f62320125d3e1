//! Life cycle of the daemon: binds the sockets, serves, and stops in order. The methods are in `agent.rs` and
//! `control.rs`.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use execution::ToolExecutionLayer;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::activation::InheritedSockets;
use crate::agent::{self, AgentContext};
use crate::control::{self, ControlContext};
use crate::descriptor_limit;
use crate::desktop_notifications;
use crate::error::ServeError;
use crate::hand_over::{ListeningSockets, StopHandle};
use crate::home::SinewHome;
use crate::listener::{ConnectionListener, ListenerLimits, RESERVED_FOR_NEW_CALLERS, SharedListenerState};
use crate::lock::StateLock;
use crate::mcp::task_table::TaskTable;
use crate::reload::{ConfigReloader, ReloadInputs, release_memory_after_start};
use crate::settings::{ConnectionLimits, Settings};
use crate::socket::BoundSocket;
use crate::worker_sockets::{self, WorkerSockets};

/// Connections of the control socket. They are counted separately, so that agents cannot use them up.
pub(crate) const MAX_CONTROL_CONNECTIONS: usize = 16;
/// Limits that keep control connections available, so that `sinew lockdown` always gets one: an idle
/// connection is closed, and only half of the connections may have subscriptions.
const CONTROL_LISTENER_LIMITS: ListenerLimits = ListenerLimits {
    max_connections: MAX_CONTROL_CONNECTIONS,
    max_followers: MAX_CONTROL_CONNECTIONS / 2,
    idle_timeout: Some(Duration::from_secs(30)),
};
/// Delay before another attempt to bind a socket.
const REBIND_INTERVAL: Duration = Duration::from_secs(5);
/// Time for sending the last replies after the calls have ended.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Result of a stopped daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServeExit {
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

/// Outcome of `serve`.
#[derive(Debug)]
pub struct Served {
    /// Result of the stop.
    pub exit: ServeExit,
    /// Sockets for the program that replaces this one, if a restart was requested.
    pub sockets: Option<ListeningSockets>,
}

/// Serves until a signal, `control/shutdown`, `control/restart` or `stop` requests a stop. The lock proves that this process
/// owns the state; its holder must close the ledger before it releases the lock.
pub async fn serve(
    layer: Arc<ToolExecutionLayer>,
    home: &SinewHome,
    settings: &Settings,
    lock: &StateLock,
    ReloadInputs { loader: source, watch, initial: held }: ReloadInputs,
    stop: StopHandle,
) -> Result<Served, ServeError> {
    let mut signals = StopSignals::listen().map_err(ServeError::Signals)?;
    let hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    let reloader = Arc::new(ConfigReloader::new(Arc::clone(&layer), source, settings));
    descriptor_limit::raise();
    let limits = descriptor_limit::limit_connections(settings.limits, descriptor_limit::current());
    let paths = [home.agent_socket(), home.control_socket()];
    let [agent_path, control_path] = &paths;
    // Before any socket is bound, so that clients find no worker sockets of an earlier daemon.
    worker_sockets::remove_stale_sockets(home.run_dir());
    // The agent socket is bound last: a client that can connect to it can connect to the control socket too.
    let mut inherited = InheritedSockets::from_environment();
    let mut control_socket = BoundSocket::inherit_or_bind(control_path, &mut inherited, lock).await?;
    let mut agent_socket = BoundSocket::inherit_or_bind(agent_path, &mut inherited, lock).await?;
    let worker_sockets = SharedListenerState::new(limits);
    let workers = WorkerSockets::new(
        Arc::clone(&layer),
        worker_sockets.clone(),
        home.run_dir(),
        descriptor_limit::current(),
    );
    let agent = agent::service(AgentContext {
        layer: Arc::clone(&layer),
        limits,
        tool_lists: Default::default(),
        worker_sockets: Arc::downgrade(&workers),
        tasks: TaskTable::default(),
    });
    let control = control::service(ControlContext {
        layer: Arc::clone(&layer),
        reloader: Arc::clone(&reloader),
        limits,
        sockets: paths.clone(),
        connections: worker_sockets.connections.clone(),
        clients: worker_sockets.clients.clone(),
        worker_sockets: Arc::clone(&workers),
        stop: stop.clone(),
    });
    let agent = ConnectionListener::new(agent, worker_sockets.clone(), agent_listener_limits(limits));
    let control = ConnectionListener::new(control, worker_sockets.clone(), CONTROL_LISTENER_LIMITS);
    tracing::info!(socket = %agent_path.display(), max_connections = limits.max_connections, "serving");
    tokio::select! {
        () = signals.wait_for_stop(&stop) => {}
        never = serve_socket(&agent, &mut agent_socket, (agent_path, lock)) => match never {},
        never = serve_socket(&control, &mut control_socket, (control_path, lock)) => match never {},
        never = layer.watch(home.state_dir()) => match never {},
        never = desktop_notifications::notify_of_approval_requests(&layer, &settings.approvals.notify) => match never {},
        never = reloader.reload_on_change((watch, held), hangup) => match never {},
        never = release_memory_after_start() => match never {},
    }
    // At a stop, new clients find no socket, instead of a connection that is never served. At a restart they wait in
    // the backlog.
    let sockets = ListeningSockets { agent: agent_socket, control: control_socket };
    let mut sockets = stop.is_restart().then_some(sockets);
    let exit = shut_down(&layer, &worker_sockets, &mut signals).await;
    workers.close_all();
    if exit == ServeExit::Forced {
        sockets = None;
    }
    tracing::info!(?exit, restart = sockets.is_some(), "stopped");
    Ok(Served { exit, sockets })
}

/// Accepts connections, and binds the socket again if its file was removed. Open connections are kept.
async fn serve_socket<C: Send + Sync>(
    endpoint: &ConnectionListener<C>,
    socket: &mut BoundSocket,
    (path, lock): (&Path, &StateLock),
) -> Infallible {
    loop {
        tokio::select! {
            never = endpoint.run(socket.listener()) => match never {},
            () = socket.wait_until_removed() => {}
        }
        match BoundSocket::bind(path, lock).await {
            Ok(another) => {
                tracing::warn!(path = %path.display(), "socket_bound_again");
                *socket = another;
            }
            Err(error) => {
                tracing::error!(%error, "socket_not_bound_again");
                tokio::time::sleep(REBIND_INTERVAL).await;
            }
        }
    }
}

/// Limits of the agent socket: no idle timeout, because an agent may be silent while its model works, and
/// every connection may subscribe to the list of tools, also those for callers without a connection.
fn agent_listener_limits(limits: ConnectionLimits) -> ListenerLimits {
    let max_connections = limits.max_connections;
    let max_followers = max_connections + RESERVED_FOR_NEW_CALLERS;
    ListenerLimits { max_connections, max_followers, idle_timeout: None }
}

/// Waits for the calls to end, then closes the connections. The execution layer refuses and records calls
/// that still arrive.
async fn shut_down(
    layer: &ToolExecutionLayer,
    sockets: &SharedListenerState,
    signals: &mut StopSignals,
) -> ServeExit {
    let orderly = async {
        let running = layer.drain(sockets.limits.drain_timeout).await;
        sockets.stop.cancel();
        sockets.connections.close();
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, sockets.connections.wait()).await;
        if running == 0 { ServeExit::Drained } else { ServeExit::CutShort { running } }
    };
    tokio::select! {
        exit = orderly => exit,
        () = signals.wait_for_second_signal() => ServeExit::Forced,
    }
}

/// Signals that stop the daemon.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn listen() -> std::io::Result<Self> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn wait_for_stop(&mut self, stop: &StopHandle) {
        tokio::select! {
            () = stop.requested() => tracing::info!("stopping"),
            () = self.next_signal() => stop.request(),
        }
    }

    /// Waits for a signal after the stop began. If `control/shutdown` caused the stop, the first signal
    /// forces it.
    async fn wait_for_second_signal(&mut self) {
        self.next_signal().await;
    }

    /// Waits for the next SIGTERM or SIGINT.
    async fn next_signal(&mut self) {
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
    use crate::tests::daemon::{TestServiceContext, limits, listener};

    /// Asserts that a request on this path gets a reply.
    async fn assert_replies(path: &Path) {
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
        let home = SinewHome::from_root(folder.path()).unwrap();
        home.prepare().unwrap();
        let lock = StateLock::acquire(&home).unwrap();
        let path = home.agent_socket();
        let mut socket = BoundSocket::bind(&path, &lock).await.unwrap();
        let endpoint = listener(
            agent_listener_limits(limits()),
            SharedListenerState::new(limits()),
            TestServiceContext::default(),
        );
        let removed = async {
            assert_replies(&path).await;
            let mut inside = UnixStream::connect(&path).await.unwrap();
            for _ in 0..2 {
                std::fs::remove_file(&path).unwrap();
                while !path.exists() {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                assert_replies(&path).await;
            }
            inside.write_all(b"{}\n").await.expect("open connections are kept");
        };
        tokio::select! {
            never = serve_socket(&endpoint, &mut socket, (&path, &lock)) => match never {},
            found = tokio::time::timeout(Duration::from_secs(90), removed) => found.expect("it is bound again"),
        }
    }
}
