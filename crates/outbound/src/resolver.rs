//! Name resolution by the system's resolver. Nothing is cached: each hop resolves once and uses the result.

use std::io;
use std::net::SocketAddr;

/// Source of name resolution.
#[derive(Clone, Debug)]
pub(crate) enum Resolver {
    /// Resolver of the system.
    System,
    /// Results scripted by a test.
    #[cfg(test)]
    Scripted(std::sync::Arc<crate::tests::Script>),
}

impl Resolver {
    /// Returns all addresses of a name.
    pub(crate) async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Resolver::System => Ok(tokio::net::lookup_host((name, port)).await?.collect()),
            #[cfg(test)]
            Resolver::Scripted(script) => script.look_up(name, port),
        }
    }
}
