//! Answers of search engines: results, no results, or neither. A page that blocks the client looks like one
//! without results, so all three cases must be recognised, and anything else is reported as unknown.

mod duckduckgo;
mod json;

use url::Url;

use crate::charset;
use crate::escape_invisible::single_line;
use crate::extraction::{SearchEngine, SearchFailure, SearchOutcome, WebSearchHit};

const MAX_TITLE_CHARS: usize = 200;
const MAX_SNIPPET_CHARS: usize = 500;
const MAX_URL_BYTES: usize = 2000;

/// Extracts at most `max` results from a document.
pub(crate) fn extract_results(
    bytes: &[u8],
    content_type: Option<&str>,
    engine: SearchEngine,
    max: usize,
) -> SearchOutcome {
    let (text, _) = charset::to_text(bytes, content_type);
    let found = match engine {
        SearchEngine::DuckduckgoHtml => duckduckgo::html(&text),
        SearchEngine::DuckduckgoLite => duckduckgo::lite(&text),
        SearchEngine::Searxng => json::searxng(&text),
        SearchEngine::Brave => json::brave(&text),
        SearchEngine::Tavily => json::tavily(&text),
    };
    match found {
        SearchOutcome::Hits(mut hits) => {
            hits.truncate(max);
            SearchOutcome::Hits(hits)
        }
        other => other,
    }
}

/// Creates a result in single lines. Returns none without a title or a web address.
fn checked_hit(title: &str, url: &str, snippet: &str, published: Option<&str>) -> Option<WebSearchHit> {
    let url =
        Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let title = single_line(title, MAX_TITLE_CHARS);
    if title.is_empty() || url.as_str().len() > MAX_URL_BYTES {
        return None;
    }
    let published = published.map(|text| single_line(text, 40)).filter(|text| !text.is_empty());
    Some(WebSearchHit { title, url: url.into(), snippet: single_line(snippet, MAX_SNIPPET_CHARS), published })
}

/// Removes results with the same address as an earlier one.
fn without_duplicates(hits: Vec<WebSearchHit>) -> Vec<WebSearchHit> {
    let mut unique: Vec<WebSearchHit> = Vec::new();
    for hit in hits {
        if !unique.iter().any(|known| known.url == hit.url) {
            unique.push(hit);
        }
    }
    unique
}

fn layout_changed(reason: &str) -> SearchOutcome {
    SearchOutcome::Failing(SearchFailure::ParseChanged, reason.to_owned())
}
