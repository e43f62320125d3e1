//! `cargo xtask soak`: campaigns that take too long for every change. Each has a figure to reach, a seed that
//! repeats it, and a row in `docs/assurance.md`. Not part of ci.

mod campaign;
mod crate_tests;
mod fuzz;
mod mutants;
mod page;
mod suite_tests;
mod summary;

use std::num::NonZeroU32;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::project::Profile;
use crate::tree::Root;

pub(crate) use campaign::names;
use campaign::{CAMPAIGNS, Campaign, Session};
pub(crate) use page::drift;

/// Options of the campaigns.
#[derive(Debug, PartialEq, Eq, Args)]
pub(crate) struct SoakOptions {
    /// Run only this campaign
    #[arg(long, value_name = "NAME", value_parser = names())]
    campaign: Option<String>,
    /// Seed of the campaign; each run prints its own
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Longest duration of a campaign, in minutes
    #[arg(long, value_name = "M", default_value = "20")]
    minutes: NonZeroU32,
    /// Figure to stop at, instead of the campaign's own
    #[arg(long, value_name = "N", requires = "campaign")]
    count: Option<u64>,
    /// Run the dev build, which needs less time to build and is slower
    #[arg(long)]
    dev: bool,
    /// Save the figure reached in docs/assurance.md
    #[arg(long)]
    save: bool,
    /// List the campaigns and the figures to reach
    #[arg(long, conflicts_with_all = ["campaign", "save"])]
    list: bool,
}

/// Runs the selected campaign, or all of them; stops at the first exception.
pub(crate) fn command(root: &Root, options: &SoakOptions) -> Result<()> {
    if options.list {
        for campaign in CAMPAIGNS {
            println!(
                "{:<12} {:>13} {:<22} {}",
                campaign.name, campaign.target, campaign.unit, campaign.promise
            );
        }
        return Ok(());
    }
    let chosen = CAMPAIGNS.iter().filter(|one| options.campaign.as_ref().is_none_or(|name| name == one.name));
    for campaign in chosen {
        run(root, campaign, options)?;
    }
    Ok(())
}

fn run(root: &Root, campaign: &Campaign, options: &SoakOptions) -> Result<()> {
    let session = Session {
        root,
        seed: options.seed.unwrap_or_else(fresh_seed),
        minutes: options.minutes.get(),
        count: options.count.unwrap_or(campaign.target),
        profile: if options.dev { Profile::Dev } else { Profile::Release },
    };
    let repeat = format!("cargo xtask soak --campaign {} --seed {}", campaign.name, session.seed);
    println!("campaign {}: {}; repeat with `{repeat}`", campaign.name, campaign.promise);
    let began = Instant::now();
    let summary = (campaign.run)(&session).with_context(|| format!("`{repeat}` found an exception"))?;
    if summary.figure == 0 {
        bail!("`{repeat}` counted nothing: the output above says what was left out");
    }
    let result = summary.into_result(campaign, &session, began.elapsed())?;
    println!("{}", result.line());
    if options.save { page::save(root, &result) } else { Ok(()) }
}

/// Seed that differs between runs, short enough to type.
fn fresh_seed() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    now.as_secs() % 1_000_000_000
}
