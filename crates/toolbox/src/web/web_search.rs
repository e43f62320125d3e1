//! `web_search`: results of a search engine, from the first provider of the settings that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::Permit;
use page::Hit;
use registry::{AtWork, Order, Preview, Running, ToolExecutor};
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{Failure, FailureKind, Output, Refusal, SandboxTier, Usage};

use super::search::{Answered, Attempt, Link, Outcome, Range, Search, ask, word};
use super::{NOTICE, Way, Web};
use crate::tool_entry::ToolEntry;

/// How long one provider may take while there is another.
const PATIENCE: Duration = Duration::from_secs(12);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What to search for.
    #[schemars(extend("minLength" = 1, "maxLength" = 400))]
    query: String,
    /// How many results to answer with.
    #[serde(default = "usual_results")]
    #[schemars(extend("minimum" = 1, "maximum" = 20))]
    max_results: usize,
    /// Only pages that are not older than this.
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
    /// Who answered; absent if nobody did.
    provider: Option<&'static str>,
    /// `ok`, `empty` where the provider says that there are no results, or why nobody answered. Only `empty` means that
    /// there is nothing to be found.
    outcome: Outcome,
    /// What was found.
    results: Vec<Found>,
    /// Every provider that was tried, in order.
    tried: Vec<Attempt>,
    /// Whether this is the answer to the same question a moment ago.
    cached: bool,
    /// Always: strangers wrote it.
    untrusted: bool,
    /// What that means.
    notice: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct Found {
    /// Its title.
    title: String,
    /// Where it is.
    url: String,
    /// What the provider shows of it.
    snippet: String,
    /// When it was published, in the provider's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<String>,
}

struct WebSearch {
    web: Web,
    sandbox: Sandbox,
}

pub(super) fn tool(web: &Web, sandbox: &Sandbox) -> ToolEntry {
    let about = "Search the web. Says which provider answered and what each that was tried gave; `empty` is the only outcome \
                 that means there is nothing to be found. Without a key the search is a best effort.";
    let mut spec = super::spec("web_search", about);
    spec.example = Some(json!({"query": "opening hours of the town library"}));
    let executor = Arc::new(WebSearch { web: web.clone(), sandbox: sandbox.clone() });
    ToolEntry::with_executor(spec.input::<Arguments>().output::<Results>(), executor)
}

impl ToolExecutor for WebSearch {
    fn preview(&self, _permit: &Permit) -> Result<Preview, Failure> {
        let asked = self.web.way.chain.links().iter().map(|link| {
            let (name, url) = (word(link.provider.engine), &link.provider.url);
            let keyed = link.provider.key_file.is_some() || link.provider.key_variable.is_some();
            let key = if keyed { " and the key for it" } else { "" };
            ("asks".to_owned(), format!("{name} at {url}, with the query{key}"))
        });
        let mut facts: Vec<(String, String)> = asked.collect();
        facts.push(("until".to_owned(), "one of them answers".to_owned()));
        Ok(Preview { facts, at_work: AtWork::Gatekeeper, ..Preview::default() })
    }

    fn run(&self, order: Arc<Order>) -> Running {
        let (web, sandbox) = (self.web.clone(), self.sandbox.clone());
        Box::pin(async move {
            let permit = order.value();
            let arguments: Arguments = permit.call().typed()?;
            let key = format!("{} {:?} {}", arguments.max_results, arguments.time_range, arguments.query);
            let shelf = &web.way.chain.answers;
            let kept =
                shelf.get(&key, Instant::now()).filter(|kept| permit.may_reach_service(&kept.url).is_ok());
            if let Some(kept) = kept {
                return output(&results(&kept, true), Usage::default(), SandboxTier::None);
            }
            let went = walk(&web.way, &sandbox, permit, &arguments).await?;
            let answered = Arc::new(went.answered);
            let told = output(&results(&answered, false), went.usage, went.tier);
            shelf.put(key, answered, Instant::now());
            told
        })
    }
}

