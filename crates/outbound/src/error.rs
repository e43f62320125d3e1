//! Why nothing came back. Addresses are named by their host alone: a query is often a credential, and errors are kept.

use std::io;

use governance::Denial;
use tool::{Failure, FailureKind, Refusal};

/// What went wrong on the way out.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// Policy closes where it would have gone.
    #[error("{}", .0.reason)]
    Denied(Box<Refusal>),
    /// Nothing of the web listens there, and something else might.
    #[error("`{host}`: port {port} belongs to another service than the web")]
    Port {
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
        /// What the resolver said.
        cause: io::Error,
    },
    /// Nobody answers at any of its addresses.
    #[error("`{host}` cannot be connected to: {cause}")]
    Unreachable {
        /// The host.
        host: String,
        /// What the system said of the last address.
        cause: io::Error,
    },
    /// No secure connection: the certificate is not good for this host, or the other side does not speak TLS 1.2.
    #[error("`{host}` does not prove that it is `{host}`: {cause}")]
    Untrusted {
        /// The host.
        host: String,
        /// What is wrong.
        cause: io::Error,
    },
    /// What came back is not HTTP, or has more headers than anybody needs.
    #[error("`{host}` does not answer as a web server: {cause}")]
    Garbled {
        /// The host.
        host: String,
        /// What is wrong.
        cause: hyper::Error,
    },
    /// It says again and again that an answer will come.
    #[error("`{host}` announces an answer and gives none")]
    NoAnswer {
        /// The host.
        host: String,
    },
    /// One redirect too many.
    #[error("`{host}` redirects for the {hops}th time")]
    TooManyRedirects {
        /// The host that sent the last one.
        host: String,
        /// How many there were.
        hops: usize,
    },
    /// A redirect whose address cannot be read.
    #[error("`{host}` redirects to what is no address")]
    BadRedirect {
        /// The host.
        host: String,
    },
    /// The time for all of it was over.
    #[error("`{host}` has not answered in time")]
    TimedOut {
        /// The host.
        host: String,
    },
    /// No web socket was opened, so nothing was said by one.
    #[error("`{host}` opens no web socket: {why}")]
    NoSocket {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// What came by a web socket is nothing that may come by it.
    #[error("`{host}` breaks the rules of its web socket: {why}")]
    BadFrame {
        /// The host.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// More came by a web socket than was waited for.
    #[error("`{host}` sent more than {most} bytes by its web socket")]
    TooMuch {
        /// The host.
        host: String,
        /// What it might have sent.
        most: u64,
    },
    /// A header that cannot be sent.
    #[error("the header `{0}` cannot be sent")]
    Header(&'static str),
    /// A header that no key is sent in.
    #[error("no key is sent in a header of that name")]
    KeyHeader,
    /// A key that is for another address.
    #[error("nothing was sent to `{host}`: the key is for another address")]
    KeyAstray {
        /// The host.
        host: String,
    },
    /// A key that others could read on its way.
    #[error("nothing was sent to `{host}`: the key would travel in the open")]
    KeyInTheOpen {
        /// The host.
        host: String,
    },
    /// Certificates that cannot be used.
    #[error("the certificates in `{file}` cannot be used: {cause}")]
    Roots {
        /// The file of the settings.
        file: String,
        /// What is wrong with it.
        cause: String,
    },
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
            OutboundError::Port { .. } => (FailureKind::WrongKind, "leave the port out of the address"),
            OutboundError::Unresolved { .. } => (FailureKind::NotFound, "check the name for a slip"),
            OutboundError::Unreachable { .. } => (FailureKind::Transient, "try again later"),
            OutboundError::Untrusted { .. } => (
                FailureKind::Unreadable,
                "there is no way past this; for a certificate of one's own, `web.ca_file` in sinew.yaml",
            ),
            OutboundError::Garbled { .. } | OutboundError::NoAnswer { .. } => {
                (FailureKind::Unreadable, "it is no web server, or a broken one")
            }
            OutboundError::TooManyRedirects { .. } | OutboundError::BadRedirect { .. } => {
                (FailureKind::Unreadable, "ask for the page it should lead to")
            }
            OutboundError::TimedOut { .. } => (FailureKind::TimedOut, "try again later, or another source"),
            OutboundError::NoSocket { .. } => (
                FailureKind::Unreadable,
                "its manifest names the address; see whether it is that of a web socket",
            ),
            OutboundError::BadFrame { .. } => {
                (FailureKind::Unreadable, "it is no server of this protocol, or a broken one")
            }
            OutboundError::TooMuch { .. } => (FailureKind::TooLarge, "ask for less"),
            OutboundError::KeyHeader => (FailureKind::Io, "name another header in the manifest"),
            OutboundError::KeyAstray { .. } => {
                (FailureKind::Denied, "a key goes to the address of its manifest and nowhere else")
            }
            OutboundError::KeyInTheOpen { .. } => {
                (FailureKind::Denied, "keys are sent by https, or to this machine itself")
            }
            OutboundError::Header(_) | OutboundError::Roots { .. } => (FailureKind::Io, "mend the settings"),
        };
        Failure::new(kind, error.to_string()).hint(hint)
    }
}
