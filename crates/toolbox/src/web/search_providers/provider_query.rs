//! Query of one search provider, in its own protocol.

use std::time::{Duration, Instant};

use governance::Permit;
use outbound::{
    Credential, HttpMethod, HttpRequest, HttpResponse, KeySources, OutboundError, ResponseLimits,
};
use sandbox::Sandbox;
use serde_json::json;
use tool::{Failure, Refusal};
use url::Url;
use url::form_urlencoded::Serializer;
use web_content::{
    ExtractionPurpose, ExtractionReply, SearchEngine, SearchFailure, SearchOutcome, WebSearchHit,
};

use super::{ProviderOutcome, ProviderSlot, engine_name};
use crate::web::options::ProviderOptions;
use crate::web::{WebState, max_response_bytes, page_reader};

/// Search request.
#[derive(Clone, Copy)]
pub(crate) struct SearchRequest<'a> {
    pub(crate) query: &'a str,
    pub(crate) max_results: usize,
    pub(crate) range: Option<RecencyRange>,
}

/// Maximum age of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecencyRange {
    Day,
    Week,
    Month,
    Year,
}

/// Result of querying a provider.
pub(crate) struct ProviderResult {
    pub(crate) outcome: ProviderOutcome,
    pub(crate) detail: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) hits: Vec<WebSearchHit>,
    /// Refusal by the policy, if it does not allow the provider.
    pub(crate) refusal: Option<Box<Refusal>>,
    pub(crate) read: Option<page_reader::WorkerReading>,
}

impl ProviderResult {
    fn new(outcome: ProviderOutcome, detail: impl Into<String>) -> Self {
        let detail = Some(detail.into());
        ProviderResult { outcome, detail, retry_after: None, hits: Vec::new(), refusal: None, read: None }
    }

    /// Masks the API key wherever the provider repeats it.
    fn mask_key(mut self, credential: &Credential) -> ProviderResult {
        let mask = |text: &mut String| {
            if let Some(masked) = credential.mask(text) {
                *text = masked;
            }
        };
        for WebSearchHit { title, url, snippet, published } in &mut self.hits {
            [title, url, snippet].into_iter().chain(published).for_each(mask);
        }
        self.detail.iter_mut().for_each(mask);
        self
    }
}

/// Queries a provider. An error means that no response can be parsed, whichever provider is queried.
pub(crate) async fn query_provider(
    state: &WebState,
    sandbox: &Sandbox,
    permit: &Permit,
    link: &ProviderSlot,
    search: SearchRequest<'_>,
    deadline: Instant,
) -> Result<ProviderResult, Failure> {
    let provider = &link.provider;
    let request = match build_request(provider, search, &state.user_agent) {
        Ok(request) => request,
        Err(reason) => return Ok(ProviderResult::new(ProviderOutcome::Auth, reason)),
    };
    let caps = ResponseLimits { body_bytes: max_response_bytes(permit), deadline };
    let response = match state.gateway.send(permit, &request, caps).await {
        Ok(response) => response,
        Err(error) => {
            let (outcome, detail) = ProviderOutcome::of_error(&error);
            let refusal = match error {
                OutboundError::Denied(refusal) => Some(refusal),
                _ => None,
            };
            return Ok(ProviderResult { refusal, ..ProviderResult::new(outcome, detail) });
        }
    };
    let retry_after =
        response.retry_after.as_deref().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    if let Some((outcome, detail)) = ProviderOutcome::of_status(provider.engine, &response) {
        return Ok(ProviderResult { retry_after, ..ProviderResult::new(outcome, detail) });
    }
    let provider_result =
        parse_results(sandbox, provider.engine, &response, search.max_results, caps).await?;
    Ok(match &request.credential {
        Some(credential) => provider_result.mask_key(credential),
        None => provider_result,
    })
}

async fn parse_results(
    sandbox: &Sandbox,
    engine: SearchEngine,
    response: &HttpResponse,
    max: usize,
    caps: ResponseLimits,
) -> Result<ProviderResult, Failure> {
    let read = page_reader::read_document(
        sandbox,
        response,
        ExtractionPurpose::Results { engine, max },
        caps.body_bytes,
        caps.deadline,
    )
    .await?;
    let provider_result = match &read.reading {
        ExtractionReply::Results(SearchOutcome::Hits(hits)) => {
            let hits = hits.clone();
            ProviderResult { hits, detail: None, ..ProviderResult::new(ProviderOutcome::Ok, "") }
        }
        // A challenge page that is not recognised must not be reported as an empty result.
        ExtractionReply::Results(SearchOutcome::Nothing) if response.status == 202 => {
            ProviderResult::new(ProviderOutcome::Blocked, "status 202")
        }
        ExtractionReply::Results(SearchOutcome::Nothing) => {
            ProviderResult { detail: None, ..ProviderResult::new(ProviderOutcome::Empty, "") }
        }
        ExtractionReply::Results(SearchOutcome::Failing(SearchFailure::Blocked, reason)) => {
            ProviderResult::new(ProviderOutcome::Blocked, reason.clone())
        }
        ExtractionReply::Results(SearchOutcome::Failing(SearchFailure::ParseChanged, _))
            if response.status == 202 =>
        {
            ProviderResult::new(ProviderOutcome::Blocked, "status 202")
        }
        ExtractionReply::Results(SearchOutcome::Failing(SearchFailure::ParseChanged, reason))
        | ExtractionReply::Undecodable(reason) => {
            ProviderResult::new(ProviderOutcome::ParseChanged, reason.clone())
        }
        ExtractionReply::Page(_) | ExtractionReply::Robots(_) => ProviderResult::new(
            ProviderOutcome::ParseChanged,
            "the page worker returned the wrong kind of result",
        ),
    };
    Ok(ProviderResult { read: Some(read), ..provider_result })
}

