//! Properties of messages from MCP servers, for the fuzz target `mcp_messages`.

use super::message::{PendingResponse, ServerMessage, is_response_to};
use super::sse_parser::SseParser;

/// Asserts that the parser and the filter of responses agree, and that events do not depend on the parts in
/// which they arrive.
pub fn fuzz_mcp_messages(data: &[u8]) {
    let pending = PendingResponse { id: 1, max_bytes: 4096 };
    if let Ok(ServerMessage::Response(_)) = ServerMessage::parse(data, pending) {
        assert!(is_response_to(data, 1));
    }
    let (mut whole, mut parts) = (SseParser::default(), SseParser::default());
    let at_once = whole.feed(data);
    let size = usize::from(data.first().copied().unwrap_or_default() % 7) + 1;
    let in_parts: Vec<_> = data.chunks(size).flat_map(|part| parts.feed(part)).collect();
    assert_eq!(at_once, in_parts);
    for event in at_once {
        let _ = ServerMessage::parse(&event.data, pending);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_and_filter_agree_on_responses() {
        for data in [
            &br#"{"jsonrpc":"2.0","id":1,"result":null}"#[..],
            br#"{"id":1,"error":{"code":1,"message":"x"},"result":{}}"#,
            b"event: message\ndata: {\"id\":1,\"result\":{}}\r\n\r\n",
            b"[1,2,3,4]",
            b"",
        ] {
            fuzz_mcp_messages(data);
        }
    }
}
