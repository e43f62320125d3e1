//! Search providers, queried in order, each with its own protocol and rate, until one answers. Every attempt
//! is reported with its outcome, and a block is never reported as an empty result.

mod provider_outcome;
mod provider_query;
mod request_pacing;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tool::CallId;
use web_content::SearchEngine;

use super::options::ProviderOptions;

pub(super) use provider_outcome::{ProviderAttempt, ProviderOutcome};
pub(super) use provider_query::{RecencyRange, SearchRequest, query_provider};
use request_pacing::RequestPacing;

/// Search providers in order, with the state of each.
pub(super) struct ProviderChain {
    entries: Vec<ProviderSlot>,
}

/// Search provider and its rate state.
pub(super) struct ProviderSlot {
    pub(super) provider: ProviderOptions,
    pacing: Mutex<RequestPacing>,
}

impl ProviderChain {
    pub(super) fn new(providers: Vec<ProviderOptions>) -> Self {
        let link = |provider: ProviderOptions| ProviderSlot {
            pacing: Mutex::new(RequestPacing::for_engine(provider.engine)),
            provider,
        };
        ProviderChain { entries: providers.into_iter().map(link).collect() }
    }

    pub(super) fn entries(&self) -> &[ProviderSlot] {
        &self.entries
    }
}

impl ProviderSlot {
    /// Reserves the next request time, or returns why the provider is paused.
    pub(super) fn reserve_request(&self, call: CallId, now: Instant) -> Result<Instant, ProviderAttempt> {
        let mut interval = self.pacing.lock().unwrap_or_else(PoisonError::into_inner);
        interval.reserve_request(call, now).map_err(|(outcome, remaining)| ProviderAttempt {
            provider: engine_name(self.provider.engine),
            outcome,
            detail: Some("not queried: it is paused after an earlier failure".to_owned()),
            retry_after_seconds: Some(remaining.as_secs().max(1)),
            is_transient: false,
        })
    }

    /// Records the outcome of a call and returns how long the provider is paused.
    pub(super) fn record_outcome(
        &self,
        call: CallId,
        outcome: (ProviderOutcome, Option<Duration>),
        now: Instant,
    ) -> Option<Duration> {
        self.pacing.lock().unwrap_or_else(PoisonError::into_inner).record_outcome(call, outcome, now)
    }
}

/// Returns the name of a provider, as in settings and results.
pub(super) fn engine_name(engine: SearchEngine) -> &'static str {
    match engine {
        SearchEngine::DuckduckgoHtml => "duckduckgo_html",
        SearchEngine::DuckduckgoLite => "duckduckgo_lite",
        SearchEngine::Searxng => "searxng",
        SearchEngine::Brave => "brave",
        SearchEngine::Tavily => "tavily",
    }
}
