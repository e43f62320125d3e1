//! Vetting of a URL: from its text to addresses that may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use governance::{Nearness, Permit};
use url::{Host, Url};

use crate::error::OutboundError;
use crate::port;
use crate::resolver::Resolver;

/// Source of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The caller, or a redirect of a server that the caller named.
    Caller,
    /// A manifest. A host on this machine is reachable if the policy of the tool names it.
    Manifest,
    /// The settings. A service that they place on this machine is reachable.
    Settings,
}

/// Addresses that may be connected to. Created only by vetting every address of a host.
#[derive(Debug)]
pub(crate) struct Vetted(Vec<SocketAddr>);

impl Vetted {
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.0
    }
}

/// A URL that may be requested, with its vetted addresses.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) url: Url,
    pub(crate) host: String,
    pub(crate) vetted: Vetted,
}

/// Judges a URL, resolves its host once and vets all its addresses. One denied address denies the host: a
/// name that mixes public and private addresses does so on purpose, as in DNS rebinding.
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
    // Parsed from the same text by the same parser as in the judgement, so the judged host is the connected
    // host.
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

/// Returns the addresses that may be connected to. A host that is local by its name often has a link-local
/// address too, which is skipped. For any other host, all addresses must be permitted.
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

/// Returns the IPv4 address of an IPv4-mapped IPv6 address, so that the judged address is the one that the
/// kernel connects to.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}
