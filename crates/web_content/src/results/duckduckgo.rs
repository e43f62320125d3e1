//! The two DuckDuckGo pages that need no script. Results are searched first. A block is recognised by
//! attributes only, because the page also contains the words of the query.

use dom_query::{Document, Selection};
use url::Url;

use super::{checked_hit, layout_changed, without_duplicates};
use crate::extraction::{SearchFailure, SearchOutcome, WebSearchHit};
use crate::token_scan::scan_tokens;

/// Maximum nesting depth, above that of any result page.
const MAX_DEPTH: usize = 200;
const CHALLENGE_SELECTOR: &str = "form#challenge-form, form[action*='anomaly.js'], [class*='anomaly-modal']";

/// Parses a page of `html.duckduckgo.com`.
pub(super) fn html(text: &str) -> SearchOutcome {
    let Some(document) = document(text) else { return layout_changed("the page is nested too deeply") };
    let mut hits = Vec::new();
    for result in document.select("#links .result, #links .web-result").iter() {
        let link = result.select_single("a.result__a");
        let is_ad = result.has_class("result--ad");
        let snippet = result.select_single(".result__snippet").text();
        hits.extend(read_hit(&link, is_ad, &snippet));
    }
    outcome(&document, hits, "#links", "No results")
}

/// Parses a page of `lite.duckduckgo.com`.
pub(super) fn lite(text: &str) -> SearchOutcome {
    let Some(document) = document(text) else { return layout_changed("the page is nested too deeply") };
    let mut hits: Vec<WebSearchHit> = Vec::new();
    let mut is_wanted = false;
    for row in document.select("tr").iter() {
        let link = row.select_single("a.result-link");
        if link.exists() {
            let is_ad = row.has_class("result-sponsored");
            let read = read_hit(&link, is_ad, "");
            is_wanted = read.is_some();
            hits.extend(read);
        } else if is_wanted && row.select_single("td.result-snippet").exists() {
            let snippet = row.select_single("td.result-snippet").text();
            let last = hits.pop();
            hits.extend(last.and_then(|last| checked_hit(&last.title, &last.url, &snippet, None)));
            is_wanted = false;
        }
    }
    outcome(&document, hits, "body", "No more results")
}

fn document(text: &str) -> Option<Document> {
    (scan_tokens(text).depth <= MAX_DEPTH).then(|| Document::from(text))
}

fn read_hit(link: &Selection<'_>, is_ad: bool, snippet: &str) -> Option<WebSearchHit> {
    let href = link.attr("href").filter(|_| !is_ad)?;
    checked_hit(&link.text(), &target(&href)?, snippet, None)
}

/// Returns the final target of a link; none for an advertisement.
fn target(href: &str) -> Option<String> {
    let base = Url::parse("https://duckduckgo.com/").ok()?;
    let whole = match href.contains("://") || href.starts_with('/') {
        true => base.join(href).ok()?,
        false => Url::parse(&format!("https://{href}")).ok()?,
    };
    let is_theirs =
        whole.host_str().is_some_and(|host| host == "duckduckgo.com" || host.ends_with(".duckduckgo.com"));
    if !is_theirs {
        return Some(whole.into());
    }
    match whole.path() {
        "/l/" | "/l" => {
            let (_, target) = whole.query_pairs().find(|(name, _)| name == "uddg")?;
            let target =
                if target.contains("://") { target.into_owned() } else { format!("https://{target}") };
            // An advertisement may be hidden behind a redirect.
            let is_ad = Url::parse(&target).is_ok_and(|url| {
                url.path() == "/y.js" && url.host_str().is_some_and(|host| host.ends_with("duckduckgo.com"))
            });
            (!is_ad).then_some(target)
        }
        "/y.js" => None,
        _ => Some(whole.into()),
    }
}

