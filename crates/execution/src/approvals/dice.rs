//! Chance that can be repeated, for the tests that try every order of events.

/// The same number to begin with rolls the same.
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

    /// One of them, where there is any.
    pub(crate) fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        (!among.is_empty()).then(|| &among[self.roll(among.len())])
    }
}

/// Says which schedule it was that failed.
pub(super) struct Told(pub(super) u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("in schedule {}", self.0);
        }
    }
}
