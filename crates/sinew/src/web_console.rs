//! Web console of the operator: serves pages and a JSON interface on the loopback addresses of this machine.
//!
//! It runs in the process of `sinew console` and is a client of `control.sock`, so the daemon itself listens on no
//! network and parses no HTTP. It decides nothing: the daemon checks the PIN of every action that loosens.

mod access;
mod api;
mod assets;
mod browser;
mod endpoint;
mod feed;
mod link;
mod policy_files;
mod reply;
mod sessions;
mod subcommands;

use std::convert::Infallible;
use std::io::BufRead;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::http_bridge::{ConnectionPlace, ConnectionPool};
use crate::terminal::{print_message, print_result_line, print_warning};

use browser::RedirectFile;
use endpoint::Endpoint;
use feed::Feed;
use link::ControlLink;

/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay after a failed `accept`, for example if all descriptors are in use.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);
/// Attempts to find a port that is free on both loopback addresses.
const PORT_ATTEMPTS: usize = 16;

/// Options of the console.
pub(crate) struct ConsoleOptions {
    /// Open the page in the browser of the desktop.
    pub(crate) opens_browser: bool,
    /// Approval request to show first.
    pub(crate) request: Option<String>,
}

/// Serves until the process is stopped.
pub(crate) fn run(context: &CommandContext, options: ConsoleOptions) -> Result<ExitKind, CommandError> {
    let runtime = context.runtime()?;
    runtime.block_on(async {
        let (listeners, port) = bind_loopback().await?;
        let link = ControlLink::open(context.home().control_socket(), port).await;
        let link = Arc::new(link.map_err(|error| context.client_error(&error))?);
        let feed = Arc::new(Feed::new(Arc::clone(&link)));
        let endpoint =
            Endpoint::new(port, context.clone(), Arc::clone(&link), Arc::clone(&feed), options.request);
        let endpoint = Arc::new(endpoint);
        let redirect = announce(context, &endpoint, options.opens_browser)?;
        tokio::select! {
            never = accept_connections(listeners, Arc::clone(&endpoint)) => never,
            never = link.keep_open() => never,
            never = feed.keep_current() => never,
            never = print_links_on_request(&endpoint) => never,
            never = redirect.remove_later() => never,
            stopped = stop_signal() => stopped.map(|()| ExitKind::Done),
        }
    })
}

/// Waits for Ctrl+C or a request to end, so that the redirect file is removed.
async fn stop_signal() -> Result<(), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("signals cannot be received: {error}"));
    let mut ended = signal(SignalKind::terminate()).map_err(failed)?;
    tokio::select! {
        _ = ended.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted.map_err(failed),
    }
}

/// Prints the link, and opens it in a browser if that is wanted and possible.
fn announce(
    context: &CommandContext,
    endpoint: &Endpoint,
    opens_browser: bool,
) -> Result<RedirectFile, CommandError> {
    let link = endpoint.new_link();
    print_result_line(&link)?;
    print_message(
        "the link works once, within 60 s; press Enter for another one, Ctrl+C to close the console",
    );
    if !endpoint.pin_is_set() {
        print_message(
            "no operator PIN is set: the console shows everything and approves nothing (`sinew pin set`)",
        );
    }
    let redirect = RedirectFile::new(context.home().run_dir());
    if opens_browser && let Err(why) = redirect.open(&link) {
        print_warning(format!("no browser was opened ({why}): open the link yourself"));
    }
    Ok(redirect)
}

/// Binds a random port on both loopback addresses. If another program had the port on one of them, a browser could
/// send the code there.
async fn bind_loopback() -> Result<(Vec<TcpListener>, u16), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("cannot listen on 127.0.0.1: {error}"));
    for _ in 0..PORT_ATTEMPTS {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = first.local_addr().map_err(failed)?.port();
        match TcpListener::bind(SocketAddr::from((Ipv6Addr::LOCALHOST, port))).await {
            Ok(second) => return Ok((vec![first, second], port)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            // A machine without IPv6 has no second address on which another program could listen.
            Err(error) if error.kind() == std::io::ErrorKind::AddrNotAvailable => {
                return Ok((vec![first], port));
            }
            Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EAFNOSUPPORT as i32) => {
                return Ok((vec![first], port));
            }
            Err(error) => {
                return Err(CommandError::failed(format!("cannot listen on ::1: {error}")));
            }
        }
    }
    Err(CommandError::failed("no port is free on both 127.0.0.1 and ::1").with_hint("try again"))
}

async fn accept_connections(listeners: Vec<TcpListener>, endpoint: Arc<Endpoint>) -> ! {
    let pool = ConnectionPool::default();
    for listener in listeners {
        tokio::spawn(accept_on(listener, Arc::clone(&endpoint), pool.clone()));
    }
    std::future::pending().await
}

async fn accept_on(listener: TcpListener, endpoint: Arc<Endpoint>, pool: ConnectionPool) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                print_warning(format!("a connection was not accepted: {error}"));
                tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            }
        };
        let (endpoint, place) = (Arc::clone(&endpoint), pool.admit());
        tokio::spawn(async move {
            tokio::select! {
                () = place.evicted() => {}
                () = serve_connection(stream, endpoint, Arc::clone(&place)) => {}
            }
        });
    }
}

async fn serve_connection(stream: TcpStream, endpoint: Arc<Endpoint>, place: Arc<ConnectionPlace>) {
    // Events are small and must not wait for an acknowledgement.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let (endpoint, place) = (Arc::clone(&endpoint), Arc::clone(&place));
        async move { Ok::<_, Infallible>(endpoint.handle(request, &place).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // A client that breaks the protocol or disconnects is not an error of the console.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

/// Prints a new link for each line on standard input.
async fn print_links_on_request(endpoint: &Endpoint) -> ! {
    let (sender, mut lines) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            if line.is_err() || sender.blocking_send(()).is_err() {
                return;
            }
        }
    });
    while lines.recv().await.is_some() {
        if print_result_line(endpoint.new_link()).is_err() {
            break;
        }
    }
    std::future::pending().await
}
