//! Errors of outbound requests. They name only the host of a URL: a query often contains a credential, and
//! errors are stored.

use std::error::Error;
use std::io;
use std::time::Duration;

use governance::Denial;
use tool::{Failure, FailureKind, Refusal};
use url::Url;

/// Reason why an outbound request failed.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// Policy denies the host or address.
    #[error("{}", .0.reason)]
    Denied(Box<Refusal>),
    /// The port is blocked, because a service other than HTTP may listen there.
    #[error("`{host}`: port {port} is blocked because it belongs to a service other than HTTP")]
    BlockedPort {
        /// The host.
        host: String,
        /// The port.
        port: u16,
    },
    /// The name has no address.
    #[error("`{host}` has no address: {cause}")]
    Unresolved {
        /// The name.
        host: String,
        /// Error of the resolver.
        cause: io::Error,
    },
    /// No address of the host accepts a connection.
    #[error("cannot connect to `{host}`: {cause}")]
    Unreachable {
        /// The host.
        host: String,
        /// Error of the last address.
        cause: String,
    },
    /// A gateway in front of the server could not reach it.
    #[error("`{host}` returned status {status}: its server is not available")]
    Unavailable {
        /// The host.
        host: String,
        /// 502, 503 or 504.
        status: u16,
        /// Pause that the host asks for.
        retry_after: Option<Duration>,
    },
    /// The TLS connection failed: the certificate is not valid for this host, or the server does not support
    /// TLS 1.2.
    #[error("TLS connection to `{host}` failed: {cause}")]
    TlsFailed {
        /// The host.
        host: String,
        /// Error of the TLS library.
        cause: String,
    },
    /// The response is not HTTP, or its headers exceed the limits.
    #[error("`{host}` did not send a valid HTTP response: {cause}")]
    InvalidResponse {
        /// The host.
        host: String,
        /// Error of the HTTP library.
        cause: String,
    },
    /// The limit of redirects was exceeded.
    #[error("too many redirects: `{host}` sent number {hops}")]
    TooManyRedirects {
        /// Host that sent the last redirect.
        host: String,
        /// Number of redirects.
        hops: usize,
    },
    /// The URL of a redirect cannot be parsed.
    #[error("`{host}` redirects to an invalid URL")]
    BadRedirect {
        /// The host.
        host: String,
    },
    /// The deadline passed.
    #[error("`{host}` did not respond in time")]
    TimedOut {
        /// The host.
        host: String,
    },
    /// The WebSocket handshake failed, so no message was sent.
    #[error("`{host}` did not open a WebSocket: {reason}")]
    WebSocketRefused {
        /// The host.
        host: String,
        /// Reason.
        reason: String,
    },
    /// The server violated the WebSocket protocol.
    #[error("`{host}` violated the WebSocket protocol: {reason}")]
    InvalidFrame {
        /// The host.
        host: String,
        /// Reason.
        reason: String,
    },
    /// The server sent more bytes over a WebSocket than were expected.
    #[error("`{host}` sent more than {limit} bytes over its WebSocket")]
    TooManyBytes {
        /// The host.
        host: String,
        /// Limit in bytes.
        limit: u64,
    },
    /// A header value is invalid.
    #[error("the header `{0}` cannot be sent")]
    InvalidHeader(&'static str),
    /// The header must not carry a key.
    #[error("this header is reserved and cannot be used for a key")]
    ReservedKeyHeader,
    /// The key belongs to another origin.
    #[error("the request to `{host}` was not sent: the key is configured for another origin")]
    KeyOriginMismatch {
        /// The host.
        host: String,
    },
    /// The key would be sent unencrypted over a network.
    #[error("nothing was sent to `{host}`: the key would be sent unencrypted")]
    KeyUnencrypted {
        /// The host.
        host: String,
    },
    /// The certificates of a file cannot be used.
    #[error("the certificates in `{file}` cannot be used: {cause}")]
    InvalidRoots {
        /// File named in the settings.
        file: String,
        /// Error of the file or of the TLS library.
        cause: String,
    },
}

