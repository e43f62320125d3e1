//! Conversion of HTML to Markdown: the main content or the whole page.

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};
use url::Url;

use crate::extraction::PagePart;
use crate::token_scan::scan_tokens;

/// Maximum nesting depth. Real pages are flatter, and the time to build a tree grows with the square of the
/// depth.
const MAX_DEPTH: usize = 500;
/// Maximum number of elements for the article search.
const MAX_ELEMENTS: usize = 100_000;
/// Minimum length of an article. A shorter one is probably wrong, so the whole page is returned.
const MIN_ARTICLE_BYTES: usize = 200;
const SKIPPED_ELEMENTS: [&str; 8] =
    ["script", "style", "meta", "head", "noscript", "template", "svg", "iframe"];

/// Text of a page with its title, the part that was returned, and a note about different treatment.
pub(crate) struct ConvertedPage {
    pub(crate) text: String,
    pub(crate) title: Option<String>,
    pub(crate) view: PagePart,
    pub(crate) note: Option<String>,
}

/// Converts a page.
pub(crate) fn convert(html: &str, url: &str, view: PagePart) -> ConvertedPage {
    let skimmed = scan_tokens(html);
    if skimmed.depth > MAX_DEPTH {
        let note =
            format!("the elements are nested {} deep: the text is shown without structure", skimmed.depth);
        return ConvertedPage {
            text: skimmed.text,
            title: skimmed.title,
            view: PagePart::Whole,
            note: Some(note),
        };
    }
    let document = Document::from(html);
    make_links_absolute(&document, url);
    if view == PagePart::Readable
        && let Some((text, title)) = article(document.clone(), url)
    {
        return ConvertedPage { text, title: title.or(skimmed.title), view: PagePart::Readable, note: None };
    }
    let text = document.md(Some(&SKIPPED_ELEMENTS)).trim().to_owned();
    ConvertedPage { text, title: skimmed.title, view: PagePart::Whole, note: None }
}

fn article(document: Document, url: &str) -> Option<(String, Option<String>)> {
    let config = Config {
        text_mode: TextMode::Markdown,
        max_elements_to_parse: MAX_ELEMENTS,
        disable_json_ld: true,
        ..Config::default()
    };
    let mut reader = Readability::with_document(document, Some(url), Some(config)).ok()?;
    let article = reader.parse().ok()?;
    let text = article.text_content.trim().to_owned();
    let title = Some(article.title).filter(|title| !title.is_empty());
    (text.len() >= MIN_ARTICLE_BYTES).then_some((text, title))
}

/// Makes links absolute, because a relative link is useless outside its page.
fn make_links_absolute(document: &Document, url: &str) {
    let Ok(base) = Url::parse(url) else { return };
    for link in document.select("a[href]").iter() {
        let Some(whole) = link.attr("href").and_then(|href| base.join(&href).ok()) else { continue };
        if matches!(whole.scheme(), "http" | "https") {
            link.set_attr("href", whole.as_str());
        } else {
            link.remove_attr("href");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> String {
        let paragraph =
            "<p>The heron stands in the shallow water and waits, because waiting is how it eats; it has \
                         done so every morning of this year, and the fish have not learned.</p>"
                .repeat(6);
        format!(
            "<html><head><title>Herons</title></head><body><nav><a href='/a'>Menu entry</a></nav><article><h1>Herons</h1>\
             <h2>Waiting</h2>{paragraph}<ul><li>one</li><li><a href='next?x=1'>two</a></li></ul></article>\
             <script>evil()</script><footer>Imprint</footer></body></html>"
        )
    }

    #[test]
    fn article_is_markdown_without_menus() {
        let reported = convert(&page(), "https://example.org/birds/heron", PagePart::Readable);
        assert_eq!((reported.view, reported.title.as_deref()), (PagePart::Readable, Some("Herons")));
        assert!(
            reported.text.contains("## Waiting") && reported.text.contains("The heron stands"),
            "{}",
            reported.text
        );
        assert!(reported.text.contains("[two](https://example.org/birds/next?x=1)"), "{}", reported.text);
        assert!(
            !reported.text.contains("Menu entry") && !reported.text.contains("evil"),
            "{}",
            reported.text
        );
    }

    #[test]
    fn whole_page_contains_menus_but_no_scripts() {
        let reported = convert(&page(), "https://example.org/", PagePart::Whole);
        assert!(
            reported.text.contains("[Menu entry](https://example.org/a)")
                && reported.text.contains("Imprint")
        );
        assert!(!reported.text.contains("evil"));
        let short = convert(
            "<p>Short <a href='javascript:x()'>link</a>.</p>",
            "https://example.org/",
            PagePart::Readable,
        );
        assert_eq!(short.view, PagePart::Whole, "too little for an article");
        assert!(short.text.contains("Short") && !short.text.contains("javascript"), "{}", short.text);
    }

    #[test]
    fn deeply_nested_page_is_read_as_plain_text() {
        let deep = format!("{}secret text", "<div><b>".repeat(50_000));
        let reported = convert(&deep, "https://example.org/", PagePart::Readable);
        assert_eq!(reported.text, "secret text");
        assert!(reported.note.unwrap().contains("100000 deep"));
    }
}
