//! What a provider gave, in one word.

use outbound::{Answer, OutboundError};
use page::Engine;
use schemars::JsonSchema;
use serde::Serialize;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Outcome {
    /// Results.
    Ok,
    /// It says that there are none.
    Empty,
    /// It takes us for a robot, or its own sources do.
    Blocked,
    /// Too many questions.
    RateLimited,
    /// The key is missing or wrong, or the service is not set up for this.
    Auth,
    /// What the plan grants is used up.
    Quota,
    /// Nobody answered, or policy closes the way there.
    Unreachable,
    /// It answered, but not in the way it used to.
    ParseChanged,
}

/// One provider that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(inline)]
pub(crate) struct Attempt {
    /// Who.
    pub(crate) provider: &'static str,
    /// What it gave.
    pub(crate) outcome: Outcome,
    /// More about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// When it may be asked again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u64>,
}

impl Outcome {
    /// The word on the wire.
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

    /// What a status means, where it alone decides; nothing where the page must be read.
    pub(super) fn of_status(engine: Engine, answer: &Answer) -> Option<(Outcome, String)> {
        let status = answer.status;
        let outcome = match (engine, status) {
            // A challenge comes with 202, and sometimes with 200: the page tells.
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 200 | 202) => return None,
            (Engine::Searxng | Engine::Brave | Engine::Tavily, 200) => return None,
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 403 | 418) => Outcome::Blocked,
            (Engine::DuckduckgoHtml | Engine::DuckduckgoLite, 400) => Outcome::RateLimited,
            (Engine::Searxng, 403) => {
                let how = "403: does `search.formats` of its own settings list json?".to_owned();
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

    /// What it means that nothing came back.
    pub(super) fn of_error(error: &OutboundError) -> (Outcome, String) {
        (Outcome::Unreachable, error.to_string())
    }
}