impl OutboundError {
    /// Classifies an error of the HTTP client. Its own message contains the URL, so only its causes are kept.
    pub(crate) fn from_client(url: &Url, error: &reqwest::Error) -> Self {
        let host = url.host_str().unwrap_or_default().to_owned();
        if error.is_builder() {
            return OutboundError::InvalidHeader("request target");
        }
        if is_interrupted(error) {
            return OutboundError::Unreachable { host, cause: root_cause(error) };
        }
        if !error.is_connect() && !error.is_timeout() {
            return OutboundError::garbled(&host, error);
        }
        // An error of the TCP connection has the number of the operating system. The TLS client wraps its
        // errors, so that a reset during the handshake has none.
        let is_tcp = error.is_timeout()
            || causes(error)
                .filter_map(|cause| cause.downcast_ref::<io::Error>())
                .any(|cause| cause.raw_os_error().is_some());
        match url.scheme() == "https" && !is_tcp {
            true => OutboundError::TlsFailed { host, cause: root_cause(error) },
            false => OutboundError::Unreachable { host, cause: root_cause(error) },
        }
    }

    /// Returns the error for a response that is not valid HTTP.
    pub(crate) fn garbled(host: &str, error: &reqwest::Error) -> Self {
        OutboundError::InvalidResponse { host: host.to_owned(), cause: root_cause(error) }
    }
}

fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

/// Returns true if the peer reset an established connection.
fn is_interrupted(error: &reqwest::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
    let mut systems = causes(error).filter_map(|cause| cause.downcast_ref::<io::Error>());
    !error.is_connect()
        && systems.any(|cause| matches!(cause.kind(), ConnectionReset | ConnectionAborted | BrokenPipe))
}

fn root_cause(error: &reqwest::Error) -> String {
    causes(error).last().map_or_else(|| "the connection failed".to_owned(), ToString::to_string)
}

impl From<Denial> for OutboundError {
    fn from(denial: Denial) -> Self {
        OutboundError::Denied(denial.into())
    }
}

impl From<OutboundError> for Failure {
    fn from(error: OutboundError) -> Failure {
        let (kind, hint) = match error {
            OutboundError::Denied(refusal) => return Failure::denied(refusal),
            OutboundError::BlockedPort { .. } => (FailureKind::WrongKind, "use a port that serves HTTP"),
            OutboundError::Unresolved { .. } => (FailureKind::NotFound, "check the host name for typos"),
            OutboundError::Unreachable { .. } => (FailureKind::Transient, "try again later"),
            OutboundError::TlsFailed { .. } => (
                FailureKind::Unreadable,
                "this check cannot be disabled; to trust a private CA, set `web.ca_file` in sinew.yaml",
            ),
            OutboundError::InvalidResponse { .. } => {
                (FailureKind::Unreadable, "the host is not a working web server")
            }
            OutboundError::TooManyRedirects { .. } | OutboundError::BadRedirect { .. } => {
                (FailureKind::Unreadable, "request the final URL directly")
            }
            OutboundError::TimedOut { .. } => {
                let hint = "retry later, or use another source";
                return Failure::network_timeout(error.to_string()).with_hint(hint);
            }
            OutboundError::Unavailable { retry_after, .. } => {
                let failure = Failure::new(FailureKind::Transient, error.to_string());
                return Failure { retry_after, ..failure.with_hint("try again later") };
            }
            OutboundError::WebSocketRefused { .. } => {
                (FailureKind::Unreadable, "check that the address in its manifest is that of a WebSocket")
            }
            OutboundError::InvalidFrame { .. } => {
                (FailureKind::Unreadable, "the server does not implement this protocol correctly")
            }
            OutboundError::TooManyBytes { .. } => (FailureKind::TooLarge, "request less data"),
            OutboundError::ReservedKeyHeader => (FailureKind::Io, "name another header in the manifest"),
            OutboundError::KeyOriginMismatch { .. } => {
                (FailureKind::Denied, "a key is sent only to the address in its manifest")
            }
            OutboundError::KeyUnencrypted { .. } => {
                (FailureKind::Denied, "use https: without it, keys are sent only to this machine")
            }
            OutboundError::InvalidHeader(_) | OutboundError::InvalidRoots { .. } => {
                (FailureKind::Io, "fix the settings")
            }
        };
        Failure::new(kind, error.to_string()).with_hint(hint)
    }
}
