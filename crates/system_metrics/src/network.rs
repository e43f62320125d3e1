//! Counters of the network interfaces, and rates since the previous sample.

use std::time::Duration;

use crate::snapshot::NetworkInterface;

/// Interface name with the bytes received and sent.
pub(crate) type InterfaceCounters = Vec<(String, u64, u64)>;

/// Returns the interfaces, with rates if a previous sample is known.
pub(crate) fn with_rates(
    now: InterfaceCounters,
    before: Option<(&InterfaceCounters, Duration)>,
) -> Vec<NetworkInterface> {
    let rates = |name: &str, received: u64, sent: u64| {
        let (earlier, elapsed) = before?;
        let (_, old_received, old_sent) = earlier.iter().find(|(known, ..)| known == name)?;
        let millis = u64::try_from(elapsed.as_millis()).ok().filter(|millis| *millis > 0)?;
        let rate = |new: u64, old: u64| new.checked_sub(old).map(|bytes| bytes.saturating_mul(1000) / millis);
        Some((rate(received, *old_received), rate(sent, *old_sent)))
    };
    now.into_iter()
        .map(|(name, received_bytes, sent_bytes)| {
            let (received_per_second, sent_per_second) =
                rates(&name, received_bytes, sent_bytes).unwrap_or_default();
            NetworkInterface { name, received_bytes, sent_bytes, received_per_second, sent_per_second }
        })
        .collect()
}

/// Parses `/proc/net/dev`: the first and the ninth number after the name.
#[cfg_attr(not(target_os = "linux"), allow(dead_code))]
pub(crate) fn parse_linux_counters(text: &str) -> InterfaceCounters {
    let one = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let mut numbers = rest.split_whitespace().map(str::parse::<u64>);
        Some((name.trim().to_owned(), numbers.next()?.ok()?, numbers.nth(7)?.ok()?))
    };
    text.lines().filter_map(one).collect()
}

/// Parses `netstat -ibn` of macOS: the link line of each interface. Its address column may be empty.
#[cfg_attr(not(target_os = "macos"), allow(dead_code))]
pub(crate) fn parse_macos_counters(text: &str) -> InterfaceCounters {
    let one = |line: &str| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_link = columns.get(2)?.starts_with("<Link#");
        // From the end: Ipkts Ierrs Ibytes Opkts Oerrs Obytes Coll.
        let from_end = |offset: usize| columns.len().checked_sub(offset).and_then(|at| columns.get(at));
        let (received, sent) = (from_end(5)?.parse().ok()?, from_end(2)?.parse().ok()?);
        is_link.then(|| (columns.first().map(|name| name.trim_end_matches('*').to_owned()), received, sent))
    };
    let named = text.lines().filter_map(one);
    named.filter_map(|(name, received, sent)| Some((name?, received, sent))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed_and_converted_to_rates() {
        let linux = "Inter-|   Receive                            |  Transmit\n face |bytes packets errs\n\
                     \x20   lo: 100 2 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n  eth0:1000 9 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n";
        let lo = ("lo".to_owned(), 100, 200);
        assert_eq!(parse_linux_counters(linux), [lo, ("eth0".to_owned(), 1000, 50)]);
        let macos = "Name       Mtu   Network       Address            Ipkts Ierrs     Ibytes    Opkts Oerrs     Obytes  Coll\n\
                     lo0        16384 <Link#1>                        4242     0     999111     4242     0     999111     0\n\
                     lo0        16384 127           127.0.0.1         4242     -     999111     4242     -     999111     -\n\
                     en0        1500  <Link#6>    aa:bb:cc:dd:ee:ff  8000     0   70000000     6000     0    5000000     0\n\
                     gif0*      1280  <Link#2>                           0     0          0        0     0          0     0\n";
        let found = parse_macos_counters(macos);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[1], ("en0".to_owned(), 70_000_000, 5_000_000));
        let before = vec![("eth0".to_owned(), 500, 50)];
        let shown = with_rates(parse_linux_counters(linux), Some((&before, Duration::from_millis(500))));
        assert_eq!((shown[0].received_per_second, shown[1].received_per_second), (None, Some(1000)));
        let reset = vec![("eth0".to_owned(), 5000, 50)];
        let shown = with_rates(parse_linux_counters(linux), Some((&reset, Duration::from_secs(1))));
        assert_eq!(shown[1].received_per_second, None, "a counter that was reset gives no rate");
    }
}
