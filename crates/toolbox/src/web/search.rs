//! Search providers, queried in order, each with its own protocol and rate, until one answers. Every attempt
//! is reported with its outcome, and a block is never reported as an empty result.

mod ask;
mod outcome;
mod pace;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use web_content::{Engine, Hit};

use super::options::Provider;
use super::shelf::Shelf;

pub(super) use ask::{Range, Search, ask};
pub(super) use outcome::{Attempt, Outcome};
use pace::Pace;

/// Number of cached results.
const MOST_KEPT: usize = 64;

/// Search providers in order, with the state of each.
pub(super) struct Chain {
    links: Vec<Link>,
    pub(super) answers: Shelf<Answered>,
}

/// Search provider and its rate state.
pub(super) struct Link {
    pub(super) provider: Provider,
    pace: Mutex<Pace>,
}

/// Successful search.
pub(super) struct Answered {
    pub(super) engine: Engine,
    pub(super) url: String,
    pub(super) hits: Vec<Hit>,
    pub(super) tried: Vec<Attempt>,
}

impl Chain {
    pub(super) fn new(providers: Vec<Provider>, fresh_for: Duration) -> Self {
        let link = |provider: Provider| Link { pace: Mutex::new(Pace::of(provider.engine)), provider };
        Chain { links: providers.into_iter().map(link).collect(), answers: Shelf::new(fresh_for, MOST_KEPT) }
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }
}

impl Link {
    /// Reserves the next request time, or returns why the provider is paused.
    pub(super) fn turn(&self, now: Instant) -> Result<Instant, Attempt> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.turn(now).map_err(|(outcome, left)| Attempt {
            provider: word(self.provider.engine),
            outcome,
            detail: Some("not queried: it is paused after an earlier failure".to_owned()),
            retry_after_seconds: Some(left.as_secs().max(1)),
        })
    }

    /// Records an outcome and returns how long the provider is paused.
    pub(super) fn note(
        &self,
        outcome: Outcome,
        requested_pause: Option<Duration>,
        now: Instant,
    ) -> Option<Duration> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).note(outcome, requested_pause, now)
    }
}

/// Returns the name of a provider, as in settings and results.
pub(super) fn word(engine: Engine) -> &'static str {
    match engine {
        Engine::DuckduckgoHtml => "duckduckgo_html",
        Engine::DuckduckgoLite => "duckduckgo_lite",
        Engine::Searxng => "searxng",
        Engine::Brave => "brave",
        Engine::Tavily => "tavily",
    }
}
