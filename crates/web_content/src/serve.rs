//! Both ends of the pipe: a request and a document go in, a reply comes out. Each worker handles one
//! document, so that a hostile page cannot affect the next.

use std::io::{self, Read, Write};

use crate::decode::decode;
use crate::extraction::{ExtractionPurpose, ExtractionReply, ExtractionRequest};
use crate::page_text::extract_page;
use crate::{results, robots};

const LENGTH_PREFIX: usize = 4;
/// Maximum length of a request, which is an address and a few words.
const MAX_REQUEST_BYTES: usize = 64 * 1024;

/// Reads, in the worker, one request with its document and writes one reply.
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut head = [0; LENGTH_PREFIX];
    input.read_exact(&mut head)?;
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > MAX_REQUEST_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut order = vec![0; length];
    input.read_exact(&mut order)?;
    let order: ExtractionRequest = serde_json::from_slice(&order)?;
    let mut head = [0; 2 * LENGTH_PREFIX];
    input.read_exact(&mut head)?;
    let mut body = Vec::new();
    input.take(u64::from_be_bytes(head)).read_to_end(&mut body)?;
    serde_json::to_writer(&mut output, &extract(&order, body))?;
    output.flush()
}

/// Serialises, in the daemon, a request with its document.
pub fn write_request(order: &ExtractionRequest, document: &[u8]) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(order)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let size = document.len() as u64;
    Ok([length.to_be_bytes().as_slice(), &text, &size.to_be_bytes(), document].concat())
}

/// Parses, in the daemon, the reply of the worker.
pub fn read_reply(bytes: &[u8]) -> io::Result<ExtractionReply> {
    Ok(serde_json::from_slice(bytes)?)
}

fn extract(order: &ExtractionRequest, body: Vec<u8>) -> ExtractionReply {
    let decoded = match decode(body, &order.codings, order.max_bytes) {
        Ok(decoded) => decoded,
        Err(reason) => return ExtractionReply::Undecodable(reason),
    };
    let content_type = order.content_type.as_deref();
    match &order.purpose {
        ExtractionPurpose::Page { url, view } => {
            ExtractionReply::Page(extract_page(&decoded, content_type, url, *view))
        }
        ExtractionPurpose::Results { engine, max } => {
            ExtractionReply::Results(results::extract_results(&decoded.bytes, content_type, *engine, *max))
        }
        ExtractionPurpose::Robots { path } => ExtractionReply::Robots(robots::allows(&decoded.bytes, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extraction::PagePart;

    #[test]
    fn request_with_document_gives_a_reply() {
        let purpose =
            ExtractionPurpose::Page { url: "https://example.org/".to_owned(), view: PagePart::Readable };
        let order = ExtractionRequest {
            purpose,
            content_type: Some("text/plain".to_owned()),
            codings: Vec::new(),
            max_bytes: 3,
        };
        let mut output = Vec::new();
        let input = write_request(&order, b"abcdef").unwrap();
        serve(input.as_slice(), &mut output).unwrap();
        let ExtractionReply::Page(page) = read_reply(&output).unwrap() else { panic!("{output:?}") };
        assert_eq!((page.text.as_str(), page.is_cut), ("abc", true));
        let broken = ExtractionRequest { codings: vec!["gzip".to_owned()], ..order };
        let (input, mut output) = (write_request(&broken, b"abc").unwrap(), Vec::new());
        serve(input.as_slice(), &mut output).unwrap();
        assert!(matches!(read_reply(&output).unwrap(), ExtractionReply::Undecodable(_)));
        assert!(serve(&b"\xff\xff\xff\xff"[..], io::sink()).is_err(), "an overlong request is refused");
    }
}
