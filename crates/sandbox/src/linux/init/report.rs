//! Report of the init process to the launcher, sent when the program has ended and no other process is left
//! in the namespace. The run is then over: the launcher does not have to wait for the init process, which
//! exits a little later.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use crate::report::Spent;

const WORDS: usize = 7;
const BYTES: usize = WORDS * 8;

/// Ending of the program, and resource usage of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Exit code, or the signal as a negative number.
    pub(crate) end: i32,
    /// Number of processes and threads that the run had.
    pub(crate) processes: u64,
    /// Resource use of all of them, if the kernel reported it.
    pub(crate) spent: Option<Spent>,
}

impl Outcome {
    pub(crate) fn tell(&self, to: &mut File) -> io::Result<()> {
        let spent = self.spent.unwrap_or_default();
        let words = [
            i64::from(self.end).cast_unsigned(),
            self.processes,
            u64::from(self.spent.is_some()),
            u64::try_from(spent.cpu.as_micros()).unwrap_or(u64::MAX),
            spent.max_rss_bytes,
            spent.read_bytes,
            spent.written_bytes,
        ];
        to.write_all(&words.map(u64::to_le_bytes).concat())
    }

    /// Reads a report; `None` if the init process was killed before it sent one.
    pub(crate) fn hear(from: &mut File) -> Option<Outcome> {
        let mut bytes = [0; BYTES];
        from.read_exact(&mut bytes).ok()?;
        let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        let mut word = || words.next().unwrap_or(0);
        let end = i32::try_from(word().cast_signed()).ok()?;
        let (processes, is_known) = (word(), word() == 1);
        let spent = Spent {
            cpu: Duration::from_micros(word()),
            max_rss_bytes: word(),
            read_bytes: word(),
            written_bytes: word(),
            processes: 0,
        };
        Some(Outcome { end, processes, spent: is_known.then_some(spent) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn init_report_round_trips() {
        let spent = Spent {
            cpu: Duration::from_micros(7),
            max_rss_bytes: 1 << 40,
            read_bytes: 1,
            written_bytes: 2,
            processes: 0,
        };
        for outcome in [
            Outcome { end: -9, processes: 3, spent: None },
            Outcome { end: 255, processes: 0, spent: Some(spent) },
        ] {
            let (near, far) = io::pipe().unwrap();
            let [mut near, mut far] = [std::os::fd::OwnedFd::from(near), far.into()].map(File::from);
            outcome.tell(&mut far).unwrap();
            assert_eq!(Outcome::hear(&mut near), Some(outcome));
            drop(far);
            assert_eq!(Outcome::hear(&mut near), None, "the writer has gone");
        }
    }
}
