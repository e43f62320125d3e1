//! Report of the init process to the launcher, sent when the program has ended and no other process is left
//! in the namespace. The run is then over: the launcher does not have to wait for the init process, which
//! exits a little later.

use std::fs::File;
use std::io::{self, Read, Write};

use serde::{Deserialize, Serialize};

use crate::launch::wire_format;
use crate::report::ResourceUsage;

/// Ending of the program, and resource usage of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct InitReport {
    /// Exit code, or the signal as a negative number.
    pub(crate) end: i32,
    /// Number of processes and threads that the run had.
    pub(crate) processes: u64,
    /// Resource use of all of them, if the kernel reported it.
    pub(crate) spent: Option<ResourceUsage>,
}

impl InitReport {
    pub(crate) fn write_to(&self, to: &mut File) -> io::Result<()> {
        to.write_all(&wire_format::framed_json(self))
    }

    /// Reads a report; `None` if the init process was killed before it sent one.
    pub(crate) fn read_from(from: &mut File) -> Option<InitReport> {
        let mut head = [0; wire_format::LENGTH_BYTES];
        from.read_exact(&mut head).ok()?;
        let body = wire_format::read_body(from, wire_format::parse_length(head).ok()?).ok()?;
        serde_json::from_slice(&body).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn init_report_round_trips() {
        let spent = ResourceUsage {
            cpu: Duration::from_micros(7),
            max_rss_bytes: 1 << 40,
            read_bytes: 1,
            written_bytes: 2,
            processes: 0,
        };
        for outcome in [
            InitReport { end: -9, processes: 3, spent: None },
            InitReport { end: 255, processes: 0, spent: Some(spent) },
        ] {
            let (near, far) = io::pipe().unwrap();
            let [mut near, mut far] = [std::os::fd::OwnedFd::from(near), far.into()].map(File::from);
            outcome.write_to(&mut far).unwrap();
            assert_eq!(InitReport::read_from(&mut near), Some(outcome));
            drop(far);
            assert_eq!(InitReport::read_from(&mut near), None, "the writer has gone");
        }
    }
}
