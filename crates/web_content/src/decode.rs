//! Decoding of the content codings of a body, layer by layer and up to a size limit.

use std::io::{self, Cursor, Read};

use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

/// Maximum number of codings. Legitimate servers do not nest them.
const MAX_CODINGS: usize = 4;
const BUFFER: usize = 16 * 1024;

/// Decoded body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedBody {
    pub(crate) bytes: Vec<u8>,
    /// True if the limit was reached or the data is incomplete.
    pub(crate) is_cut: bool,
}

/// Decodes a body. Returns the decodable part of a broken one; it is an error if nothing can be decoded.
pub(crate) fn decode(body: Vec<u8>, codings: &[String], max: u64) -> Result<DecodedBody, String> {
    if codings.len() > MAX_CODINGS {
        return Err(format!("the body has more than {MAX_CODINGS} codings"));
    }
    // Each layer has the limit, so that an inner bomb is not unpacked to feed an outer decoder.
    let mut reader: Box<dyn Read> = Box::new(Cursor::new(body));
    for coding in codings.iter().rev() {
        reader = Box::new(decoder_for(reader, coding)?.take(max.saturating_add(1)));
    }
    let mut bytes = Vec::new();
    let read = reader.take(max.saturating_add(1)).read_to_end(&mut bytes);
    let is_long = bytes.len() as u64 > max;
    bytes.truncate(usize::try_from(max).unwrap_or(usize::MAX));
    match read {
        Err(error) if bytes.is_empty() => {
            Err(format!("the body is not valid `{}`: {error}", codings.join(", ")))
        }
        read => Ok(DecodedBody { bytes, is_cut: is_long || read.is_err() }),
    }
}

fn decoder_for(reader: Box<dyn Read>, coding: &str) -> Result<Box<dyn Read>, String> {
    Ok(match coding {
        "gzip" | "x-gzip" => Box::new(MultiGzDecoder::new(reader)),
        "deflate" => inflate(reader),
        "br" => Box::new(Decompressor::new(reader, BUFFER)),
        "zstd" => Box::new(ZstdFrames { rest: Some(PeekReader { first: None, reader }), frame: None }),
        _ => return Err(format!("the coding `{coding}` is not known")),
    })
}

/// Decodes `deflate`, which means zlib, but which many servers send without the zlib header.
fn inflate(mut reader: Box<dyn Read>) -> Box<dyn Read> {
    let mut head = [0; 2];
    let read = reader.read(&mut head).unwrap_or(0);
    let begun = Cursor::new(head).take(read as u64).chain(reader);
    let [method, check] = head;
    let is_zlib = method & 0x0f == 8 && u16::from_be_bytes([method, check]).is_multiple_of(31);
    if is_zlib { Box::new(ZlibDecoder::new(begun)) } else { Box::new(DeflateDecoder::new(begun)) }
}

/// Decoder for consecutive Zstandard frames.
struct ZstdFrames {
    /// Reader between frames.
    rest: Option<PeekReader>,
    /// Decoder within a frame.
    frame: Option<StreamingDecoder<PeekReader, FrameDecoder>>,
}

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(frame) = &mut self.frame {
                match frame.read(into)? {
                    0 => self.rest = self.frame.take().map(StreamingDecoder::into_inner),
                    read => return Ok(read),
                }
            }
            let Some(mut rest) = self.rest.take() else { return Ok(0) };
            if rest.is_at_end()? {
                return Ok(0);
            }
            let begun = StreamingDecoder::new(rest);
            let begun = begun.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()));
            self.frame = Some(begun?);
        }
    }
}

/// Reader with one byte of look-ahead.
struct PeekReader {
    first: Option<u8>,
    reader: Box<dyn Read>,
}

impl PeekReader {
    fn is_at_end(&mut self) -> io::Result<bool> {
        let mut byte = [0; 1];
        if self.first.is_none() && self.reader.read(&mut byte)? == 1 {
            self.first = byte.first().copied();
        }
        Ok(self.first.is_none())
    }
}

impl Read for PeekReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match (self.first.take(), into.first_mut()) {
            (Some(first), Some(first_byte)) => {
                *first_byte = first;
                Ok(1)
            }
            (first, None) => {
                self.first = first;
                Ok(0)
            }
            (None, Some(_)) => self.reader.read(into),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
    }

    fn words(codings: &[&str]) -> Vec<String> {
        codings.iter().map(|word| (*word).to_owned()).collect()
    }

    #[track_caller]
    fn check(body: Vec<u8>, codings: &[&str], max: u64, expect: &[u8], is_cut: bool) {
        let decoded = decode(body, &words(codings), max).unwrap();
        assert_eq!(decoded.bytes.len(), expect.len(), "{codings:?}");
        assert_eq!(decoded, DecodedBody { bytes: expect.to_vec(), is_cut }, "{codings:?}");
    }

    #[test]
    fn every_coding_is_decoded_and_cut_at_the_limit() {
        let text = b"hello hello hello hello";
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
        raw.write_all(text).unwrap();
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(text).unwrap();
        // `hello` in an uncompressed meta-block.
        let brotli = vec![0x0b, 0x02, 0x80, b'h', b'e', b'l', b'l', b'o', 0x03];
        let bodies = [
            (text.to_vec(), ""),
            (gzip(text), "gzip"),
            (gzip(text), "x-gzip"),
            (raw.finish().unwrap(), "deflate"),
            (zlib.finish().unwrap(), "deflate"),
            (zstd(text), "zstd"),
        ];
        for (body, coding) in bodies {
            let codings: Vec<&str> = Some(coding).filter(|coding| !coding.is_empty()).into_iter().collect();
            check(body.clone(), &codings, 100, text, false);
            check(body.clone(), &codings, text.len() as u64, text, false);
            check(body, &codings, 5, b"hello", true);
        }
        check(brotli.clone(), &["br"], 100, b"hello", false);
        check(brotli, &["br"], 2, b"he", true);
    }

    #[test]
    fn nested_and_concatenated_bombs_are_cut() {
        let bomb = gzip(&vec![0; 64 << 20]);
        assert!(bomb.len() < 100_000);
        let expect = vec![0; 1 << 20];
        check(bomb.clone(), &["gzip"], 1 << 20, &expect, true);
        check(gzip(&bomb), &["gzip", "gzip"], 1 << 20, &expect, true);
        check(zstd(&bomb), &["gzip", "zstd"], 1 << 20, &expect, true);
        check([gzip(b"ab"), gzip(b"cd")].concat(), &["gzip"], 100, b"abcd", false);
        check([zstd(b"ab"), zstd(b"cd")].concat(), &["zstd"], 100, b"abcd", false);
        let many = zstd(b"").repeat(50_000);
        check([many, zstd(b"x")].concat(), &["zstd"], 100, b"x", false);
    }

    #[test]
    fn truncated_body_is_partial_and_invalid_body_fails() {
        let noise: Vec<u8> = (0..50_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let whole = gzip(&noise);
        let decoded = decode(whole[..whole.len() / 2].to_vec(), &words(&["gzip"]), 100_000).unwrap();
        assert!(decoded.is_cut && noise.starts_with(&decoded.bytes) && !decoded.bytes.is_empty());
        for coding in ["gzip", "br", "zstd"] {
            let message = decode(b"<html>no".to_vec(), &words(&[coding]), 100).unwrap_err();
            assert!(message.contains(coding), "{message}");
        }
        assert!(
            decode(Vec::new(), &words(&["compress"]), 100).unwrap_err().contains("`compress` is not known")
        );
        assert!(decode(Vec::new(), &words(&["gzip"; 5]), 100).unwrap_err().contains("more than 4"));
    }
}
