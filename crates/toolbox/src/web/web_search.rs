//! `web_search`: results of the first configured search provider that answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use governance::Permit;
use registry::{CallPreview, ConfiguredService, ExecutionSite, ExecutorFuture, RecordedPermit, ToolExecutor};
use sandbox::Sandbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tool::{CallId, Failure, FailureKind, Refusal, ToolOutput};
use web_content::WebSearchHit;

use super::options::ProviderOptions;
use super::search_providers::{
    ProviderAttempt, ProviderOutcome, ProviderSlot, RecencyRange, SearchRequest, engine_name, query_provider,
};
use super::{UNTRUSTED_NOTICE, WebAccess, WebState};
use crate::tool_registration::{ToolRegistration, TypedOutput};

/// Longest time for one provider.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(12);

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
struct WebSearchOutput {
    /// Provider that answered; absent if none did.
    provider: Option<&'static str>,
    /// `ok`, `empty` if the provider reports no results, or why no provider answered. Only `empty` means that
    /// there are no results.
    outcome: ProviderOutcome,
    /// Results.
    results: Vec<SearchHit>,
    /// Providers that were tried, in order.
    tried: Vec<ProviderAttempt>,
    /// Always true: the content is from an external source.
    untrusted: bool,
    /// Notice about untrusted content.
    notice: &'static str,
}

#[derive(Serialize, JsonSchema)]
#[schemars(inline)]
struct SearchHit {
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
    web: WebAccess,
    sandbox: Sandbox,
}

pub(super) fn tool(web: &WebAccess, sandbox: &Sandbox) -> ToolRegistration {
    let about = "Search the web. Reports which provider answered and the outcome of each one tried; only the outcome `empty` \
                 means that there are no results. Without an API key the search may be blocked or incomplete.";
    let mut spec = super::web_spec("web_search", about);
    spec.example = Some(json!({"query": "opening hours of the town library"}));
    let executor = Arc::new(WebSearch { web: web.clone(), sandbox: sandbox.clone() });
    ToolRegistration::with_executor(spec.with_input::<Arguments>().with_output::<WebSearchOutput>(), executor)
}

impl ToolExecutor for WebSearch {
    fn preview(&self, _permit: &Permit) -> Result<CallPreview, Failure> {
        let requests = self.web.state.search_providers.entries().iter().map(|link| {
            let (name, url) = (engine_name(link.provider.engine), &link.provider.url);
            let keyed = link.provider.key_file.is_some() || link.provider.key_variable.is_some();
            let key = if keyed { " and its API key" } else { "" };
            ("requests".to_owned(), format!("{name} at {url}, with the query{key}"))
        });
        let mut facts: Vec<(String, String)> = requests.collect();
        facts.push(("until".to_owned(), "one of them answers".to_owned()));
        Ok(CallPreview { facts, execution_site: ExecutionSite::HttpGateway, ..CallPreview::default() })
    }

    fn services(&self) -> Vec<ConfiguredService> {
        let providers = self.web.state.search_providers.entries().iter().map(|link| &link.provider);
        let service = |provider: &ProviderOptions| ConfiguredService {
            name: engine_name(provider.engine).to_owned(),
            url: provider.url.to_string(),
        };
        providers.map(service).collect()
    }

    fn run(&self, recorded_permit: Arc<RecordedPermit>) -> ExecutorFuture {
        let (web, sandbox) = (self.web.clone(), self.sandbox.clone());
        Box::pin(async move {
            let arguments: Arguments = recorded_permit.value().call().typed()?;
            query_providers(&web.state, &sandbox, &recorded_permit, &arguments).await
        })
    }
}

