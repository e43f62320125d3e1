//! What the first process of the namespaces tells the launcher when the program has ended and nobody else is left in there.
//! That is the end of the run: the first process need not be waited for, which is gone a little later.

use std::fs::File;
use std::io::{self, Read, Write};
use std::time::Duration;

use crate::report::Spent;

const WORDS: usize = 7;
const BYTES: usize = WORDS * 8;

/// How the program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// As the kernel writes it: a code, or a signal below zero.
    pub(crate) end: i32,
    /// How many processes and threads there were.
    pub(crate) processes: u64,
    /// What all of them used, if the kernel said so.
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

    /// Nothing from who was killed before it could say it.
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
    fn an_outcome_is_heard_as_it_was_told() {
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
            assert_eq!(Outcome::hear(&mut near), None, "nobody is there any more");
        }
    }
}
