//! Reproducible random numbers for the tests that try random orders of events.

/// Random number generator: the same seed gives the same sequence.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn of(schedule: u64) -> Self {
        Dice(schedule.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % sides
    }

    /// Returns a random element, or `None` if the slice is empty.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.roll(among.len())])
    }
}

/// Prints the number of the schedule if the test panics.
pub(super) struct Told(pub(super) u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("failed in schedule {}", self.0);
        }
    }
}
