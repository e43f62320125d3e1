//! Settings and summary of a campaign: a test that runs a few rounds in the ordinary run, and for minutes or
//! up to a figure when `cargo xtask soak` starts it. The same seed makes the same choices.

use std::time::{Duration, Instant};

use serde_json::json;

/// Run of a campaign.
pub struct Campaign {
    seed: u64,
    limit: u64,
    deadline: Option<Instant>,
    rounds: u64,
}

impl Campaign {
    /// Starts a campaign: with the settings of `cargo xtask soak`, or with so many rounds and a fixed seed.
    pub fn start(quick_rounds: u64) -> Campaign {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(text.parse::<u64>().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
        };
        let minutes = number("SINEW_SOAK_MINUTES");
        let (seed, count) = (number("SINEW_SOAK_SEED").unwrap_or(1), number("SINEW_SOAK_COUNT"));
        let limit = if minutes.is_some() { count.unwrap_or(u64::MAX) } else { quick_rounds };
        let deadline = minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
        Campaign { seed, limit, deadline, rounds: 0 }
    }

    /// Returns true if `cargo xtask soak` started the campaign.
    pub fn is_long(&self) -> bool {
        self.deadline.is_some()
    }

    /// Returns the generator of one part of the campaign; each part has its own sequence.
    pub fn random(&self, part: u64) -> Random {
        Random(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ part)
    }

    /// Returns true while the campaign has neither reached its figure nor used its time.
    pub fn goes_on(&self, figure: u64) -> bool {
        figure < self.limit && self.deadline.is_none_or(|deadline| Instant::now() < deadline)
    }

    /// Returns the number of the next round, from 0, or nothing at the end of the campaign.
    pub fn next_round(&mut self) -> Option<u64> {
        let round = self.rounds;
        self.goes_on(round).then(|| {
            self.rounds += 1;
            round
        })
    }

    /// Reports the figure that was reached without an exception.
    pub fn finish(&self, figure: u64, notes: &str) {
        println!("campaign-summary {}", json!({"figure": figure, "notes": notes}));
    }
}

/// Generator of pseudo-random numbers (splitmix64), for choices that a seed repeats.
pub struct Random(u64);

impl Random {
    /// Returns the next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns another generator, for a thread of its own.
    pub fn fork(&mut self) -> Random {
        Random(self.number())
    }

    /// Returns a number below a bound, which must not be zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }

    /// Returns one of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).expect("an index")]
    }
}
