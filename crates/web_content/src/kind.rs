//! Kind of a document, from its content type, or from its first bytes if that is inconclusive.

use crate::order::Kind;

/// Number of bytes examined.
const BEGINNING: usize = 1024;

/// Returns the kind of a document.
pub(crate) fn of(bytes: &[u8], content_type: Option<&str>) -> Kind {
    let beginning = bytes.get(..BEGINNING.min(bytes.len())).unwrap_or_default();
    if beginning.starts_with(b"%PDF-") {
        return Kind::Pdf;
    }
    let said =
        content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match said.as_str() {
        "application/pdf" => Kind::Pdf,
        "text/html" | "application/xhtml+xml" => Kind::Html,
        "application/json" | "text/json" => Kind::Json,
        said if said.ends_with("+json") => Kind::Json,
        said if said.starts_with("image/") || said.starts_with("audio/") || said.starts_with("video/") => {
            if said == "image/svg+xml" {
                Kind::Text
            } else {
                Kind::Binary
            }
        }
        _ => by_looking(beginning),
    }
}

fn by_looking(beginning: &[u8]) -> Kind {
    let has_mark = beginning.starts_with(b"\xff\xfe") || beginning.starts_with(b"\xfe\xff");
    if beginning.contains(&0) && !has_mark {
        return Kind::Binary;
    }
    let text = String::from_utf8_lossy(beginning).trim_start().to_ascii_lowercase();
    let is_html =
        text.starts_with("<!doctype html") || text.starts_with("<html") || text.starts_with("<head");
    if is_html { Kind::Html } else { Kind::Text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn document_kinds_are_distinguished() {
        let check = |bytes: &[u8], said: Option<&str>, expect: Kind| {
            assert_eq!(of(bytes, said), expect, "{said:?}");
        };
        check(b"x", Some("text/html; charset=utf-8"), Kind::Html);
        check(b" <!DOCTYPE html><p>", None, Kind::Html);
        check(b"<html>", Some("application/octet-stream"), Kind::Html);
        check(b"{}", Some("application/json"), Kind::Json);
        check(b"{}", Some("application/ld+json"), Kind::Json);
        check(b"%PDF-1.7 ...", Some("text/html"), Kind::Pdf);
        check(b"", Some("Application/PDF"), Kind::Pdf);
        check(b"\x89PNG\r\n", Some("image/png"), Kind::Binary);
        check(b"a\0b", None, Kind::Binary);
        check(b"\xff\xfea\0", None, Kind::Text);
        check(b"<svg/>", Some("image/svg+xml"), Kind::Text);
        check(b"plain", Some("text/plain"), Kind::Text);
    }
}
