//! Addresses that lead back into the machine or its own network, however they are spelt.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether an address is not one of the public Internet.
pub(crate) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => is_private_v6(address),
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local() // also where clouds keep the machine's credentials
        || address.is_broadcast()
        || address.is_multicast()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b)) // carriers' own
        || (a == 198 && (18..20).contains(&b)) // benchmarks
        || matches!((a, b, c), (192, 0, 0 | 2) | (192, 88, 99) | (198, 51, 100) | (203, 0, 113))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        is_private_v4(Ipv4Addr::new(a, b, c, d))
    };
    match (a, b, c, d, e, f) {
        // `::`, `::1`, and an IPv4 address in the old form.
        (0, 0, 0, 0, 0, 0) => true,
        (0, 0, 0, 0, 0, 0xffff) | (0, 0, 0, 0, 0xffff, 0) => embedded(g, h),
        (0x64, 0xff9b, 0, 0, 0, 0) => embedded(g, h),
        (0x64, 0xff9b, 1, ..) => true,
        (0x2002, high, low, ..) => embedded(high, low),
        // Teredo carries the client's address inverted; nothing honest is reached that way.
        (0x2001, 0, ..) | (0x2001, 0xdb8, ..) | (0x100, 0, 0, ..) | (0x3fff, 0..=0xfff, ..) => true,
        _ => {
            (a & 0xfe00) == 0xfc00
                || (a & 0xffc0) == 0xfe80
                || (a & 0xffc0) == 0xfec0
                || (a & 0xff00) == 0xff00
        }
    }
}

/// Names that mean this machine or its own network wherever they are looked up.
pub(crate) fn is_local_name(name: &str) -> bool {
    const LOCAL: [&str; 6] = ["localhost", "local", "internal", "home.arpa", "lan", "intranet"];
    let below = |suffix: &&str| name.strip_suffix(*suffix).is_some_and(|rest| rest.ends_with('.'));
    !name.contains('.') || LOCAL.iter().any(|suffix| name == *suffix || below(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t138_private_ranges_are_known_in_every_form() {
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
            "2001:db8::1",
            "100::1",
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
