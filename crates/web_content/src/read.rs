//! Conversion of the bytes of a page to its text.

use serde_json::Value;

use crate::decode::Decoded;
use crate::order::{Kind, PageText, View};
use crate::visible::{line, visible};
use crate::{charset, html, kind};

const LONGEST_TITLE: usize = 300;

/// Extracts the text of a page.
pub(crate) fn read(decoded: &Decoded, content_type: Option<&str>, url: &str, view: View) -> PageText {
    let kind = kind::of(&decoded.bytes, content_type);
    let page = PageText {
        kind,
        charset: None,
        title: None,
        view: View::Source,
        text: String::new(),
        bytes: decoded.bytes.len() as u64,
        is_cut: decoded.is_cut,
        note: None,
    };
    let (text, charset) = match kind {
        Kind::Pdf => {
            let note = "a PDF: its text is not extracted; look for an HTML version".to_owned();
            return PageText { note: Some(note), ..page };
        }
        Kind::Binary => {
            return PageText { note: Some("binary content: not shown".to_owned()), ..page };
        }
        Kind::Html | Kind::Json | Kind::Text => charset::to_text(&decoded.bytes, content_type),
    };
    let page = PageText { charset: Some(charset.to_owned()), ..page };
    match (kind, view) {
        (Kind::Html, View::Readable | View::Whole) => {
            let told = html::tell(&text, url, view);
            let title = told.title.map(|title| line(&title, LONGEST_TITLE));
            PageText { title, view: told.view, text: visible(&told.text), note: told.note, ..page }
        }
        (Kind::Json, View::Readable | View::Whole) => {
            let (text, note) = indented(&text);
            PageText { text: visible(&text), view: View::Whole, note, ..page }
        }
        _ => PageText { text: visible(&text), ..page },
    }
}

/// Formats JSON with one value per line. Invalid JSON is returned unchanged, with a note.
fn indented(text: &str) -> (String, Option<String>) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => (serde_json::to_string_pretty(&value).unwrap_or_default(), None),
        Err(error) => (text.to_owned(), Some(format!("it is not valid JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(bytes: &[u8], content_type: &str, view: View) -> PageText {
        let decoded = Decoded { bytes: bytes.to_vec(), is_cut: false };
        read(&decoded, Some(content_type), "https://example.org/", view)
    }

    #[test]
    fn each_document_kind_is_extracted_as_such() {
        let json = page(b"{\"a\":[1]}", "application/json", View::Readable);
        assert_eq!((json.kind, json.text.as_str()), (Kind::Json, "{\n  \"a\": [\n    1\n  ]\n}"));
        assert!(page(b"{\"a\":", "application/json", View::Whole).note.unwrap().contains("not valid JSON"));
        let pdf = page(b"%PDF-1.4", "application/pdf", View::Readable);
        assert!(pdf.kind == Kind::Pdf && pdf.text.is_empty() && pdf.note.unwrap().contains("not extracted"));
        assert_eq!(page(b"\x89PNG\0", "image/png", View::Readable).text, "");
        let source = page(b"<p>x\x1b[0m</p>", "text/html", View::Source);
        assert_eq!((source.text.as_str(), source.view), ("<p>x\\u{1b}[0m</p>", View::Source));
        let text = page(b"n\xe9", "text/plain; charset=latin1", View::Readable);
        assert_eq!((text.text.as_str(), text.charset.as_deref()), ("né", Some("windows-1252")));
    }
}