fn outcome(document: &Document, hits: Vec<WebSearchHit>, selector: &str, none: &str) -> SearchOutcome {
    let hits = without_duplicates(hits);
    if !hits.is_empty() {
        return SearchOutcome::Hits(hits);
    }
    if document.select(CHALLENGE_SELECTOR).exists() {
        return SearchOutcome::Failing(SearchFailure::Blocked, "it shows a challenge for humans".to_owned());
    }
    let is_empty_page = |text: &str| text.contains(none) || text.contains("No results");
    if document.select(".no-results").exists() || is_empty_page(&document.select(selector).text()) {
        return SearchOutcome::Nothing;
    }
    layout_changed("the page contains neither results nor a statement that there are none")
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = include_str!("../../pages/duckduckgo_html_results.html");
    const CHALLENGED: &str = include_str!("../../pages/duckduckgo_challenge.html");
    const NONE: &str = include_str!("../../pages/duckduckgo_html_none.html");
    const ECHO: &str = include_str!("../../pages/duckduckgo_html_echo.html");
    const LITE: &str = include_str!("../../pages/duckduckgo_lite_results.html");
    const LITE_NONE: &str = include_str!("../../pages/duckduckgo_lite_none.html");

    fn urls(found: SearchOutcome) -> Vec<String> {
        let SearchOutcome::Hits(hits) = found else { panic!("{found:?}") };
        hits.into_iter().map(|hit| hit.url).collect()
    }

    #[test]
    fn results_exclude_advertisements_and_redirects() {
        let SearchOutcome::Hits(hits) = html(RESULTS) else { panic!("{:?}", html(RESULTS)) };
        let expect = [
            "https://www.rust-lang.org/",
            "https://doc.rust-lang.org/book/?a=1&b=2",
            "https://example.org/rust",
        ];
        assert_eq!(hits.iter().map(|hit| hit.url.as_str()).collect::<Vec<_>>(), expect);
        assert_eq!(hits[0].title, "Rust Programming Language");
        assert_eq!(
            hits[0].snippet,
            "A language empowering everyone to build reliable and efficient software."
        );
        let SearchOutcome::Hits(lite) = lite(LITE) else { panic!() };
        assert_eq!(lite.iter().map(|hit| hit.url.as_str()).collect::<Vec<_>>(), &expect[..2]);
        assert_eq!(lite[1].snippet, "The book about the language.");
    }

    #[test]
    fn block_is_distinguished_from_no_results() {
        let blocked =
            |found: &SearchOutcome| matches!(found, SearchOutcome::Failing(SearchFailure::Blocked, _));
        assert!(blocked(&html(CHALLENGED)) && blocked(&lite(CHALLENGED)));
        assert_eq!((html(NONE), lite(LITE_NONE)), (SearchOutcome::Nothing, SearchOutcome::Nothing));
        assert_eq!(urls(html(ECHO)).len(), 1, "a query that quotes a block is not a block");
        let echo_none = NONE.replace("zqxjkv", "anomaly.js anomaly-modal challenge-form");
        assert_eq!(html(&echo_none), SearchOutcome::Nothing);
    }

    #[test]
    fn unknown_layout_is_reported() {
        let changed =
            |found: &SearchOutcome| matches!(found, SearchOutcome::Failing(SearchFailure::ParseChanged, _));
        let renamed = RESULTS.replace("result__a", "r-title").replace("No results", "");
        assert!(changed(&html(&renamed)), "{:?}", html(&renamed));
        assert!(changed(&html("")) && changed(&lite("<p>Hello")) && changed(&html(&"<div>".repeat(1000))));
        let echo = "<title>No results. at DuckDuckGo</title><input value='No results.'>";
        assert!(changed(&html(echo)) && changed(&lite(echo)), "the query is not the result");
    }

    #[test]
    fn redirect_links_are_resolved() {
        let check = |href: &str, expect: Option<&str>| assert_eq!(target(href).as_deref(), expect, "{href}");
        check("https://a.org/x", Some("https://a.org/x"));
        check(
            "//duckduckgo.com/l/?uddg=https%3A%2F%2Fa.org%2F%3Fq%3D1%2526&rut=1",
            Some("https://a.org/?q=1%26"),
        );
        check("//duckduckgo.com/l/?uddg=a.org%2Fx&rut=1", Some("https://a.org/x"));
        check("https://duckduckgo.com/y.js?ad_domain=shop.example", None);
        check("//duckduckgo.com/l/?uddg=https%3A%2F%2Fduckduckgo.com%2Fy.js%3Fad_domain%3Dx", None);
        check("//duckduckgo.com/l/?rut=1", None);
        check("a.org/page", Some("https://a.org/page"));
        check("https://duckduckgo.com/about", Some("https://duckduckgo.com/about"));
    }
}
