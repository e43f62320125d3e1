//! Events of one stream, retained for clients that reconnect. A client resumes after the last event that it
//! received, as far as the events are still retained.

use std::collections::VecDeque;
use std::sync::Arc;

use hyper::body::Bytes;
use tokio::sync::Notify;

/// Limits of the events retained for one stream.
const MAX_EVENTS: usize = 1024;
const MAX_BYTES: usize = 8 << 20;
/// Time after which a client should reconnect, in milliseconds.
const RETRY_MS: u32 = 1000;

/// Position of an event: the stream, and the number of the event in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EventId {
    pub(super) stream: u64,
    pub(super) number: u64,
}

impl EventId {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (stream, number) = text.split_once('-')?;
        Some(EventId { stream: stream.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Events of a stream.
pub(super) struct EventLog {
    stream: u64,
    /// Retained events, oldest first; the last one has the number `next - 1`.
    events: VecDeque<Bytes>,
    bytes: usize,
    next: u64,
    finished: bool,
    /// Wakes the clients that follow the stream.
    pub(super) changed: Arc<Notify>,
}

impl EventLog {
    /// Creates a stream with its first event, which has an id and no data, so that a client can resume before
    /// anything else was sent.
    pub(super) fn new(stream: u64) -> Self {
        let changed = Arc::default();
        let mut log =
            EventLog { stream, events: VecDeque::new(), bytes: 0, next: 0, finished: false, changed };
        log.push_position();
        log
    }

    /// Adds an event that has an id and no data, and returns its number.
    pub(super) fn push_position(&mut self) -> u64 {
        self.push(&format!("retry: {RETRY_MS}\ndata: \n\n"));
        self.next - 1
    }

    /// Adds a message.
    pub(super) fn push_message(&mut self, message: &str) {
        self.push(&format!("event: message\ndata: {message}\n\n"));
    }

    fn push(&mut self, fields: &str) {
        let event = Bytes::from(format!("id: {}-{}\n{fields}", self.stream, self.next));
        self.next += 1;
        self.bytes += event.len();
        self.events.push_back(event);
        // The newest event is retained, however long it is: it may be the response.
        while self.events.len() > 1 && (self.events.len() > MAX_EVENTS || self.bytes > MAX_BYTES) {
            self.bytes -= self.events.pop_front().map_or(0, |dropped| dropped.len());
        }
        self.changed.notify_waiters();
    }

    /// Marks the stream as complete: no more messages follow.
    pub(super) fn finish(&mut self) {
        self.finished = true;
        self.changed.notify_waiters();
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the retained events from a number on, and the number after them.
    pub(super) fn events_from(&self, number: u64) -> (Vec<Bytes>, u64) {
        let oldest = self.next - self.events.len() as u64;
        let skipped = usize::try_from(number.saturating_sub(oldest)).unwrap_or(usize::MAX);
        (self.events.iter().skip(skipped).cloned().collect(), self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(events: &[Bytes]) -> String {
        events.iter().map(|event| String::from_utf8_lossy(event).into_owned()).collect()
    }

    #[test]
    fn client_resumes_after_its_last_event() {
        let mut log = EventLog::new(3);
        log.push_message("{\"a\":1}");
        log.push_message("{\"a\":2}");
        let (events, next) = log.events_from(0);
        let expect = "id: 3-0\nretry: 1000\ndata: \n\nid: 3-1\nevent: message\ndata: {\"a\":1}\n\n\
            id: 3-2\nevent: message\ndata: {\"a\":2}\n\n";
        assert_eq!((text(&events).as_str(), next), (expect, 3));
        let (events, _) = log.events_from(2);
        assert_eq!(text(&events), "id: 3-2\nevent: message\ndata: {\"a\":2}\n\n");
        assert!(log.events_from(3).0.is_empty() && log.events_from(u64::MAX).0.is_empty());
        assert_eq!(EventId::parse("3-2"), Some(EventId { stream: 3, number: 2 }));
        assert_eq!((EventId::parse("x"), EventId::parse("1-"), EventId::parse("-1")), (None, None, None));
    }

    #[test]
    fn retained_events_are_limited() {
        let mut log = EventLog::new(1);
        for _ in 0..2 * MAX_EVENTS {
            log.push_message("{}");
        }
        let (events, next) = log.events_from(0);
        assert_eq!((events.len(), next), (MAX_EVENTS, 2 * MAX_EVENTS as u64 + 1));
        log.push_message(&"x".repeat(MAX_BYTES + 1));
        assert_eq!(log.events_from(0).0.len(), 1, "the newest event is always retained");
    }
}
