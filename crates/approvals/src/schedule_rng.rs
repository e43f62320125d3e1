//! Reproducible random numbers for the tests that try random orders of events.

/// Random number generator: the same seed gives the same sequence.
pub(crate) struct ScheduleRng(u64);

impl ScheduleRng {
    pub(crate) fn from_seed(schedule: u64) -> Self {
        ScheduleRng(schedule.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next_below(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    /// Returns a random element, or `None` if the slice is empty.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.next_below(among.len())])
    }
}

/// Prints the number of the schedule if the test panics.
pub(crate) struct SchedulePanicReport(pub(crate) u64);

impl Drop for SchedulePanicReport {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed in schedule {}", self.0);
        }
    }
}
