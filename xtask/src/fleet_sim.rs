//! `cargo xtask fleet-sim`: runs simulations of a fleet from a seed. The rules are those of the daemon; the engine, the
//! network and the clock are simulated.

use std::num::NonZeroU64;

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::process;
use crate::tree::Root;

/// Names of the rules that can be broken, as the program takes them.
const RULES: [&str; 4] = ["none", "repeat-after-window", "placed-again", "unsynced-records"];

/// Options of the simulation.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct FleetSimOptions {
    /// Number of hosts
    #[arg(long, value_name = "N", default_value = "10000")]
    hosts: NonZeroU64,
    /// Events before the network heals
    #[arg(long, value_name = "N", default_value = "1000000")]
    events: u64,
    /// Seed of the first run
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Number of runs; each has the next seed
    #[arg(long, value_name = "N", default_value = "1")]
    runs: NonZeroU64,
    /// Break this rule: the simulation must then find a violated invariant
    #[arg(long, value_name = "RULE", default_value = "none", value_parser = PossibleValuesParser::new(RULES))]
    broken: String,
}

/// Builds the simulation and runs it. Fails if an invariant is violated.
pub(crate) fn command(root: &Root, options: &FleetSimOptions) -> Result<()> {
    let FleetSimOptions { hosts, events, seed, runs, broken } = options;
    let package =
        ["run", "--quiet", "--package", "fleet", "--example", "fleet_sim", "--features", "simulation"];
    let mut command = root.cargo(&package);
    command.arg("--").args([hosts.to_string(), events.to_string(), seed.to_string(), runs.to_string()]);
    process::run(command.arg(broken)).context("the simulation found a violated invariant")
}
