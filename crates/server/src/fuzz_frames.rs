//! Property of the line reader and the message parser, for the fuzz target `frame`.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

use crate::budget::MessageBudget;
use crate::frame::{LineFrame, LineReader};
use crate::rpc::{RpcMessage, parse_message};

/// Length limit that a small input can exceed.
const LIMIT: usize = 96;

/// Stream that delivers at most `size` bytes at a time.
struct Parts<'a> {
    rest: &'a [u8],
    size: usize,
}

impl AsyncRead for Parts<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let length = self.rest.len().min(self.size).min(buffer.remaining());
        let (part, rest) = self.rest.split_at(length);
        buffer.put_slice(part);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

/// Asserts that the size of the parts in which a stream arrives does not change its frames, and that every
/// accepted message is JSON. The first byte selects the size.
pub fn fuzz_frames(data: &[u8]) {
    let Some((size, stream)) = data.split_first() else { return };
    let (whole, parts) = (frames(stream, stream.len().max(1)), frames(stream, usize::from(*size) + 1));
    // A line that is no JSON object is refused as soon as that is known, which depends on the parts.
    let usable = |frames: &[String]| -> Vec<String> {
        frames.iter().take_while(|frame| !frame.starts_with("unusable")).cloned().collect()
    };
    let (all, some) = (usable(&whole), usable(&parts));
    let is_whole = |frames: &[String], seen: &[String]| frames.len() == seen.len();
    let is_same = (all.starts_with(&some) || some.starts_with(&all))
        && (all == some || !is_whole(&all, &whole) || !is_whole(&some, &parts));
    assert!(is_same, "{whole:?} in parts of {} bytes: {parts:?}", usize::from(*size) + 1);
}

fn frames(stream: &[u8], size: usize) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let mut reader = LineReader::new(Parts { rest: stream, size }, LIMIT, MessageBudget::new());
    let mut seen = Vec::new();
    let Ok(runtime) = runtime else { return seen };
    runtime.block_on(async {
        while let Ok(frame) = reader.next().await {
            match frame {
                LineFrame::Line(line) => {
                    assert!(!line.text.is_empty() && line.text.len() <= LIMIT && !line.text.contains('\n'));
                    check_message(line.text);
                    seen.push(format!("line {}", line.text));
                }
                LineFrame::NotUtf8(id) => seen.push(format!("not UTF-8 {id:?}")),
                LineFrame::TooLong(id) => seen.push(format!("too long {id:?}")),
                LineFrame::Unusable(why, id) => {
                    seen.push(format!("unusable {why:?} {id:?}"));
                    break;
                }
                LineFrame::End => break,
            }
        }
    });
    seen
}

fn check_message(text: &str) {
    let Ok(message) = parse_message(text) else { return };
    let value: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let (RpcMessage::Request { method, .. } | RpcMessage::Notification { method, .. }) = &message;
    assert_eq!(value.get("method").and_then(serde_json::Value::as_str), Some(&**method), "{text}");
    assert_eq!(value.get("id").is_some(), matches!(message, RpcMessage::Request { .. }), "{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_do_not_depend_on_the_parts_they_arrive_in() {
        let long = format!("{{\"id\":7,\"x\":\"{}\"}}\n{{\"id\":1}}\n", "y".repeat(LIMIT));
        let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\r\n\n{\"a\":\"\\u0000\"}\n";
        let not_one_object = format!("{{\"x\":\"{}\",\"id\":1}}}}\n", "y".repeat(LIMIT));
        fuzz_frames(&[&[0], not_one_object.as_bytes()].concat());
        for stream in [long.as_bytes(), request.as_bytes(), b"\xff\n{}\n", b"\x16\x03\n", b"[", b""] {
            for size in [0, 1, 6, 200] {
                fuzz_frames(&[&[size], stream].concat());
            }
        }
    }
}
