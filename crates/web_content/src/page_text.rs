//! Conversion of the bytes of a page to its text.

use serde_json::Value;

use crate::decode::DecodedBody;
use crate::escape_invisible::{escape_invisible, single_line};
use crate::extraction::{DocumentKind, PagePart, PageText};
use crate::{charset, document_kind, html};

const MAX_TITLE_CHARS: usize = 300;

/// Extracts the text of a page.
pub(crate) fn extract_page(
    decoded: &DecodedBody,
    content_type: Option<&str>,
    url: &str,
    view: PagePart,
) -> PageText {
    let kind = document_kind::document_kind(&decoded.bytes, content_type);
    let page = PageText {
        kind,
        charset: None,
        title: None,
        view: PagePart::Source,
        text: String::new(),
        bytes: decoded.bytes.len() as u64,
        is_cut: decoded.is_cut,
        note: None,
    };
    let (text, charset) = match kind {
        DocumentKind::Pdf => {
            let note = "a PDF: its text is not extracted; look for an HTML version".to_owned();
            return PageText { note: Some(note), ..page };
        }
        DocumentKind::Binary => {
            return PageText { note: Some("binary content: not shown".to_owned()), ..page };
        }
        DocumentKind::Html | DocumentKind::Json | DocumentKind::Text => {
            charset::to_text(&decoded.bytes, content_type)
        }
    };
    let page = PageText { charset: Some(charset.to_owned()), ..page };
    match (kind, view) {
        (DocumentKind::Html, PagePart::Readable | PagePart::Whole) => {
            let converted = html::convert(&text, url, view);
            let title = converted.title.map(|title| single_line(&title, MAX_TITLE_CHARS));
            PageText {
                title,
                view: converted.view,
                text: escape_invisible(&converted.text),
                note: converted.note,
                ..page
            }
        }
        (DocumentKind::Json, PagePart::Readable | PagePart::Whole) => {
            let (text, note) = pretty_json(&text);
            PageText { text: escape_invisible(&text), view: PagePart::Whole, note, ..page }
        }
        _ => PageText { text: escape_invisible(&text), ..page },
    }
}

/// Formats JSON with one value per line. Invalid JSON is returned unchanged, with a note.
fn pretty_json(text: &str) -> (String, Option<String>) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => (serde_json::to_string_pretty(&value).unwrap_or_default(), None),
        Err(error) => (text.to_owned(), Some(format!("it is not valid JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], content_type: &str, view: PagePart) -> PageText {
        let decoded = DecodedBody { bytes: bytes.to_vec(), is_cut: false };
        extract_page(&decoded, Some(content_type), "https://example.org/", view)
    }

    #[test]
    fn each_document_kind_is_extracted_as_such() {
        let json = page(b"{\"a\":[1]}", "application/json", PagePart::Readable);
        assert_eq!((json.kind, json.text.as_str()), (DocumentKind::Json, "{\n  \"a\": [\n    1\n  ]\n}"));
        assert!(
            page(b"{\"a\":", "application/json", PagePart::Whole).note.unwrap().contains("not valid JSON")
        );
        let pdf = page(b"%PDF-1.4", "application/pdf", PagePart::Readable);
        assert!(
            pdf.kind == DocumentKind::Pdf
                && pdf.text.is_empty()
                && pdf.note.unwrap().contains("not extracted")
        );
        assert_eq!(page(b"\x89PNG\0", "image/png", PagePart::Readable).text, "");
        let source = page(b"<p>x\x1b[0m</p>", "text/html", PagePart::Source);
        assert_eq!((source.text.as_str(), source.view), ("<p>x\\u{1b}[0m</p>", PagePart::Source));
        let text = page(b"n\xe9", "text/plain; charset=latin1", PagePart::Readable);
        assert_eq!((text.text.as_str(), text.charset.as_deref()), ("né", Some("windows-1252")));
    }
}
