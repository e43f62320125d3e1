//! Bounded capture of an output of any length: its head, its tail, and the number of bytes between them.

use std::collections::VecDeque;

use crate::output::spill::{SpillStore, SpillWriter, SpilledOutput};

/// Captured output, as unchanged bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Beginning of the output.
    pub head: Vec<u8>,
    /// End of the output, if bytes were omitted before it.
    pub tail: Vec<u8>,
    /// Number of bytes between the two.
    pub omitted: u64,
    /// Complete output in the spill store, if bytes were omitted and a store is set.
    pub spilled: Option<SpilledOutput>,
}

impl Captured {
    /// Returns the size of the whole output.
    pub fn total(&self) -> u64 {
        self.head.len() as u64 + self.omitted + self.tail.len() as u64
    }
}

/// Output being captured. It never holds more than its capacity.
#[derive(Debug)]
pub(crate) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
    head_capacity: usize,
    tail_capacity: usize,
    /// Store for the complete output if it does not fit.
    spills: Option<SpillStore>,
    spill: Option<SpillWriter>,
}

impl Capture {
    /// Captures this many bytes, half from each end, and writes the complete output to the store if it does
    /// not fit.
    pub(crate) fn with_capacity(bytes: usize, spills: Option<SpillStore>) -> Self {
        let head_space = bytes / 2;
        Capture {
            head: Vec::new(),
            tail: VecDeque::new(),
            total_bytes: 0,
            head_capacity: head_space,
            tail_capacity: bytes.saturating_sub(head_space),
            spills,
            spill: None,
        }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        if self.total_bytes > (self.head_capacity + self.tail_capacity) as u64 {
            self.write_spill(bytes);
        }
        let space = self.head_capacity.saturating_sub(self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(space);
        self.head.extend_from_slice(first);
        let rest = rest.get(rest.len().saturating_sub(self.tail_capacity)..).unwrap_or_default();
        let surplus = (self.tail.len() + rest.len()).saturating_sub(self.tail_capacity);
        self.tail.drain(..surplus.min(self.tail.len()));
        self.tail.extend(rest);
    }

    /// Writes bytes to the store; the first time, also everything captured so far, which is still complete.
    fn write_spill(&mut self, bytes: &[u8]) {
        if let Some(spills) = self.spills.take() {
            self.spill = spills.create().ok();
            if let Some(spill) = &mut self.spill {
                spill.write(&self.head);
                spill.write(self.tail.make_contiguous());
            }
        }
        if let Some(spill) = &mut self.spill {
            spill.write(bytes);
        }
    }

    pub(crate) fn finish(self) -> Captured {
        let spilled = self.spill.map(SpillWriter::finish);
        let (mut head, tail) = (self.head, Vec::from(self.tail));
        let omitted = self.total_bytes - head.len() as u64 - tail.len() as u64;
        match omitted {
            0 => {
                head.extend_from_slice(&tail);
                Captured { head, tail: Vec::new(), omitted, spilled }
            }
            _ => Captured { head, tail, omitted, spilled },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(space: usize, writes: &[&str], head: &str, tail: &str, omitted: u64) {
        let folder = tempfile::tempdir().unwrap();
        let spills = SpillStore::at(folder.path());
        let mut capture = Capture::with_capacity(space, Some(spills.clone()));
        for write in writes {
            capture.push(write.as_bytes());
            assert!(capture.head.len() + capture.tail.len() <= space);
        }
        let captured = capture.finish();
        let retained = captured
            .spilled
            .as_ref()
            .map(|retained| spills.page(&retained.id, 0, 100).unwrap().unwrap().bytes);
        let whole = (omitted > 0).then(|| writes.concat().into_bytes());
        assert_eq!(
            retained, whole,
            "{writes:?}: the complete output is stored if the capture is not complete"
        );
        let spilled = captured.spilled.clone();
        assert_eq!(
            captured,
            Captured { head: head.into(), tail: tail.into(), omitted, spilled },
            "{writes:?}"
        );
        assert_eq!(captured.total(), writes.iter().map(|write| write.len() as u64).sum::<u64>());
    }

    #[test]
    fn head_and_tail_are_kept_and_the_middle_is_counted() {
        check(10, &[], "", "", 0);
        check(10, &["abc"], "abc", "", 0);
        check(10, &["0123456789"], "0123456789", "", 0);
        check(10, &["0123456789a"], "01234", "6789a", 1);
        check(10, &["01", "23456", "789ab"], "01234", "789ab", 2);
        check(4, &["0123456789"], "01", "89", 6);
        check(4, &["0", "1", "2", "3", "4", "5"], "01", "45", 2);
        check(0, &["abc"], "", "", 3);
        check(1, &["abc"], "", "c", 2);
    }

    #[test]
    fn non_text_bytes_are_unchanged() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut capture = Capture::with_capacity(1024, None);
        capture.push(&bytes);
        assert_eq!(capture.finish().head, bytes);
    }
}