/// Queries one provider after the other until one answers.
async fn query_providers(
    state: &WebState,
    sandbox: &Sandbox,
    recorded_permit: &RecordedPermit,
    arguments: &Arguments,
) -> Result<ToolOutput, Failure> {
    let (permit, call) = (recorded_permit.value(), recorded_permit.call_id());
    let search = SearchRequest {
        query: &arguments.query,
        max_results: arguments.max_results,
        range: arguments.time_range.map(|range| match range {
            TimeRange::Day => RecencyRange::Day,
            TimeRange::Week => RecencyRange::Week,
            TimeRange::Month => RecencyRange::Month,
            TimeRange::Year => RecencyRange::Year,
        }),
    };
    let end = Instant::now() + permit.timeout().mul_f64(0.9);
    let (mut tried, mut closed) = (Vec::new(), Vec::new());
    for link in state.search_providers.entries() {
        let result = match wait_for_request_slot(link, call, end).await {
            Ok(()) => {
                // Half of the time is left for the next provider, or for the retry of the last one.
                let now = Instant::now();
                let deadline = now + PROVIDER_TIMEOUT.min(end.saturating_duration_since(now) / 2);
                query_provider(state, sandbox, permit, link, search, deadline).await?
            }
            Err(attempt) => {
                tried.push(attempt);
                continue;
            }
        };
        let provider = engine_name(link.provider.engine);
        let pause = match &result.refusal {
            // A refusal pauses nothing: the policy is evaluated on every call, because it may change.
            Some(refusal) => {
                closed.push(Refusal::clone(refusal));
                None
            }
            None => link.record_outcome(call, (result.outcome, result.retry_after), Instant::now()),
        };
        let retry_after_seconds = pause.map(|pause| pause.as_secs());
        let is_transient = result.outcome == ProviderOutcome::Unreachable
            && result.refusal.is_none()
            && result.retry_after.is_none();
        tried.push(ProviderAttempt {
            provider,
            outcome: result.outcome,
            detail: result.detail,
            retry_after_seconds,
            is_transient,
        });
        if matches!(result.outcome, ProviderOutcome::Ok | ProviderOutcome::Empty) {
            let (usage, sandbox) = result.read.map_or_else(Default::default, |read| (read.usage, read.tier));
            let value = to_search_output(provider, result.hits, tried);
            let metadata = ToolOutput { usage, sandbox, ..ToolOutput::default() };
            return TypedOutput { value, metadata }.into_output();
        }
    }
    Err(all_providers_failed(tried, closed))
}

/// Waits until a provider may be queried.
async fn wait_for_request_slot(
    link: &ProviderSlot,
    call: CallId,
    end: Instant,
) -> Result<(), ProviderAttempt> {
    let start = link.reserve_request(call, Instant::now())?;
    tokio::time::sleep_until(start.min(end).into()).await;
    Ok(())
}

/// Failure if no provider answered. This is never reported as an empty result.
fn all_providers_failed(tried: Vec<ProviderAttempt>, mut closed: Vec<Refusal>) -> Failure {
    if closed.len() == tried.len()
        && let Some(refusal) = closed.pop()
    {
        return Failure::denied(Box::new(refusal));
    }
    let describe = |attempt: &ProviderAttempt| {
        let detail = attempt.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
        format!("{} {}{detail}", attempt.provider, attempt.outcome.as_str())
    };
    let outcomes: Vec<String> = tried.iter().map(describe).collect();
    let message = match outcomes.is_empty() {
        true => "no search provider is configured: `web.search.providers` in sinew.yaml is empty".to_owned(),
        false => format!("no search provider answered: {}", outcomes.join(", ")),
    };
    let soonest = tried.iter().filter_map(|attempt| attempt.retry_after_seconds).min();
    let is_unreachable = |attempt: &ProviderAttempt| {
        attempt.outcome == ProviderOutcome::Unreachable && attempt.retry_after_seconds.is_some()
    };
    let kind = match tried.iter().any(is_unreachable) {
        true => FailureKind::Transient,
        false => FailureKind::Unreadable,
    };
    let can_retry_now = tried.iter().any(|attempt| attempt.is_transient);
    let retry_after = soonest.filter(|_| !can_retry_now).map(Duration::from_secs);
    let hint = match soonest {
        Some(seconds) => format!(
            "this does not mean that there are no results; try again in {seconds} s, or add a provider to \
             `web.search.providers` in sinew.yaml"
        ),
        None => "add a provider to `web.search.providers` in sinew.yaml".to_owned(),
    };
    let outcome = tried.last().map_or(ProviderOutcome::Unreachable, |attempt| attempt.outcome);
    let output = WebSearchOutput {
        provider: None,
        outcome,
        results: Vec::new(),
        tried,
        untrusted: true,
        notice: UNTRUSTED_NOTICE,
    };
    let output = serde_json::to_value(output).ok();
    Failure { output, retry_after, ..Failure::new(kind, message).with_hint(hint) }
}

fn to_search_output(
    provider: &'static str,
    hits: Vec<WebSearchHit>,
    tried: Vec<ProviderAttempt>,
) -> WebSearchOutput {
    let found = |hit: WebSearchHit| SearchHit {
        title: hit.title,
        url: hit.url,
        snippet: hit.snippet,
        published: hit.published,
    };
    WebSearchOutput {
        provider: Some(provider),
        outcome: if hits.is_empty() { ProviderOutcome::Empty } else { ProviderOutcome::Ok },
        results: hits.into_iter().map(found).collect(),
        tried,
        untrusted: true,
        notice: UNTRUSTED_NOTICE,
    }
}
