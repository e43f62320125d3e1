//! Live feed of events for subscribers. The feed is bounded and never makes a call wait: a slow subscriber
//! misses events and gets their number.

use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::Value;
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

/// Number of events that a subscriber may fall behind.
const CAPACITY: usize = 1024;

static EVENTS: LazyLock<Sender<Happened>> = LazyLock::new(|| Sender::new(CAPACITY));

/// Published event in the form of the log: redacted, one JSON object.
#[derive(Clone, Debug)]
pub struct Happened {
    /// Stable name of the event.
    pub event: &'static str,
    /// JSON object.
    pub record: Arc<Value>,
}

/// Item that a subscriber receives.
#[derive(Clone, Debug)]
pub enum Seen {
    /// Event.
    Event(Happened),
    /// Number of events missed at this point, because the subscriber was too slow.
    Missed(u64),
}

/// Subscription to the events of this process from now on. Events below the log level are not published.
#[derive(Debug)]
pub struct Watch(Receiver<Happened>);

/// Subscribes to the events of this process.
pub fn watch() -> Watch {
    Watch(EVENTS.subscribe())
}

impl Watch {
    /// Waits for the next item. The feed never ends.
    pub async fn next(&mut self) -> Seen {
        match self.0.recv().await {
            Ok(event) => Seen::Event(event),
            Err(RecvError::Lagged(missed)) => Seen::Missed(missed),
            // The sender is a static and is never dropped.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Returns true if there is a subscriber. Records are then built immediately instead of on the writer thread.
pub(crate) fn is_watched() -> bool {
    EVENTS.receiver_count() > 0
}

/// Publishes an event to all subscribers.
pub(crate) fn publish(event: &'static str, record: &impl Serialize) {
    publish_to(&EVENTS, event, record);
}

fn publish_to(events: &broadcast::Sender<Happened>, event: &'static str, record: &impl Serialize) {
    if events.receiver_count() == 0 {
        return;
    }
    if let Ok(record) = serde_json::to_value(record) {
        // An error means that the last subscriber has just disconnected.
        let _ = events.send(Happened { event, record: record.into() });
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
        let mut watch = Watch(events.subscribe());
        // The subscriber does not read, and still every publish returns.
        for n in 0..100 {
            publish_to(&events, "tool_call_started", &json!({"n": n}));
        }
        let Seen::Missed(missed) = watch.next().await else { panic!("nothing was missed") };
        assert_eq!(missed, 92);
        for n in missed..100 {
            let Seen::Event(event) = watch.next().await else { panic!("{n} is missing") };
            assert_eq!((event.event, &*event.record), ("tool_call_started", &json!({"n": n})));
        }
    }
}
