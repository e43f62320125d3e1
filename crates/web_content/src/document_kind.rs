//! Kind of a document, from its content type, or from its first bytes if that is inconclusive.

use crate::extraction::DocumentKind;

/// Number of bytes examined.
const SNIFFED_BYTES: usize = 1024;

/// Returns the kind of a document.
pub(crate) fn document_kind(bytes: &[u8], content_type: Option<&str>) -> DocumentKind {
    let beginning = bytes.get(..SNIFFED_BYTES.min(bytes.len())).unwrap_or_default();
    if beginning.starts_with(b"%PDF-") {
        return DocumentKind::Pdf;
    }
    let media_type =
        content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media_type.as_str() {
        "application/pdf" => DocumentKind::Pdf,
        "text/html" | "application/xhtml+xml" => DocumentKind::Html,
        "application/json" | "text/json" => DocumentKind::Json,
        media_type if media_type.ends_with("+json") => DocumentKind::Json,
        media_type
            if media_type.starts_with("image/")
                || media_type.starts_with("audio/")
                || media_type.starts_with("video/") =>
        {
            if media_type == "image/svg+xml" {
                DocumentKind::Text
            } else {
                DocumentKind::Binary
            }
        }
        _ => sniff(beginning),
    }
}

fn sniff(beginning: &[u8]) -> DocumentKind {
    let has_mark = beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff");
    if beginning.contains(&0) && !has_mark {
        return DocumentKind::Binary;
    }
    let text = String::from_utf8_lossy(beginning).trim_start().to_ascii_lowercase();
    let is_html =
        text.starts_with("<!doctype html") || text.starts_with("<html") || text.starts_with("<head");
    if is_html { DocumentKind::Html } else { DocumentKind::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_kinds_are_distinguished() {
        let check = |bytes: &[u8], content_type: Option<&str>, expect: DocumentKind| {
            assert_eq!(document_kind(bytes, content_type), expect, "{content_type:?}");
        };
        check(b"x", Some("text/html; charset=utf-8"), DocumentKind::Html);
        check(b" <!DOCTYPE html><p>", None, DocumentKind::Html);
        check(b"<html>", Some("application/octet-stream"), DocumentKind::Html);
        check(b"{}", Some("application/json"), DocumentKind::Json);
        check(b"{}", Some("application/ld+json"), DocumentKind::Json);
        check(b"%PDF-1.7 ...", Some("text/html"), DocumentKind::Pdf);
        check(b"", Some("Application/PDF"), DocumentKind::Pdf);
        check(b"\x89PNG\r\n", Some("image/png"), DocumentKind::Binary);
        check(b"a\0b", None, DocumentKind::Binary);
        check(b"\xff\xfea\0", None, DocumentKind::Text);
        check(b"<svg/>", Some("image/svg+xml"), DocumentKind::Text);
        check(b"plain", Some("text/plain"), DocumentKind::Text);
    }
}
