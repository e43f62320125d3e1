//! Both ends of the pipe: a request and a document go in, a reply comes out. Each worker handles one
//! document, so that a hostile page cannot affect the next.

use std::io::{self, Read, Write};

use crate::decode::decode;
use crate::order::{Order, Purpose, Reading};
use crate::read::read;
use crate::{results, robots};

const HEAD: usize = 4;
/// Maximum length of a request, which is an address and a few words.
const LONGEST_ORDER: usize = 64 * 1024;

/// Worker side: reads one request with its document and writes one reply.
pub fn serve(mut input: impl Read, mut output: impl Write) -> io::Result<()> {
    let mut head = [0; HEAD];
    input.read_exact(&mut head)?;
    let length = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
    if length > LONGEST_ORDER {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut order = vec![0; length];
    input.read_exact(&mut order)?;
    let order: Order = serde_json::from_slice(&order)?;
    let mut head = [0; 2 * HEAD];
    input.read_exact(&mut head)?;
    let mut body = Vec::new();
    input.take(u64::from_be_bytes(head)).read_to_end(&mut body)?;
    serde_json::to_writer(&mut output, &reading(&order, body))?;
    output.flush()
}

/// Daemon side: serialises a request with its document.
pub fn write_order(order: &Order, document: &[u8]) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(order)?;
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let size = document.len() as u64;
    Ok([length.to_be_bytes().as_slice(), &text, &size.to_be_bytes(), document].concat())
}

/// Daemon side: parses the reply.
pub fn read_reading(bytes: &[u8]) -> io::Result<Reading> {
    Ok(serde_json::from_slice(bytes)?)
}

fn reading(order: &Order, body: Vec<u8>) -> Reading {
    let decoded = match decode(body, &order.codings, order.most_bytes) {
        Ok(decoded) => decoded,
        Err(why) => return Reading::Undecodable(why),
    };
    let content_type = order.content_type.as_deref();
    match &order.purpose {
        Purpose::Page { url, view } => Reading::Page(read(&decoded, content_type, url, *view)),
        Purpose::Results { engine, most } => {
            Reading::Results(results::find(&decoded.bytes, content_type, *engine, *most))
        }
        Purpose::Robots { path } => Reading::Robots(robots::invites(&decoded.bytes, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::View;

    #[test]
    fn request_with_document_gives_a_reply() {
        let purpose = Purpose::Page { url: "https://example.org/".to_owned(), view: View::Readable };
        let order = Order {
            purpose,
            content_type: Some("text/plain".to_owned()),
            codings: Vec::new(),
            most_bytes: 3,
        };
        let mut output = Vec::new();
        let input = write_order(&order, b"abcdef").unwrap();
        serve(input.as_slice(), &mut output).unwrap();
        let Reading::Page(page) = read_reading(&output).unwrap() else { panic!("{output:?}") };
        assert_eq!((page.text.as_str(), page.is_cut), ("abc", true));
        let broken = Order { codings: vec!["gzip".to_owned()], ..order };
        let (input, mut output) = (write_order(&broken, b"abc").unwrap(), Vec::new());
        serve(input.as_slice(), &mut output).unwrap();
        assert!(matches!(read_reading(&output).unwrap(), Reading::Undecodable(_)));
        assert!(serve(&b"\xff\xff\xff\xff"[..], io::sink()).is_err(), "an overlong request is refused");
    }
}
