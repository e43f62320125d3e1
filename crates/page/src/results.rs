//! What a search engine answered: results, none, or neither. A page that blocks us looks like one without results to
//! whoever only counts them, so each of the three must be recognised, and what is none of them is said to be that.

mod duckduckgo;
mod json;

use url::Url;

use crate::charset;
use crate::order::{Engine, Failing, Found, Hit};
use crate::visible::line;

const LONGEST_TITLE: usize = 200;
const LONGEST_SNIPPET: usize = 500;
const LONGEST_URL: usize = 2000;

/// The results in a document, at most so many.
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

/// A result with a title and an address on the web, in single lines; nothing otherwise.
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

/// The same without those that lead where one before leads.
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
