//! Live feed of events for subscribers. The feed is bounded and never makes a call wait: a slow subscriber
//! misses events and gets their number.

use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

/// Number of events that a subscriber may fall behind.
const FEED_CAPACITY: usize = 1024;

static EVENT_FEED: LazyLock<Sender<PublishedEvent>> = LazyLock::new(|| Sender::new(FEED_CAPACITY));

/// Published event in the form of the log: redacted, one JSON object.
#[derive(Clone, Debug)]
pub struct PublishedEvent {
    /// Stable name of the event.
    pub event: &'static str,
    /// JSON object.
    pub record: Arc<Value>,
}

/// Item that a subscriber receives.
#[derive(Clone, Debug)]
pub enum FeedItem {
    /// Event.
    Event(PublishedEvent),
    /// Number of events missed at this point, because the subscriber was too slow.
    Missed(u64),
}

/// Subscription to the events of this process from now on. Events below the log level are not published.
#[derive(Debug)]
pub struct EventSubscription(Receiver<PublishedEvent>);

/// Subscribes to the events of this process.
pub fn subscribe() -> EventSubscription {
    EventSubscription(EVENT_FEED.subscribe())
}

impl EventSubscription {
    /// Waits for the next item. The feed never ends.
    pub async fn next(&mut self) -> FeedItem {
        match self.0.recv().await {
            Ok(event) => FeedItem::Event(event),
            Err(RecvError::Lagged(missed)) => FeedItem::Missed(missed),
            // The sender is a static and is never dropped.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Returns true if there is a subscriber. Records are then built immediately instead of on the writer thread.
pub(crate) fn has_subscribers() -> bool {
    EVENT_FEED.receiver_count() > 0
}

/// Publishes an event to all subscribers.
pub(crate) fn publish(event: &'static str, record: &impl Serialize) {
    publish_to(&EVENT_FEED, event, record);
}

fn publish_to(events: &broadcast::Sender<PublishedEvent>, event: &'static str, record: &impl Serialize) {
    if events.receiver_count() == 0 {
        return;
    }
    if let Ok(record) = serde_json::to_value(record) {
        // An error means that the last subscriber has just disconnected.
        let _ = events.send(PublishedEvent { event, record: record.into() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn slow_subscriber_gets_missed_count_and_blocks_no_sender() {
        let events = Sender::new(8);
        publish_to(&events, "tool_call_started", &json!({"n": "before"}));
        let mut watch = EventSubscription(events.subscribe());
        // The subscriber does not read, and still every publish returns.
        for n in 0..100 {
            publish_to(&events, "tool_call_started", &json!({"n": n}));
        }
        let FeedItem::Missed(missed) = watch.next().await else { panic!("nothing was missed") };
        assert_eq!(missed, 92);
        for n in missed..100 {
            let FeedItem::Event(event) = watch.next().await else { panic!("{n} is missing") };
            assert_eq!((event.event, &*event.record), ("tool_call_started", &json!({"n": n})));
        }
    }
}
