//! `web_search`: results of the first configured search provider that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::Permit;
use registry::{AtWork, Order, Preview, Running, ToolExecutor};
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{Failure, FailureKind, Output, Refusal, SandboxTier, Usage};
use web_content::Hit;

use super::search::{Answered, Attempt, Link, Outcome, Range, Search, ask, word};
use super::{NOTICE, Way, Web};
use crate::tool_entry::{Answer, ToolEntry};

/// Longest time for one provider.
const PATIENCE: Duration = Duration::from_secs(12);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Search terms.
    #[schemars(extend("minLength" = 1, "maxLength" = 400))]
    query: String,
    /// Maximum number of results.
    #[serde(default = "usual_results")]
    #[schemars(extend("minimum" = 1, "maximum" = 20))]
    max_results: usize,
    /// Return only pages not older than this.
    #[serde(default)]
    time_range: Option<TimeRange>,
}

fn usual_results() -> usize {
    10
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum TimeRange {
    Day,
    Week,
    Month,
    Year,
}

#[derive(Serialize, JsonSchema)]
struct Results {
    /// Provider that answered; absent if none did.
    provider: Option<&'static str>,
    /// `ok`, `empty` if the provider reports no results, or why no provider answered. Only `empty` means that
    /// there are no results.
    outcome: Outcome,
    /// Results.
    results: Vec<Found>,
    /// Providers that were tried, in order.
    tried: Vec<Attempt>,
    /// True if this is the cached result of an earlier identical search.
    cached: bool,
    /// Always true: the content is from an external source.
    untrusted: bool,
    /// Notice about untrusted content.
    notice: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Found {
    /// Title of the page.
    title: String,
    /// URL of the page.
    url: String,
    /// Excerpt shown by the provider.
    snippet: String,
    /// Publication date, as given by the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
}

struct WebSearch {
    web: Web,
    sandbox: Sandbox,
}

pub(super) fn tool(web: &Web, sandbox: &Sandbox) -> ToolEntry {
    let about = "Search the web. Reports which provider answered and the outcome of each one tried; only the outcome `empty` \
                 means that there are no results. Without an API key the search may be blocked or incomplete.";
    let mut spec = super::spec("web_search", about);
    spec.example = Some(json!({"query": "opening hours of the town library"}));
    let executor = Arc::new(WebSearch { web: web.clone(), sandbox: sandbox.clone() });
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Results>(), executor)
}

impl ToolExecutor for WebSearch {
    fn preview(&self, _permit: &Permit) -> Result<Preview, Failure> {
        let requests = self.web.way.chain.links().iter().map(|link| {
            let (name, url) = (word(link.provider.engine), &link.provider.url);
            let keyed = link.provider.key_file.is_some() || link.provider.key_variable.is_some();
            let key = if keyed { " and its API key" } else { "" };
            ("requests".to_owned(), format!("{name} at {url}, with the query{key}"))
        });
        let mut facts: Vec<(String, String)> = requests.collect();
        facts.push(("until".to_owned(), "one of them answers".to_owned()));
        Ok(Preview { facts, at_work: AtWork::Gatekeeper, ..Preview::default() })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let (web, sandbox) = (self.web.clone(), self.sandbox.clone());
        Box::pin(async move {
            let permit = order.value();
            let arguments: Arguments = permit.call().typed()?;
            let key = format!("{} {:?} {}", arguments.max_results, arguments.time_range, arguments.query);
            let cache = &web.way.chain.answers;
            let cached_answer = cache
                .get(&key, Instant::now())
                .filter(|cached_answer| permit.may_reach_service(&cached_answer.url).is_ok());
            if let Some(cached_answer) = cached_answer {
                return output(results(&cached_answer, true), Usage::default(), SandboxTier::None);
            }
            let search_run = walk(&web.way, &sandbox, permit, &arguments).await?;
            let answered = Arc::new(search_run.answered);
            let result = output(results(&answered, false), search_run.usage, search_run.tier);
            cache.put(key, answered, Instant::now());
            result
        })
    }
}

/// Successful search and the resources it used.
struct Went {
    answered: Answered,
    usage: Usage,
    tier: SandboxTier,
}

/// Queries one provider after the other until one answers.
async fn walk(
    state: &Way,
    sandbox: &Sandbox,
    permit: &Permit,
    arguments: &Arguments,
) -> Result<Went, Failure> {
    let search = Search {
        query: &arguments.query,
        most: arguments.max_results,
        range: arguments.time_range.map(|range| match range {
            TimeRange::Day => Range::Day,
            TimeRange::Week => Range::Week,
            TimeRange::Month => Range::Month,
            TimeRange::Year => Range::Year,
        }),
    };
    let end = Instant::now() + permit.timeout().mul_f64(0.9);
    let (mut tried, mut closed) = (Vec::new(), Vec::new());
    for link in state.chain.links() {
        let answer = match turn(link, end).await {
            Ok(()) => {
                let deadline = end.min(Instant::now() + PATIENCE);
                ask(state, sandbox, permit, link, search, deadline).await?
            }
            Err(attempt) => {
                tried.push(attempt);
                continue;
            }
        };
        let provider = word(link.provider.engine);
        let pause = match &answer.refusal {
            // A refusal pauses nothing: the policy is evaluated on every call, because it may change.
            Some(refusal) => {
                closed.push(Refusal::clone(refusal));
                None
            }
            None => link.note(answer.outcome, answer.retry_after, Instant::now()),
        };
        let retry_after_seconds = pause.map(|pause| pause.as_secs());
        tried.push(Attempt { provider, outcome: answer.outcome, detail: answer.detail, retry_after_seconds });
        if matches!(answer.outcome, Outcome::Ok | Outcome::Empty) {
            let (engine, url) = (link.provider.engine, link.provider.url.clone());
            let (usage, tier) = answer.read.map_or_else(Default::default, |read| (read.usage, read.tier));
            return Ok(Went { answered: Answered { engine, url, hits: answer.hits, tried }, usage, tier });
        }
    }
    Err(nobody(tried, closed))
}

/// Waits until a provider may be queried.
async fn turn(link: &Link, end: Instant) -> Result<(), Attempt> {
    let turn = link.turn(Instant::now())?;
    tokio::time::sleep_until(turn.min(end).into()).await;
    Ok(())
}

/// Failure if no provider answered. This is never reported as an empty result.
fn nobody(tried: Vec<Attempt>, mut closed: Vec<Refusal>) -> Failure {
    if closed.len() == tried.len()
        && let Some(refusal) = closed.pop()
    {
        return Failure::denied(Box::new(refusal));
    }
    let outcomes: Vec<String> =
        tried.iter().map(|attempt| format!("{} {}", attempt.provider, attempt.outcome.as_str())).collect();
    let message = match outcomes.is_empty() {
        true => "no search provider is configured: `web.search.providers` in sinew.yaml is empty".to_owned(),
        false => format!("no search provider answered: {}", outcomes.join(", ")),
    };
    let is_passing = tried.iter().all(|attempt| attempt.outcome == Outcome::Unreachable);
    let kind = if is_passing && !tried.is_empty() { FailureKind::Transient } else { FailureKind::Unreadable };
    let soonest = tried.iter().filter_map(|attempt| attempt.retry_after_seconds).min();
    let hint = match soonest {
        Some(seconds) => format!(
            "this does not mean that there are no results; try again in {seconds} s, or add a provider to \
             `web.search.providers` in sinew.yaml"
        ),
        None => "add a provider to `web.search.providers` in sinew.yaml".to_owned(),
    };
    let outcome = tried.last().map_or(Outcome::Unreachable, |attempt| attempt.outcome);
    let output = Results {
        provider: None,
        outcome,
        results: Vec::new(),
        tried,
        cached: false,
        untrusted: true,
        notice: NOTICE,
    };
    Failure { output: serde_json::to_value(output).ok(), ..Failure::new(kind, message).hint(hint) }
}

fn results(answered: &Answered, cached: bool) -> Results {
    let found = |hit: &Hit| Found {
        title: hit.title.clone(),
        url: hit.url.clone(),
        snippet: hit.snippet.clone(),
        published: hit.published.clone(),
    };
    Results {
        provider: Some(word(answered.engine)),
        outcome: if answered.hits.is_empty() { Outcome::Empty } else { Outcome::Ok },
        results: answered.hits.iter().map(found).collect(),
        tried: answered.tried.clone(),
        cached,
        untrusted: true,
        notice: NOTICE,
    }
}

fn output(value: Results, usage: Usage, sandbox: SandboxTier) -> Result<Output, Failure> {
    Answer { value, facts: Output { usage, sandbox, ..Output::default() } }.into_output()
}
