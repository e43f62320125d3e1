//! Search services that answer in JSON.

use serde_json::Value;

use super::{checked_hit, layout_changed, without_duplicates};
use crate::extraction::{SearchFailure, SearchOutcome, WebSearchHit};
use crate::token_scan::plain_text;

/// Parses a SearXNG answer. If all of its engines failed, there are no results, and the failures are
/// reported.
pub(super) fn searxng(text: &str) -> SearchOutcome {
    let Some(document) = parse_json(text) else { return layout_changed("the answer is not JSON") };
    let Some(results) = document.get("results").and_then(Value::as_array) else {
        return layout_changed("there is no `results`");
    };
    match outcome(results, "content", "publishedDate") {
        SearchOutcome::Nothing => {
            let silent = document.get("unresponsive_engines").and_then(Value::as_array);
            let silent: Vec<String> = silent.into_iter().flatten().map(failed_engine).take(8).collect();
            match silent.is_empty() {
                true => SearchOutcome::Nothing,
                false => SearchOutcome::Failing(
                    SearchFailure::Blocked,
                    format!("its engines do not answer: {}", silent.join(", ")),
                ),
            }
        }
        found => found,
    }
}

/// Formats an entry such as `["google", "CAPTCHA"]`.
fn failed_engine(pair: &Value) -> String {
    let parts = pair.as_array().map(|parts| parts.iter().filter_map(Value::as_str).collect::<Vec<_>>());
    let parts = parts.unwrap_or_else(|| pair.as_str().into_iter().collect());
    crate::escape_invisible::single_line(&parts.join(" "), 60)
}

/// Parses an answer of the Brave search service.
pub(super) fn brave(text: &str) -> SearchOutcome {
    let Some(document) = parse_json(text) else { return layout_changed("the answer is not JSON") };
    match (document.pointer("/web/results").and_then(Value::as_array), document.get("query")) {
        (Some(results), _) => outcome(results, "description", "age"),
        // Without results, the whole `web` section is missing.
        (None, Some(_)) if document.get("type").and_then(Value::as_str) == Some("search") => {
            SearchOutcome::Nothing
        }
        (None, _) => layout_changed("there is no `web.results`"),
    }
}

/// Parses an answer of the Tavily search service.
pub(super) fn tavily(text: &str) -> SearchOutcome {
    let Some(document) = parse_json(text) else { return layout_changed("the answer is not JSON") };
    match document.get("results").and_then(Value::as_array) {
        Some(results) => outcome(results, "content", "published_date"),
        None => layout_changed("there is no `results`"),
    }
}

fn parse_json(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok()
}

fn outcome(results: &[Value], snippet: &str, published: &str) -> SearchOutcome {
    let hits: Vec<WebSearchHit> =
        results.iter().filter_map(|result| read_hit(result, snippet, published)).collect();
    match (hits.is_empty(), results.is_empty()) {
        (false, _) => SearchOutcome::Hits(without_duplicates(hits)),
        (true, true) => SearchOutcome::Nothing,
        (true, false) => layout_changed("no result has a title and an address"),
    }
}

fn read_hit(result: &Value, snippet: &str, published: &str) -> Option<WebSearchHit> {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    checked_hit(&plain_text(text("title")), text("url"), &plain_text(text(snippet)), Some(text(published)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(found: &SearchOutcome, expect: &str) {
        let word = match found {
            SearchOutcome::Hits(hits) => {
                hits.iter().map(|hit| hit.url.as_str()).collect::<Vec<_>>().join(" ")
            }
            SearchOutcome::Nothing => "nothing".to_owned(),
            SearchOutcome::Failing(failing, reason) => format!("{failing:?} {reason}"),
        };
        assert!(word.starts_with(expect), "{found:?}");
    }

    #[test]
    fn searxng_is_read() {
        let results = r#"{"query": "q", "results": [
            {"url": "https://a.org/", "title": "A", "content": "about a", "publishedDate": "2026-01-02T00:00:00"},
            {"url": "https://a.org/", "title": "A again", "content": ""},
            {"url": "ftp://b.org/", "title": "B", "content": ""}], "unresponsive_engines": [["google", "CAPTCHA"]]}"#;
        check(&searxng(results), "https://a.org/");
        let SearchOutcome::Hits(hits) = searxng(results) else { panic!() };
        assert_eq!(hits[0].published.as_deref(), Some("2026-01-02T00:00:00"));
        check(&searxng(r#"{"results": [], "unresponsive_engines": []}"#), "nothing");
        let silent =
            r#"{"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "timeout"]]}"#;
        check(&searxng(silent), "Blocked its engines do not answer: google CAPTCHA, bing timeout");
        check(&searxng(r#"{"answers": []}"#), "ParseChanged");
        check(&searxng("<html>"), "ParseChanged");
    }

    #[test]
    fn brave_is_read() {
        let results = r#"{"type": "search", "query": {"original": "q"}, "web": {"results": [
            {"title": "A &amp; B", "url": "https://a.org/", "description": "the <strong>word</strong>", "age": "2 days ago"}]}}"#;
        let SearchOutcome::Hits(hits) = brave(results) else { panic!("{:?}", brave(results)) };
        assert_eq!((hits[0].title.as_str(), hits[0].snippet.as_str()), ("A & B", "the word"));
        check(&brave(r#"{"type": "search", "query": {"original": "q"}}"#), "nothing");
        check(&brave(r#"{"type": "ErrorResponse"}"#), "ParseChanged");
    }

    #[test]
    fn tavily_is_read() {
        let results = r#"{"query": "q", "results": [{"title": "A", "url": "https://a.org/", "content": "c", "score": 0.9}]}"#;
        check(&tavily(results), "https://a.org/");
        check(&tavily(r#"{"results": []}"#), "nothing");
        check(&tavily(r#"{"results": [{"name": "A"}]}"#), "ParseChanged no result has");
        check(&tavily(r#"{"detail": {"error": "x"}}"#), "ParseChanged");
    }
}
