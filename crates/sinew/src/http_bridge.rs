//! Bridge between MCP over streamable HTTP on a loopback address and the daemon's agent socket.
//!
//! It runs in the process of `sinew mcp --http`, so the daemon itself never listens on a network. Every
//! session has a process of its own, by which the daemon knows it, and every stateless request has its own
//! connection. When a connection to the daemon ends, the calls on it end too.

mod access;
mod connection_pool;
mod daemon_connection;
mod endpoint;
mod event_log;
mod message;
mod reply;
mod session;
mod sessions;
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

use crate::bridge::DaemonStartup;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_result_line, print_warning};

use access::AccessRules;
use daemon_connection::DaemonConnector;
use endpoint::Endpoint;

pub(crate) use access::single;
pub(crate) use connection_pool::{ConnectionPlace, ConnectionPool};
pub(crate) use reply::ReplyBody;

/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after a failed `accept`, for example if all descriptors are in use.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Options of the bridge.
#[derive(Clone, Copy)]
pub(crate) struct HttpOptions<'a> {
    /// File with the bearer token, if it is not the default one.
    pub(crate) token_file: Option<&'a Path>,
    /// Time after which an unused session ends.
    pub(crate) session_timeout: Duration,
}

/// Serves until the process is stopped.
pub(crate) fn run(
    context: CommandContext,
    daemons: DaemonStartup,
    address: SocketAddr,
    options: HttpOptions<'_>,
) -> Result<ExitKind, CommandError> {
    // The names that `access.rs` accepts as `Host`.
    if ![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
        let message = format!("`{address}` is not a loopback address: other machines could connect");
        return Err(CommandError::new(ExitKind::Usage, message)
            .with_hint("use 127.0.0.1:PORT or [::1]:PORT; for a container, mount the agent socket"));
    }
    let default = context.home().run_dir().join(token_file::DEFAULT_NAME);
    let token_file = options.token_file.unwrap_or(&default);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| CommandError::failed(error.to_string()))?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.map_err(|error| {
            CommandError::failed(format!("cannot listen on `{address}`: {error}"))
                .with_hint("use another port, or 0 for any free one")
        })?;
        let bound = listener.local_addr().map_err(|error| CommandError::failed(error.to_string()))?;
        let connector = DaemonConnector::new(context, daemons);
        // Reports a daemon that cannot be reached before a client connects.
        drop(connector.connect().await?);
        // The daemon has created the folder of the default file by now.
        let token = token_file::read_or_create(token_file)?;
        let access = AccessRules::new(bound.port(), &token);
        let endpoint = Arc::new(Endpoint::new(access, connector, options.session_timeout));
        print_result_line(format!("http://{bound}/mcp (bearer token in {})", token_file.display()))?;
        tokio::select! {
            never = accept_connections(&listener, &endpoint) => never,
            never = endpoint.end_idle_sessions() => never,
        }
    })
}

async fn accept_connections(listener: &TcpListener, endpoint: &Arc<Endpoint>) -> ! {
    let pool = ConnectionPool::default();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                print_warning(format!("a connection was not accepted: {error}"));
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let (endpoint, place) = (Arc::clone(endpoint), pool.admit());
        tokio::spawn(async move {
            tokio::select! {
                () = place.evicted() => {}
                () = serve_connection(stream, endpoint, Arc::clone(&place)) => {}
            }
        });
    }
}

async fn serve_connection(stream: TcpStream, endpoint: Arc<Endpoint>, place: Arc<ConnectionPlace>) {
    let service = service_fn(move |request| {
        let (endpoint, place) = (Arc::clone(&endpoint), Arc::clone(&place));
        async move { Ok::<_, Infallible>(endpoint.handle(request, &place).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // A client that breaks the protocol or disconnects is not an error of the bridge.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}
