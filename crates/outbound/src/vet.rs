//! From an address as it was written to addresses that may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use governance::{Nearness, Permit};
use url::{Host, Url};

use crate::error::OutboundError;
use crate::port;
use crate::resolver::Resolver;

/// Who named a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The caller, or a server that it led to.
    Caller,
    /// A manifest: what it puts on this machine may be there where the policy of its tool names that host.
    Manifest,
    /// The settings: a service they put on this machine may be on this machine.
    Settings,
}

/// Addresses that may be connected to. Made by vetting every address of a host and in no other way.
#[derive(Debug)]
pub(crate) struct Vetted(Vec<SocketAddr>);

impl Vetted {
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

/// An address that may be asked, with where that is.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) url: Url,
    pub(crate) host: String,
    pub(crate) vetted: Vetted,
}

/// Judges an address, resolves its host once and vets all it has. One address that is closed closes them all: whoever
/// mixes them does so on purpose.
pub(crate) async fn vet(
    permit: &Permit,
    resolver: &Resolver,
    text: &str,
    named_by: NamedBy,
) -> Result<Place, OutboundError> {
    let nearness = match named_by {
        NamedBy::Caller => permit.may_reach(text).map(|()| Nearness::Public)?,
        NamedBy::Manifest => permit.may_reach_server(text)?,
        NamedBy::Settings => permit.may_reach_service(text)?,
    };
    // What was judged is what is used: the same text, the same parser.
    let unreadable = || OutboundError::BadRedirect { host: String::new() };
    let url = Url::parse(text).map_err(|_| unreadable())?;
    let (Some(host), Some(port)) = (url.host().map(|host| host.to_owned()), url.port_or_known_default())
    else {
        return Err(unreadable());
    };
    let name = host.to_string();
    if port::is_closed(port) {
        return Err(OutboundError::Port { host: name, port });
    }
    let addresses = match &host {
        Host::Ipv4(address) => vec![SocketAddr::from((*address, port))],
        Host::Ipv6(address) => vec![SocketAddr::from((*address, port))],
        Host::Domain(domain) => {
            let found = resolver.look_up(domain, port).await;
            found.map_err(|cause| OutboundError::Unresolved { host: name.clone(), cause })?
        }
    };
    if addresses.is_empty() {
        let cause = io::Error::from(io::ErrorKind::NotFound);
        return Err(OutboundError::Unresolved { host: name, cause });
    }
    let vetted = Vetted(vetted(permit, addresses, nearness)?);
    Ok(Place { url, host: name, vetted })
}

/// The addresses that may be connected to. A host that is near by its name often has a link-local address beside its
/// own, which is left out; of any other host all must be open.
fn vetted(
    permit: &Permit,
    addresses: Vec<SocketAddr>,
    nearness: Nearness,
) -> Result<Vec<SocketAddr>, OutboundError> {
    let (mut open, mut closed) = (Vec::new(), None);
    for address in addresses {
        match permit.may_connect(plain(address.ip()), nearness) {
            Ok(()) => open.push(address),
            Err(denial) => closed = Some(denial),
        }
    }
    match (closed, nearness) {
        (None, _) => Ok(open),
        (Some(_), Nearness::Near) if !open.is_empty() => Ok(open),
        (Some(denial), _) => Err(denial.into()),
    }
}

/// An IPv4 address however it is wrapped, so that what is judged is what the kernel connects to.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
