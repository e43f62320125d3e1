//! Names to addresses, by the system's own resolver. Nothing is kept: each hop asks once and uses what it was told.

use std::io;
use std::net::SocketAddr;

/// Who is asked.
#[derive(Clone, Debug)]
pub(crate) enum Resolver {
    /// The system.
    System,
    /// What a test says, in turn. Not there outside tests.
    #[cfg(test)]
    Scripted(std::sync::Arc<crate::tests::Script>),
}

impl Resolver {
    /// All addresses of a name.
    pub(crate) async fn look_up(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        match self {
            Resolver::System => Ok(tokio::net::lookup_host((name, port)).await?.collect()),
            #[cfg(test)]
            Resolver::Scripted(script) => script.look_up(name, port),
        }
    }
}
