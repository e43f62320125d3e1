//! Query of one search provider, in its own protocol.

use std::time::{Duration, Instant};

use governance::Permit;
use outbound::{Caps, Credential, HttpRequest, HttpResponse, KeyPlaces, Method, OutboundError};
use sandbox::Sandbox;
use serde_json::json;
use tool::{Failure, Refusal};
use url::Url;
use url::form_urlencoded::Serializer;
use web_content::{Engine, Failing, Found, Hit, Purpose, Reading};

use super::{Link, Outcome, word};
use crate::web::options::Provider;
use crate::web::{Way, reader, response_cap};

/// Search request.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) query: &'a str,
    pub(crate) most: usize,
    pub(crate) range: Option<Range>,
}

/// Maximum age of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    Day,
    Week,
    Month,
    Year,
}

/// Result of querying a provider.
pub(crate) struct Given {
    pub(crate) outcome: Outcome,
    pub(crate) detail: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) hits: Vec<Hit>,
    /// Refusal by the policy, if it does not allow the provider.
    pub(crate) refusal: Option<Box<Refusal>>,
    pub(crate) read: Option<reader::Read>,
}

impl Given {
    fn new(outcome: Outcome, detail: impl Into<String>) -> Self {
        let detail = Some(detail.into());
        Given { outcome, detail, retry_after: None, hits: Vec::new(), refusal: None, read: None }
    }

    /// Masks the API key wherever the provider repeats it.
    fn masked(mut self, credential: &Credential) -> Given {
        let mask = |text: &mut String| {
            if let Some(masked) = credential.masked(text) {
                *text = masked;
            }
        };
        for Hit { title, url, snippet, published } in &mut self.hits {
            [title, url, snippet].into_iter().chain(published).for_each(mask);
        }
        self.detail.iter_mut().for_each(mask);
        self
    }
}

/// Queries a provider. An error means that no response can be parsed, whichever provider is queried.
pub(crate) async fn ask(
    state: &Way,
    sandbox: &Sandbox,
    permit: &Permit,
    link: &Link,
    search: Search<'_>,
    deadline: Instant,
) -> Result<Given, Failure> {
    let provider = &link.provider;
    let question = match question(provider, search, &state.user_agent) {
        Ok(question) => question,
        Err(why) => return Ok(Given::new(Outcome::Auth, why)),
    };
    let caps = Caps { body_bytes: response_cap(permit), deadline };
    let answer = match state.gatekeeper.ask(permit, &question, caps).await {
        Ok(answer) => answer,
        Err(error) => {
            let (outcome, detail) = Outcome::of_error(&error);
            let refusal = match error {
                OutboundError::Denied(refusal) => Some(refusal),
                _ => None,
            };
            return Ok(Given { refusal, ..Given::new(outcome, detail) });
        }
    };
    let retry_after =
        answer.retry_after.as_deref().and_then(|text| text.parse().ok()).map(Duration::from_secs);
    if let Some((outcome, detail)) = Outcome::of_status(provider.engine, &answer) {
        return Ok(Given { retry_after, ..Given::new(outcome, detail) });
    }
    let provider_answer = read(sandbox, provider.engine, &answer, search.most, caps).await?;
    Ok(match &question.credential {
        Some(credential) => provider_answer.masked(credential),
        None => provider_answer,
    })
}

async fn read(
    sandbox: &Sandbox,
    engine: Engine,
    answer: &HttpResponse,
    most: usize,
    caps: Caps,
) -> Result<Given, Failure> {
    let read =
        reader::read(sandbox, answer, Purpose::Results { engine, most }, caps.body_bytes, caps.deadline)
            .await?;
    let provider_answer = match &read.reading {
        Reading::Results(Found::Hits(hits)) => {
            let hits = hits.clone();
            Given { hits, detail: None, ..Given::new(Outcome::Ok, "") }
        }
        // A challenge page that is not recognised must not be reported as an empty result.
        Reading::Results(Found::Nothing) if answer.status == 202 => {
            Given::new(Outcome::Blocked, "status 202")
        }
        Reading::Results(Found::Nothing) => Given { detail: None, ..Given::new(Outcome::Empty, "") },
        Reading::Results(Found::Failing(Failing::Blocked, why)) => Given::new(Outcome::Blocked, why.clone()),
        Reading::Results(Found::Failing(Failing::ParseChanged, _)) if answer.status == 202 => {
            Given::new(Outcome::Blocked, "status 202")
        }
        Reading::Results(Found::Failing(Failing::ParseChanged, why)) | Reading::Undecodable(why) => {
            Given::new(Outcome::ParseChanged, why.clone())
        }
        Reading::Page(_) | Reading::Robots(_) => {
            Given::new(Outcome::ParseChanged, "the page worker returned the wrong kind of result")
        }
    };
    Ok(Given { read: Some(read), ..provider_answer })
}

