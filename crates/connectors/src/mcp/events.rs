//! Server-sent events, taken out of the parts in which they come.

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// What kind it is; empty where it does not say.
    pub(crate) name: Vec<u8>,
    /// What it says.
    pub(crate) data: Vec<u8>,
}

/// The events of a stream, as its parts come. It holds what has come of one that has not ended: whoever feeds it counts that.
#[derive(Default)]
pub(crate) struct Events {
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
}

impl Events {
    /// Each event that ends in this part.
    pub(crate) fn take(&mut self, part: &[u8]) -> Vec<Event> {
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

    fn end_line(&mut self) -> Option<Event> {
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
        // Some begin a stream with an event that says nothing.
        (!data.trim_ascii().is_empty()).then_some(Event { name, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the parts are that it comes in.
    #[test]
    fn events_are_read_line_by_line() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            for size in [1, 2, 3, 1000] {
                let mut events = Events::default();
                let all = text.as_bytes().chunks(size).flat_map(|part| events.take(part));
                let mut all: Vec<Event> = all.collect();
                all.extend(events.take(b"\n\n"));
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