/// Builds the request in the provider's protocol, with its API key, or returns why there is no key.
fn build_request(
    provider: &ProviderOptions,
    search: SearchRequest<'_>,
    user_agent: &str,
) -> Result<HttpRequest, String> {
    let url = &provider.url;
    let base = |request: HttpRequest, accept: &str| {
        request
            .header("user-agent", user_agent)
            .header("accept", accept)
            .header("accept-language", "en;q=0.9")
    };
    match provider.engine {
        SearchEngine::DuckduckgoHtml | SearchEngine::DuckduckgoLite => {
            let mut form = Serializer::new(String::new());
            form.append_pair("q", &quote_bangs(search.query)).append_pair("kl", "wt-wt");
            if provider.engine == SearchEngine::DuckduckgoHtml {
                form.append_pair("b", "");
            }
            if let Some(range) = search.range {
                form.append_pair("df", range_letter(range));
            }
            let origin = Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
            let request =
                HttpRequest { method: HttpMethod::Post, body: form.finish().into(), ..HttpRequest::get(url) };
            Ok(base(request, "text/html")
                .header("content-type", "application/x-www-form-urlencoded")
                .header("referer", format!("{origin}/")))
        }
        SearchEngine::Searxng => {
            let endpoint = format!("{}/search", url.trim_end_matches('/').trim_end_matches("/search"));
            let mut pairs = vec![("q", search.query), ("format", "json")];
            // SearXNG has no range of a week.
            pairs.extend(search.range.map(|range| {
                (
                    "time_range",
                    match range {
                        RecencyRange::Day => "day",
                        RecencyRange::Week | RecencyRange::Month => "month",
                        RecencyRange::Year => "year",
                    },
                )
            }));
            Ok(base(HttpRequest::get(with_query(&endpoint, &pairs)), "application/json, text/html;q=0.8"))
        }
        SearchEngine::Brave => {
            let count = search.max_results.to_string();
            let mut pairs =
                vec![("q", search.query), ("count", count.as_str()), ("text_decorations", "false")];
            let freshness = search.range.map(|range| format!("p{}", range_letter(range)));
            pairs.extend(freshness.as_deref().map(|freshness| ("freshness", freshness)));
            let request = base(HttpRequest::get(with_query(url, &pairs)), "application/json");
            Ok(HttpRequest {
                credential: Some(provider_credential(provider, Some("x-subscription-token"))?),
                ..request
            })
        }
        SearchEngine::Tavily => {
            let range = search.range.map(|range| match range {
                RecencyRange::Day => "day",
                RecencyRange::Week => "week",
                RecencyRange::Month => "month",
                RecencyRange::Year => "year",
            });
            let body = json!({"query": search.query, "max_results": search.max_results, "time_range": range});
            let request = HttpRequest {
                method: HttpMethod::Post,
                body: body.to_string().into(),
                ..HttpRequest::get(url)
            };
            let request = base(request, "application/json").header("content-type", "application/json");
            Ok(HttpRequest { credential: Some(provider_credential(provider, None)?), ..request })
        }
    }
}

/// Returns the API key of a provider, bound to its URL, or an error that lists where a key is searched.
fn provider_credential(provider: &ProviderOptions, header: Option<&str>) -> Result<Credential, String> {
    let ProviderOptions { engine, url, key_file, key_variable } = provider;
    let (account, file, variable) = (engine_name(*engine).to_owned(), key_file.clone(), key_variable.clone());
    let key = KeySources { account, file, variable }.find()?;
    Credential::new(key, url, header).map_err(|error| error.to_string())
}

fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs);
    format!("{url}?{}", query.finish())
}

fn range_letter(range: RecencyRange) -> &'static str {
    match range {
        RecencyRange::Day => "d",
        RecencyRange::Week => "w",
        RecencyRange::Month => "m",
        RecencyRange::Year => "y",
    }
}

/// Quotes words that begin with `!`: DuckDuckGo would redirect them to another site.
fn quote_bangs(query: &str) -> String {
    let quoted = |word: &str| if word.starts_with('!') { format!("\"{word}\"") } else { word.to_owned() };
    query.split_whitespace().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_for(engine: SearchEngine, url: &str) -> HttpRequest {
        let provider = ProviderOptions { url: url.to_owned(), ..ProviderOptions::default_for(engine) };
        let search = SearchRequest { query: "a b&c !w x", max_results: 7, range: Some(RecencyRange::Week) };
        build_request(&provider, search, "agent").unwrap_or_else(|reason| panic!("{reason}"))
    }

    #[test]
    fn each_provider_gets_its_own_request_format() {
        let html = request_for(SearchEngine::DuckduckgoHtml, "https://html.duckduckgo.com/html/");
        assert_eq!(String::from_utf8(html.body).unwrap(), "q=a+b%26c+%22%21w%22+x&kl=wt-wt&b=&df=w");
        assert!(html.headers.contains(&("referer", "https://html.duckduckgo.com/".to_owned())));
        for url in ["http://localhost:8888", "http://localhost:8888/", "http://localhost:8888/search"] {
            let searxng = request_for(SearchEngine::Searxng, url);
            let expect = "http://localhost:8888/search?q=a+b%26c+%21w+x&format=json&time_range=month";
            assert_eq!(searxng.url, expect);
        }
        let missing = build_request(
            &ProviderOptions::default_for(SearchEngine::Brave),
            SearchRequest { query: "a", max_results: 1, range: None },
            "agent",
        );
        assert!(
            std::env::var_os("BRAVE_API_KEY").is_some()
                || missing.is_err_and(|reason| reason.contains("no key"))
        );
    }
}
