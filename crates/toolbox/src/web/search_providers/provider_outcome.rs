//! Outcome of querying a search provider.

use outbound::{HttpResponse, OutboundError};
use schemars::JsonSchema;
use serde::Serialize;
use web_content::SearchEngine;

/// Outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum ProviderOutcome {
    /// It returned results.
    Ok,
    /// It reports that there are no results.
    Empty,
    /// It, or one of its sources, blocks the request as automated.
    Blocked,
    /// Too many requests.
    RateLimited,
    /// The API key is missing or wrong, or the service is not configured for this.
    Auth,
    /// The quota of the plan is used up.
    Quota,
    /// There was no response, or the policy does not allow the provider.
    Unreachable,
    /// The response has an unknown format.
    ParseChanged,
}

/// Attempt to query one provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct ProviderAttempt {
    /// Name of the provider.
    pub(crate) provider: &'static str,
    /// Outcome of the attempt.
    pub(crate) outcome: ProviderOutcome,
    /// Details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// Seconds until it may be queried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u64>,
    /// True if the network failed and the same call may query it again.
    #[serde(skip)]
    pub(crate) is_transient: bool,
}

impl ProviderOutcome {
    /// Returns the name of the outcome in results.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ProviderOutcome::Ok => "ok",
            ProviderOutcome::Empty => "empty",
            ProviderOutcome::Blocked => "blocked",
            ProviderOutcome::RateLimited => "rate_limited",
            ProviderOutcome::Auth => "auth",
            ProviderOutcome::Quota => "quota",
            ProviderOutcome::Unreachable => "unreachable",
            ProviderOutcome::ParseChanged => "parse_changed",
        }
    }

    /// Returns the outcome of an HTTP status, or nothing if the body decides.
    pub(super) fn of_status(
        engine: SearchEngine,
        response: &HttpResponse,
    ) -> Option<(ProviderOutcome, String)> {
        let status = response.status;
        let outcome = match (engine, status) {
            // A challenge page comes with status 202 or 200, so the body decides.
            (SearchEngine::DuckduckgoHtml | SearchEngine::DuckduckgoLite, 200 | 202) => return None,
            (SearchEngine::Searxng | SearchEngine::Brave | SearchEngine::Tavily, 200) => return None,
            (SearchEngine::DuckduckgoHtml | SearchEngine::DuckduckgoLite, 403 | 418) => {
                ProviderOutcome::Blocked
            }
            (SearchEngine::DuckduckgoHtml | SearchEngine::DuckduckgoLite, 400) => {
                ProviderOutcome::RateLimited
            }
            (SearchEngine::Searxng, 403) => {
                let how = "status 403: check that `search.formats` in its settings includes json".to_owned();
                return Some((ProviderOutcome::Auth, how));
            }
            (SearchEngine::Brave, 402) => ProviderOutcome::Quota,
            (SearchEngine::Tavily, 403 | 432 | 433) => ProviderOutcome::Quota,
            (SearchEngine::Brave, 401 | 403 | 422) | (_, 401) => ProviderOutcome::Auth,
            (_, 429) => ProviderOutcome::RateLimited,
            (_, 500..=599) => ProviderOutcome::Unreachable,
            _ => ProviderOutcome::ParseChanged,
        };
        Some((outcome, format!("status {status}")))
    }

    /// Returns the outcome of a request without a response.
    pub(super) fn of_error(error: &OutboundError) -> (ProviderOutcome, String) {
        (ProviderOutcome::Unreachable, error.to_string())
    }
}
