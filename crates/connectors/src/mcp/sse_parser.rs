//! Incremental parser for server-sent events.

/// Server-sent event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Event type; empty if absent.
    pub(crate) name: Vec<u8>,
    /// Data lines, joined by newlines.
    pub(crate) data: Vec<u8>,
}

/// Parser state. It buffers an incomplete event without a limit: the caller counts the bytes.
#[derive(Default)]
pub(crate) struct SseParser {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
}

impl SseParser {
    /// Returns the events that are completed by this part.
    pub(crate) fn feed(&mut self, part: &[u8]) -> Vec<SseEvent> {
        let mut all = Vec::new();
        let mut lines = part.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = lines.next() {
            self.line.extend_from_slice(piece);
            if lines.peek().is_some() {
                all.extend(self.end_line());
            }
        }
        all
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let value = |rest: &[u8]| rest.strip_prefix(b" ").unwrap_or(rest).to_vec();
        if let Some(data) = line.strip_prefix(b"data:") {
            if !self.data.is_empty() {
                self.data.push(b'\n');
            }
            self.data.extend(value(data));
            return None;
        }
        if let Some(name) = line.strip_prefix(b"event:") {
            self.name = value(name);
            return None;
        }
        if !line.is_empty() {
            return None;
        }
        let (name, data) = (std::mem::take(&mut self.name), std::mem::take(&mut self.data));
        // Some servers begin a stream with an empty event.
        (!data.trim_ascii().is_empty()).then_some(SseEvent { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The split into parts does not matter.
    #[test]
    fn events_are_read_line_by_line() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            for size in [1, 2, 3, 1000] {
                let mut events = SseParser::default();
                let all = text.as_bytes().chunks(size).flat_map(|part| events.feed(part));
                let mut all: Vec<SseEvent> = all.collect();
                all.extend(events.feed(b"\n\n"));
                let all: Vec<(&str, &str)> = all
                    .iter()
                    .map(|event| {
                        (std::str::from_utf8(&event.name).unwrap(), std::str::from_utf8(&event.data).unwrap())
                    })
                    .collect();
                assert_eq!(all, expect, "{text:?} by {size}");
            }
        };
        check("event: message\ndata: {\"a\":1}\n\n", &[("message", "{\"a\":1}")]);
        check("data: one\ndata:two\r\n\r\n: note\ndata: three", &[("", "one\ntwo"), ("", "three")]);
        check("event: endpoint\ndata: /m?s=1\n\ndata: x\n\n", &[("endpoint", "/m?s=1"), ("", "x")]);
        check("id: 1\ndata:\n\n", &[]);
        check("", &[]);
    }
}