/// Builds the request in the provider's protocol, with its API key, or returns why there is no key.
fn question(provider: &Provider, search: Search<'_>, user_agent: &str) -> Result<HttpRequest, String> {
    let url = &provider.url;
    let base = |question: HttpRequest, accept: &str| {
        question
            .header("user-agent", user_agent)
            .header("accept", accept)
            .header("accept-language", "en;q=0.9")
    };
    match provider.engine {
        Engine::DuckduckgoHtml | Engine::DuckduckgoLite => {
            let mut form = Serializer::new(String::new());
            form.append_pair("q", &without_bangs(search.query)).append_pair("kl", "wt-wt");
            if provider.engine == Engine::DuckduckgoHtml {
                form.append_pair("b", "");
            }
            if let Some(range) = search.range {
                form.append_pair("df", letter(range));
            }
            let origin = Url::parse(url).map(|url| url.origin().ascii_serialization()).unwrap_or_default();
            let question =
                HttpRequest { method: Method::Post, body: form.finish().into(), ..HttpRequest::get(url) };
            Ok(base(question, "text/html")
                .header("content-type", "application/x-www-form-urlencoded")
                .header("referer", format!("{origin}/")))
        }
        Engine::Searxng => {
            let endpoint = format!("{}/search", url.trim_end_matches('/').trim_end_matches("/search"));
            let mut pairs = vec![("q", search.query), ("format", "json")];
            // SearXNG has no range of a week.
            pairs.extend(search.range.map(|range| {
                (
                    "time_range",
                    match range {
                        Range::Day => "day",
                        Range::Week | Range::Month => "month",
                        Range::Year => "year",
                    },
                )
            }));
            Ok(base(HttpRequest::get(with_query(&endpoint, &pairs)), "application/json, text/html;q=0.8"))
        }
        Engine::Brave => {
            let count = search.most.to_string();
            let mut pairs =
                vec![("q", search.query), ("count", count.as_str()), ("text_decorations", "false")];
            let freshness = search.range.map(|range| format!("p{}", letter(range)));
            pairs.extend(freshness.as_deref().map(|freshness| ("freshness", freshness)));
            let question = base(HttpRequest::get(with_query(url, &pairs)), "application/json");
            Ok(HttpRequest {
                credential: Some(credential(provider, Some("x-subscription-token"))?),
                ..question
            })
        }
        Engine::Tavily => {
            let range = search.range.map(|range| match range {
                Range::Day => "day",
                Range::Week => "week",
                Range::Month => "month",
                Range::Year => "year",
            });
            let body = json!({"query": search.query, "max_results": search.most, "time_range": range});
            let question =
                HttpRequest { method: Method::Post, body: body.to_string().into(), ..HttpRequest::get(url) };
            let question = base(question, "application/json").header("content-type", "application/json");
            Ok(HttpRequest { credential: Some(credential(provider, None)?), ..question })
        }
    }
}

/// Returns the API key of a provider, bound to its URL, or an error that lists where a key is searched.
fn credential(provider: &Provider, header: Option<&str>) -> Result<Credential, String> {
    let Provider { engine, url, key_file, key_variable } = provider;
    let (account, file, variable) = (word(*engine).to_owned(), key_file.clone(), key_variable.clone());
    let key = KeyPlaces { account, file, variable }.find()?;
    Credential::new(key, url, header).map_err(|error| error.to_string())
}

fn with_query(url: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = Serializer::new(String::new());
    query.extend_pairs(pairs);
    format!("{url}?{}", query.finish())
}

fn letter(range: Range) -> &'static str {
    match range {
        Range::Day => "d",
        Range::Week => "w",
        Range::Month => "m",
        Range::Year => "y",
    }
}

/// Quotes words that begin with `!`: DuckDuckGo would redirect them to another site.
fn without_bangs(query: &str) -> String {
    let quoted = |word: &str| if word.starts_with('!') { format!("\"{word}\"") } else { word.to_owned() };
    query.split_whitespace().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(engine: Engine, url: &str) -> HttpRequest {
        let provider = Provider { url: url.to_owned(), ..Provider::of(engine) };
        let search = Search { query: "a b&c !w x", most: 7, range: Some(Range::Week) };
        question(&provider, search, "agent").unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn each_provider_gets_its_own_request_format() {
        let html = asked(Engine::DuckduckgoHtml, "https://html.duckduckgo.com/html/");
        assert_eq!(String::from_utf8(html.body).unwrap(), "q=a+b%26c+%22%21w%22+x&kl=wt-wt&b=&df=w");
        assert!(html.headers.contains(&("referer", "https://html.duckduckgo.com/".to_owned())));
        for url in ["http://localhost:8888", "http://localhost:8888/", "http://localhost:8888/search"] {
            let searxng = asked(Engine::Searxng, url);
            let expect = "http://localhost:8888/search?q=a+b%26c+%21w+x&format=json&time_range=month";
            assert_eq!(searxng.url, expect);
        }
        let missing =
            question(&Provider::of(Engine::Brave), Search { query: "a", most: 1, range: None }, "agent");
        assert!(
            std::env::var_os("BRAVE_API_KEY").is_some() || missing.is_err_and(|why| why.contains("no key"))
        );
    }
}
