//! Character set of a document, from its byte order mark, its headers, its head, or detection.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Number of bytes searched for a charset declaration.
const DECLARATION_BYTES: usize = 1024;
/// Number of bytes used for detection.
const DETECTION_BYTES: usize = 64 * 1024;

/// Decodes a document and returns the name of its character set. Never fails: invalid bytes become U+FFFD.
pub(crate) fn to_text(bytes: &[u8], content_type: Option<&str>) -> (String, &'static str) {
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => declared_encoding(bytes, content_type).unwrap_or_else(|| detect_encoding(bytes)),
    };
    let (text, used, _) = encoding.decode(bytes);
    (text.into_owned(), used.name())
}

/// Returns the declared character set, if it is plausible.
fn declared_encoding(bytes: &[u8], content_type: Option<&str>) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(bytes.get(..DECLARATION_BYTES.min(bytes.len())).unwrap_or_default());
    let named = |text: &str| charset_label(text).and_then(|label| Encoding::for_label(label.as_bytes()));
    let by_header = content_type.and_then(named).filter(|encoding| is_plausible(bytes, encoding));
    // If the declaration of UTF-16 can be read as ASCII, the document is not UTF-16.
    let by_head = || named(&head).map(|encoding| if is_wide(encoding) { UTF_8 } else { encoding });
    by_header.or_else(by_head)
}

fn is_wide(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// Returns false for UTF-16 if the beginning is plain ASCII, because UTF-16 text contains zero or non-ASCII
/// bytes.
fn is_plausible(bytes: &[u8], encoding: &'static Encoding) -> bool {
    let beginning = bytes.get(..256.min(bytes.len())).unwrap_or_default();
    !is_wide(encoding) || beginning.contains(&0) || !beginning.is_ascii()
}

/// Returns the text after `charset=`.
fn charset_label(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let (_, rest) = lower.split_once("charset=")?;
    let rest = rest.trim_start_matches(['"', '\'', ' ']);
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_:.".contains(c)).unwrap_or(rest.len());
    rest.get(..end).map(str::to_owned)
}

fn detect_encoding(bytes: &[u8]) -> &'static Encoding {
    if is_utf8(bytes) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes.get(..DETECTION_BYTES.min(bytes.len())).unwrap_or_default(), true);
    detector.guess(None, Utf8Detection::Deny)
}

/// Returns true for UTF-8, possibly cut within the last character.
fn is_utf8(bytes: &[u8]) -> bool {
    match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], content_type: Option<&str>, expect: &str, charset: &str) {
        assert_eq!(to_text(bytes, content_type), (expect.to_owned(), charset_of(charset)));
    }

    fn charset_of(name: &str) -> &'static str {
        Encoding::for_label(name.as_bytes()).unwrap().name()
    }

    #[test]
    fn character_set_is_determined() {
        check("né".as_bytes(), None, "né", "utf-8");
        check(b"n\xe9", Some("text/html; charset=ISO-8859-1"), "né", "windows-1252");
        check(
            b"<meta charset='windows-1251'>\xef\xf0",
            None,
            "<meta charset='windows-1251'>пр",
            "windows-1251",
        );
        check(b"\xef\xbb\xbfn\xc3\xa9", Some("text/plain; charset=latin1"), "né", "utf-8");
        check(b"\xff\xfen\0\xe9\0", None, "né", "utf-16le");
        check(b"n\0\xe9\0", Some("text/plain; charset=\"utf-16le\""), "né", "utf-16le");
        check("né".as_bytes(), Some("text/plain; charset=no-such-thing"), "né", "utf-8");
        check("cut né".as_bytes().split_last().unwrap().1, None, "cut n\u{fffd}", "utf-8");
        let russian =
            encoding_rs::WINDOWS_1251.encode("Привет, это обычный русский текст без указания кодировки").0;
        assert_eq!(to_text(&russian, None).1, "windows-1251");
    }

    #[test]
    fn false_utf_16_and_utf_7_labels_hide_nothing() {
        let page = b"<script>alert(1)</script>";
        check(page, Some("text/html; charset=utf-16"), "<script>alert(1)</script>", "utf-8");
        check(b"<meta charset=utf-16le>x", None, "<meta charset=utf-16le>x", "utf-8");
        check(b"+ADw-script+AD4-", Some("text/html; charset=utf-7"), "+ADw-script+AD4-", "utf-8");
    }
}
