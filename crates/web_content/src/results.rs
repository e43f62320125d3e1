//! Answers of search engines: results, no results, or neither. A page that blocks the client looks like one
//! without results, so all three cases must be recognised, and anything else is reported as unknown.

mod duckduckgo;
mod json;

use url::Url;

use crate::charset;
use crate::order::{Engine, Failing, Found, Hit};
use crate::visible::line;

const LONGEST_TITLE: usize = 200;
const LONGEST_SNIPPET: usize = 500;
const LONGEST_URL: usize = 2000;

/// Extracts at most `most` results from a document.
pub(crate) fn find(bytes: &[u8], content_type: Option<&str>, engine: Engine, most: usize) -> Found {
    let (text, _) = charset::to_text(bytes, content_type);
    let found = match engine {
        Engine::DuckduckgoHtml => duckduckgo::html(&text),
        Engine::DuckduckgoLite => duckduckgo::lite(&text),
        Engine::Searxng => json::searxng(&text),
        Engine::Brave => json::brave(&text),
        Engine::Tavily => json::tavily(&text),
    };
    match found {
        Found::Hits(mut hits) => {
            hits.truncate(most);
            Found::Hits(hits)
        }
        other => other,
    }
}

/// Creates a result in single lines. Returns none without a title or a web address.
fn hit(title: &str, url: &str, snippet: &str, published: Option<&str>) -> Option<Hit> {
    let url =
        Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let title = line(title, LONGEST_TITLE);
    if title.is_empty() || url.as_str().len() > LONGEST_URL {
        return None;
    }
    let published = published.map(|text| line(text, 40)).filter(|text| !text.is_empty());
    Some(Hit { title, url: url.into(), snippet: line(snippet, LONGEST_SNIPPET), published })
}

/// Removes results with the same address as an earlier one.
fn without_repeats(hits: Vec<Hit>) -> Vec<Hit> {
    let mut kept: Vec<Hit> = Vec::new();
    for hit in hits {
        if !kept.iter().any(|known| known.url == hit.url) {
            kept.push(hit);
        }
    }
    kept
}

fn changed(why: &str) -> Found {
    Found::Failing(Failing::ParseChanged, why.to_owned())
}
