//! Classification of IP addresses and host names that reach this machine or a private network, in every
//! notation.
//!
//! This module does not resolve names and does not know the policy.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true if an address is not on the public Internet.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

/// Returns true if an address is blocked even if a policy file allows it.
///
/// These are the link-local addresses and all other known cloud metadata addresses, because metadata services
/// give the machine's credentials to any local process. Addresses with an embedded IPv4 address at an unknown
/// position are blocked too, because their destination cannot be determined.
pub(crate) fn is_always_blocked(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_always_blocked_v4(address),
        IpAddr::V6(address) => is_always_blocked_v6(address),
    }
}

/// Metadata addresses of Alibaba, Oracle and Azure, which are not link-local.
const CLOUD_METADATA_V4: [Ipv4Addr; 3] =
    [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(192, 0, 0, 192), Ipv4Addr::new(168, 63, 129, 16)];

/// Returns true for the metadata addresses of Amazon (a whole block with several services), Google and
/// Scaleway.
fn is_cloud_metadata_v6(address: Ipv6Addr) -> bool {
    matches!(
        address.segments(),
        [0xfd00, 0xec2, ..] | [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254] | [0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42]
    )
}

fn is_always_blocked_v4(address: Ipv4Addr) -> bool {
    address.is_link_local() || CLOUD_METADATA_V4.contains(&address)
}

fn is_always_blocked_v6(address: Ipv6Addr) -> bool {
    match embedded_ipv4(address) {
        EmbeddedIpv4::Absent => address.is_unicast_link_local() || is_cloud_metadata_v6(address),
        EmbeddedIpv4::Address(inner) => is_always_blocked_v4(inner),
        EmbeddedIpv4::AtUnknownOffset => true,
    }
}

/// IPv4 address embedded in an IPv6 address.
enum EmbeddedIpv4 {
    Absent,
    Address(Ipv4Addr),
    /// There is one, but its position depends on the configuration of a translator.
    AtUnknownOffset,
}

/// Extracts the IPv4 address that a host or a translator on the route would use.
fn embedded_ipv4(address: Ipv6Addr) -> EmbeddedIpv4 {
    let join = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => EmbeddedIpv4::Absent,
        // IPv4-compatible, IPv4-mapped, IPv4-translated (RFC 2765), and the well-known NAT64 prefix (RFC
        // 6052).
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => EmbeddedIpv4::Address(join(high, low)),
        [0x2002, high, low, ..] => EmbeddedIpv4::Address(join(high, low)),
        // A local-use NAT64 prefix (RFC 8215) may hold the address at any offset. Teredo holds the client's
        // address inverted, and no legitimate service is reached through it.
        [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] => EmbeddedIpv4::AtUnknownOffset,
        _ => EmbeddedIpv4::Absent,
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local() // includes the cloud metadata address
        || address.is_broadcast()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b)) // carrier-grade NAT
        || (a == 198 && (18..20).contains(&b)) // benchmarking
        || matches!((a, b, c), (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113))
        || CLOUD_METADATA_V4.contains(&address)
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    match (address.segments(), embedded_ipv4(address)) {
        // `::`, `::1`, and IPv4-compatible addresses, which are not routed.
        ([0, 0, 0, 0, 0, 0, ..], _) | (_, EmbeddedIpv4::AtUnknownOffset) => true,
        (_, EmbeddedIpv4::Address(inner)) => is_private_v4(inner),
        // Protocol assignments such as benchmarking and cryptographic identifiers, and documentation.
        ([0x2001, 0..=0x1ff | 0xdb8, ..] | [0x3fff, 0..=0xfff, ..], EmbeddedIpv4::Absent) => true,
        // Public addresses are assigned from 2000::/3 only. The rest is unique local, link-local, multicast, for other
        // local uses such as segment routing, or unassigned.
        ([first, ..], EmbeddedIpv4::Absent) => (first & 0xe000) != 0x2000,
    }
}

/// Returns true if a name means this machine or a private network with every resolver.
pub(crate) fn is_local_name(name: &str) -> bool {
    const LOCAL: [&str; 6] = ["localhost", "local", "internal", "home.arpa", "lan", "intranet"];
    let below = |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.') || LOCAL.iter().any(|suffix| name == *suffix || below(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_ranges_are_known_in_every_form() {
        for text in [
            "127.0.0.1",
            "127.255.255.254",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.255",
            "0.0.0.0",
            "0.1.2.3",
            "198.18.0.1",
            "198.19.255.255",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "192.0.0.8",
            "192.88.99.1",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a00:1::1",
            "2001::1",
            "2001:2::1",
            "2001:20::1",
            "2001:db8::1",
            "100::1",
            "100:0:0:1::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "3fff::1",
        ] {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "93.184.216.34",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "198.17.1.1",
            "198.20.1.1",
            "192.167.1.1",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }

    /// Covers every notation of a link-local address, and the cloud metadata addresses.
    #[test]
    fn link_local_addresses_are_blocked_in_every_form() {
        for text in [
            "169.254.0.0",
            "169.254.169.254",
            "169.254.255.255",
            "::169.254.169.254",
            "::ffff:169.254.169.254",
            "::ffff:0:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "64:ff9b:1::1",
            "64:ff9b:1:a9fe:a9:fe00::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "fe80::1",
            "febf:ffff::1",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd00:ec2:ffff::1",
            "fd00:42::42",
            "fd20:ce::254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "::ffff:168.63.129.16",
        ] {
            let address = text.parse().unwrap();
            assert!(is_always_blocked(address) && is_private(address), "{text}");
        }
        for text in [
            "169.253.255.255",
            "169.255.0.0",
            "127.0.0.1",
            "10.0.0.1",
            "192.168.0.1",
            "100.100.100.201",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
            "2002:a00:1::1",
            "fc00::1",
            "fd00:ec3::254",
            "fd00:42::43",
            "fec0::1",
            "fe7f::1",
            "8.8.8.8",
            "2606:4700::1111",
        ] {
            assert!(!is_always_blocked(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn local_names_are_known() {
        for name in [
            "localhost",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "router",
            "nas.home.arpa",
        ] {
            assert!(is_local_name(name), "{name}");
        }
        for name in ["example.org", "localhost.example.org", "internal.example.org", "mylocal.org"] {
            assert!(!is_local_name(name), "{name}");
        }
    }
}