/// An answer, and what reading it took.
struct Went {
    answered: Answered,
    usage: Usage,
    tier: SandboxTier,
}

/// Asks one provider after the other until one answers.
async fn walk(way: &Way, sandbox: &Sandbox, permit: &Permit, arguments: &Arguments) -> Result<Went, Failure> {
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
    for link in way.chain.links() {
        let given = match turn(link, end).await {
            Ok(()) => {
                let deadline = end.min(Instant::now() + PATIENCE);
                ask(way, sandbox, permit, link, search, deadline).await?
            }
            Err(attempt) => {
                tried.push(attempt);
                continue;
            }
        };
        let provider = word(link.provider.engine);
        let pause = match &given.refusal {
            // Policy is asked again each time: it may have changed.
            Some(refusal) => {
                closed.push(Refusal::clone(refusal));
                None
            }
            None => link.note(given.outcome, given.retry_after, Instant::now()),
        };
        let retry_after_seconds = pause.map(|pause| pause.as_secs());
        tried.push(Attempt { provider, outcome: given.outcome, detail: given.detail, retry_after_seconds });
        if matches!(given.outcome, Outcome::Ok | Outcome::Empty) {
            let (engine, url) = (link.provider.engine, link.provider.url.clone());
            let (usage, tier) = given.read.map_or_else(Default::default, |read| (read.usage, read.tier));
            return Ok(Went { answered: Answered { engine, url, hits: given.hits, tried }, usage, tier });
        }
    }
    Err(nobody(tried, closed))
}

/// Waits until a provider may be asked.
async fn turn(link: &Link, end: Instant) -> Result<(), Attempt> {
    let turn = link.turn(Instant::now())?;
    tokio::time::sleep_until(turn.min(end).into()).await;
    Ok(())
}

/// Nobody answered. That is a failure, and never an empty answer.
fn nobody(tried: Vec<Attempt>, mut closed: Vec<Refusal>) -> Failure {
    if closed.len() == tried.len()
        && let Some(refusal) = closed.pop()
    {
        return Failure::denied(Box::new(refusal));
    }
    let outcomes: Vec<String> =
        tried.iter().map(|attempt| format!("{} {}", attempt.provider, attempt.outcome.as_str())).collect();
    let message = match outcomes.is_empty() {
        true => "nobody was asked: `web.search.providers` of sinew.yaml is empty".to_owned(),
        false => format!("no search provider answered: {}", outcomes.join(", ")),
    };
    let is_passing = tried.iter().all(|attempt| attempt.outcome == Outcome::Unreachable);
    let kind = if is_passing && !tried.is_empty() { FailureKind::Transient } else { FailureKind::Unreadable };
    let soonest = tried.iter().filter_map(|attempt| attempt.retry_after_seconds).min();
    let hint = match soonest {
        Some(seconds) => format!(
            "this does not mean that there is nothing to be found; ask again in {seconds} s, or add a provider to \
             `web.search.providers` in sinew.yaml"
        ),
        None => "add a provider to `web.search.providers` in sinew.yaml".to_owned(),
    };
    let outcome = tried.last().map_or(Outcome::Unreachable, |attempt| attempt.outcome);
    let told = Results {
        provider: None,
        outcome,
        results: Vec::new(),
        tried,
        cached: false,
        untrusted: true,
        notice: NOTICE,
    };
    Failure { output: serde_json::to_value(told).ok(), ..Failure::new(kind, message).hint(hint) }
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

fn output(results: &Results, usage: Usage, sandbox: SandboxTier) -> Result<Output, Failure> {
    let value: Value = serde_json::to_value(results).map_err(|error| {
        Failure::new(FailureKind::Crashed, format!("the tool's answer is not JSON: {error}"))
    })?;
    Ok(Output { value, usage, sandbox, ..Output::default() })
}
