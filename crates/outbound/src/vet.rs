//! Vetting of a URL: from its text to addresses that may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};

use governance::reserved_ports::ReservedPorts;
use governance::{HostLocation, Permit};
use url::{Host, Url};

use crate::error::OutboundError;

/// Ports that are blocked, because a service other than HTTP could take a request for a command. The list is
/// that of the Fetch standard, which browsers use.
const BLOCKED_PORTS: [u16; 83] = [
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514,
    515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723,
    2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// Further blocked ports: daemons that give control of a machine or its data to a request, usually without a password.
const SERVICE_PORTS: [u16; 34] = [
    445,   // SMB
    873,   // rsync
    1099,  // Java RMI
    1433,  // SQL Server
    1521,  // Oracle
    2181,  // ZooKeeper
    2375,  // Docker
    2376,  // Docker with TLS
    2377,  // Docker Swarm
    2379,  // etcd clients
    2380,  // etcd peers
    3306,  // MySQL
    3389,  // RDP
    4243,  // Docker, formerly
    4369,  // Erlang port mapper
    5432,  // PostgreSQL
    5672,  // AMQP
    5900,  // VNC
    5985,  // WinRM
    5986,  // WinRM with TLS
    6379,  // Redis
    6380,  // Redis with TLS
    7000,  // Cassandra peers
    7001,  // Cassandra peers with TLS
    9042,  // Cassandra clients
    9092,  // Kafka
    9229,  // Node.js inspector
    10250, // kubelet
    10255, // kubelet, read-only
    11211, // memcached
    26379, // Redis Sentinel
    27017, // MongoDB
    27018, // MongoDB shards
    27019, // MongoDB configuration
];

/// Source of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UrlSource {
    /// The caller, or a redirect of a server that the caller named.
    Caller,
    /// A manifest. A host on this machine is reachable if the policy of the tool names it.
    Manifest,
    /// The settings. A service that they place on this machine is reachable.
    Settings,
}

/// A URL that may be requested, with the addresses that may be connected to. Only `vet` creates one.
#[derive(Debug)]
pub(crate) struct VettedTarget {
    pub(crate) url: Url,
    pub(crate) host: String,
    addresses: Vec<SocketAddr>,
}

impl VettedTarget {
    /// Returns the vetted addresses.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

/// Source of name resolution. Nothing is cached: each hop resolves once and uses the result.
#[derive(Clone, Debug)]
pub(crate) enum Resolver {
    /// Resolver of the system.
    System,
    /// Results scripted by a test.
    #[cfg(test)]
    Scripted(std::sync::Arc<crate::tests::ScriptedResolver>),
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

/// Judges a URL, resolves its host once and vets all its addresses. One denied address denies the host: a
/// name that mixes public and private addresses does so on purpose, as in DNS rebinding.
pub(crate) async fn vet(
    permit: &Permit,
    (resolver, reserved): (&Resolver, &ReservedPorts),
    text: &str,
    named_by: UrlSource,
) -> Result<VettedTarget, OutboundError> {
    let host_location = match named_by {
        UrlSource::Caller => permit.may_reach(text).map(|()| HostLocation::Public)?,
        UrlSource::Manifest => permit.may_reach_server(text)?,
        UrlSource::Settings => permit.may_reach_service(text)?,
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
    if BLOCKED_PORTS.contains(&port) || SERVICE_PORTS.contains(&port) {
        return Err(OutboundError::BlockedPort { host: name, port });
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
    // Checked for every source of the URL: no rule, manifest or setting opens the operator's console.
    if reserved.contains(port) && addresses.iter().any(|address| reaches_loopback(address.ip())) {
        return Err(OutboundError::BlockedPort { host: name, port });
    }
    let addresses = vet_addresses(permit, addresses, host_location)?;
    Ok(VettedTarget { url, host: name, addresses })
}

/// Returns true if a connection to the address arrives at a loopback address of this machine.
fn reaches_loopback(address: IpAddr) -> bool {
    let address = address.to_canonical();
    // The kernel connects to the loopback address if the destination is unspecified.
    address.is_loopback() || address.is_unspecified()
}

/// Returns the addresses that may be connected to. A host that is local by its name often has a link-local
/// address too, which is skipped. For any other host, all addresses must be permitted.
fn vet_addresses(
    permit: &Permit,
    addresses: Vec<SocketAddr>,
    host_location: HostLocation,
) -> Result<Vec<SocketAddr>, OutboundError> {
    let (mut open, mut closed) = (Vec::new(), None);
    for address in addresses {
        // An IPv4-mapped IPv6 address is judged as the IPv4 address that the kernel connects to.
        match permit.may_connect(address.ip().to_canonical(), host_location) {
            Ok(()) => open.push(address),
            Err(denial) => closed = Some(denial),
        }
    }
    match (closed, host_location) {
        (None, _) => Ok(open),
        (Some(_), HostLocation::Local) if !open.is_empty() => Ok(open),
        (Some(denial), _) => Err(denial.into()),
    }
}
