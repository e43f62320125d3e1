//! Simulation of a fleet with a simulated engine, network and clock. One seed gives one run.
//!
//! The network drops, repeats, delays and reorders messages, also for longer than the deduplication window of the
//! engine; hosts lose power; an attacker on the server replays old bundles and beacons. The rules are those that the
//! daemon uses. A run with a broken rule must fail, which shows that the invariants examine something.

mod engine;
mod host;
mod invariants;
mod rng;
mod world;

use std::fmt;

/// Rule that is broken on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrokenRule {
    /// Every rule holds.
    #[default]
    None,
    /// The mirror relies on message ids, which the engine forgets after its deduplication window.
    RepeatAfterWindow,
    /// A call without an answer is placed again on another host, with the same key.
    PlacedAgain,
    /// The mirror sends records that are not synced.
    UnsyncedRecords,
}

/// Parameters of a run.
#[derive(Clone, Copy, Debug)]
pub struct SimulationOptions {
    /// Number of hosts.
    pub hosts: usize,
    /// Number of events before the network heals.
    pub events: u64,
    /// Seed.
    pub seed: u64,
    /// Broken rule.
    pub broken: BrokenRule,
}

/// Result of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SimulationReport {
    /// Simulated events.
    pub events: u64,
    /// Simulated time in milliseconds.
    pub simulated_ms: u64,
    /// Records in the mirrors.
    pub mirrored: u64,
    /// Batches that compare-and-set refused.
    pub refused_batches: u64,
    /// Times that hosts lost power.
    pub power_cuts: u64,
    /// Effects of remote calls.
    pub effects: u64,
    /// Remote calls that a host refused.
    pub refused_calls: u64,
    /// Bundles and beacons that a host refused.
    pub refused_messages: u64,
    /// Violated invariants, the first few.
    pub violations: Vec<String>,
}

impl fmt::Display for SimulationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} events, {} s simulated, {} records mirrored, {} batches refused, {} power cuts, {} effects, \
             {} calls refused, {} bundles and beacons refused",
            self.events,
            self.simulated_ms / 1000,
            self.mirrored,
            self.refused_batches,
            self.power_cuts,
            self.effects,
            self.refused_calls,
            self.refused_messages
        )?;
        self.violations.iter().try_for_each(|violation| write!(f, "\nviolated: {violation}"))
    }
}

/// Runs a simulation.
pub fn simulate(options: SimulationOptions) -> SimulationReport {
    let mut world = world::World::new(options);
    world.run();
    invariants::examine(world)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64, broken: BrokenRule) -> SimulationReport {
        simulate(SimulationOptions { hosts: 40, events: 8000, seed, broken })
    }

    #[test]
    fn invariants_hold_for_many_seeds() {
        for seed in 0..12 {
            let report = run(seed, BrokenRule::None);
            assert!(report.violations.is_empty(), "seed {seed}: {report}");
            assert!(report.refused_batches > 0 && report.effects > 0 && report.power_cuts > 0, "{report}");
            assert!(report.refused_messages > 0 && report.refused_calls > 0, "{report}");
        }
    }

    #[test]
    fn run_replays_from_its_seed() {
        assert_eq!(run(3, BrokenRule::None), run(3, BrokenRule::None));
        assert_ne!(run(3, BrokenRule::None), run(4, BrokenRule::None));
    }

    #[test]
    fn broken_rules_are_found() {
        for (broken, part) in [
            (BrokenRule::RepeatAfterWindow, "mirrored twice"),
            (BrokenRule::PlacedAgain, "effects under one key"),
            (BrokenRule::UnsyncedRecords, "mirror"),
        ] {
            let found = (0..12)
                .any(|seed| run(seed, broken).violations.iter().any(|violation| violation.contains(part)));
            assert!(found, "{broken:?}");
        }
    }
}
