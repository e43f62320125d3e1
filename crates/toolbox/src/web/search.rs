//! Who is asked when something is searched: one after the other, each in its own words and at its own pace, until one
//! answers. Every one that was tried says in one word what it gave, and a block is never called an empty answer.

mod ask;
mod outcome;
mod pace;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use page::{Engine, Hit};

use super::options::Provider;
use super::shelf::Shelf;

pub(super) use ask::{Range, Search, ask};
pub(super) use outcome::{Attempt, Outcome};
use pace::Pace;

/// How many answers are kept.
const MOST_KEPT: usize = 64;

/// The providers in their order, and what is known of each.
pub(super) struct Chain {
    links: Vec<Link>,
    pub(super) answers: Shelf<Answered>,
}

/// A provider and how it stands with us.
pub(super) struct Link {
    pub(super) provider: Provider,
    pace: Mutex<Pace>,
}

/// An answer that was given.
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
    /// When it may be asked, or why it is left alone for now.
    pub(super) fn turn(&self, now: Instant) -> Result<Instant, Attempt> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        pace.turn(now).map_err(|(outcome, left)| Attempt {
            provider: word(self.provider.engine),
            outcome,
            detail: Some("not asked: it is left alone for a while".to_owned()),
            retry_after_seconds: Some(left.as_secs().max(1)),
        })
    }

    /// Takes note of what it gave, and says how long it is left alone.
    pub(super) fn note(&self, outcome: Outcome, asked: Option<Duration>, now: Instant) -> Option<Duration> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).note(outcome, asked, now)
    }
}

/// The word of a provider, in settings and answers.
pub(super) fn word(engine: Engine) -> &'static str {
    match engine {
        Engine::DuckduckgoHtml => "duckduckgo_html",
        Engine::DuckduckgoLite => "duckduckgo_lite",
        Engine::Searxng => "searxng",
        Engine::Brave => "brave",
        Engine::Tavily => "tavily",
    }
}
