//! Outcome of querying a search provider.

use outbound::{HttpResponse, OutboundError};
use schemars::JsonSchema;
use serde::Serialize;
use web_content::Engine;

/// Outcome of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Outcome {
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
pub(crate) struct Attempt {
    /// Name of the provider.
    pub(crate) provider: &'static str,
    /// Outcome of the attempt.
    pub(crate) outcome: Outcome,
    /// Details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// Seconds until it may be queried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u64>,
}

impl Outcome {
    /// Returns the name of the outcome in results.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Empty => "empty",
            Outcome::Blocked => "blocked",
            Outcome::RateLimited => "rate_limited",
            Outcome::Auth => "auth",
            Outcome::Quota => "quota",
            Outcome::Unreachable => "unreachable",
            Outcome::ParseChanged => "parse_changed",
        }
    }

    /// Returns the outcome of an HTTP status, or nothing if the body decides.
    pub(super) fn of_status(engine: Engine, answer: &HttpResponse) -> Option<(Outcome, String)> {
        let status = answer.status;
        let outcome = match (engine, status) {
            // A challenge page comes with status 202 or 200, so the body decides.
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 200 | 202) => return None,
            (Engine::Searxng | Engine::Brave | Engine::Tavily, 200) => return None,
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 403 | 418) => Outcome::Blocked,
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 400) => Outcome::RateLimited,
            (Engine::Searxng, 403) => {
                let how = "status 403: check that `search.formats` in its settings includes json".to_owned();
                return Some((Outcome::Auth, how));
            }
            (Engine::Brave, 402) => Outcome::Quota,
            (Engine::Tavily, 403 | 432 | 433) => Outcome::Quota,
            (Engine::Brave, 401 | 403 | 422) | (_, 401) => Outcome::Auth,
            (_, 429) => Outcome::RateLimited,
            (_, 500..=599) => Outcome::Unreachable,
            _ => Outcome::ParseChanged,
        };
        Some((outcome, format!("status {status}")))
    }

    /// Returns the outcome of a request without a response.
    pub(super) fn of_error(error: &OutboundError) -> (Outcome, String) {
        (Outcome::Unreachable, error.to_string())
    }
}
