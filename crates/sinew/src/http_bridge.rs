//! Bridge between MCP over streamable HTTP on a loopback address and the daemon's agent socket.
//!
//! It runs in the process of `sinew mcp --http`, so the daemon itself never listens on a network. Every
//! session and every stateless request has its own connection to the daemon, and a connection that ends, ends
//! the calls on it.

mod access;
mod daemon_connection;
mod endpoint;
mod event_log;
mod message;
mod reply;
mod session;
mod stateless;
mod token_file;

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::bridge::DaemonStartup;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_result_line, print_warning};

use access::AccessRules;
use daemon_connection::DaemonConnector;
use endpoint::Endpoint;

/// Maximum number of concurrent HTTP connections. Others wait in the backlog.
const MAX_CONNECTIONS: usize = 256;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after a failed `accept`, for example if all descriptors are in use.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves until the process is stopped.
pub(crate) fn run(
    setting: CommandContext,
    daemons: DaemonStartup,
    address: SocketAddr,
    token_file: Option<&Path>,
) -> Result<ExitKind, CommandError> {
    // The names that `access.rs` accepts as `Host`.
    if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
        let message = format!("`{address}` is not a loopback address: other machines could connect");
        return Err(CommandError::new(ExitKind::Usage, message)
            .with_hint("use 127.0.0.1:PORT or [::1]:PORT; for a container, mount the agent socket"));
    }
    let default = setting.home().run_dir().join(token_file::DEFAULT_NAME);
    let token_file = token_file.unwrap_or(&default);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(error.to_string()))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            CommandError::failed(format!("cannot listen on `{address}`: {error}"))
                .with_hint("use another port, or 0 for any free one")
        })?;
        let bound = listener.local_addr().map_err(|error| CommandError::failed(error.to_string()))?;
        let connector = DaemonConnector::new(setting, daemons);
        // Reports a daemon that cannot be reached before a client connects.
        drop(connector.connect().await?);
        // The daemon has created the folder of the default file by now.
        let token = token_file::read_or_create(token_file)?;
        let endpoint = Arc::new(Endpoint::new(AccessRules::new(bound.port(), &token), connector));
        print_result_line(format!("http://{bound}/mcp (bearer token in {})", token_file.display()))?;
        accept_connections(&listener, &endpoint).await
    })
}

async fn accept_connections(listener: &TcpListener, endpoint: &Arc<Endpoint>) -> ! {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await;
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                print_warning(format!("a connection was not accepted: {error}"));
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let endpoint = Arc::clone(endpoint);
        tokio::spawn(async move {
            serve_connection(stream, endpoint).await;
            drop(place);
        });
    }
}

async fn serve_connection(stream: TcpStream, endpoint: Arc<Endpoint>) {
    let service = service_fn(move |request| {
        let endpoint = Arc::clone(&endpoint);
        async move { Ok::<_, Infallible>(endpoint.handle(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // A client that breaks the protocol or disconnects is not an error of the bridge.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
