//! The events as they happen, for whoever watches. Bounded, and never a reason for a call to wait: a watcher that is too
//! slow misses events and is told how many.

use std::sync::{Arc, LazyLock};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast::{self, Receiver, Sender, error::RecvError};

/// How far a watcher may fall behind.
const CAPACITY: usize = 1024;

static EVENTS: LazyLock<Sender<Happened>> = LazyLock::new(|| Sender::new(CAPACITY));

/// One event, as the log has it: redacted, one JSON object.
#[derive(Clone, Debug)]
pub struct Happened {
    /// Its stable name.
    pub event: &'static str,
    /// The object.
    pub record: Arc<RawValue>,
}

/// What a watcher gets.
#[derive(Clone, Debug)]
pub enum Seen {
    /// An event.
    Event(Happened),
    /// So many events were missed here, because the watcher was too slow.
    Missed(u64),
}

/// Watches the events of this process from now on. What the log level leaves out is not seen here either.
#[derive(Debug)]
pub struct Watch(Receiver<Happened>);

/// Begins to watch.
pub fn watch() -> Watch {
    Watch(EVENTS.subscribe())
}

impl Watch {
    /// The next event. Never ends: events can always come.
    pub async fn next(&mut self) -> Seen {
        match self.0.recv().await {
            Ok(event) => Seen::Event(event),
            Err(RecvError::Lagged(missed)) => Seen::Missed(missed),
            // The sender is the process's own.
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Whether anybody watches: a record is made for them at once.
pub(crate) fn is_watched() -> bool {
    EVENTS.receiver_count() > 0
}

/// Shows an event to all who watch.
pub(crate) fn publish(event: &'static str, record: &impl Serialize) {
    publish_to(&EVENTS, event, record);
}

fn publish_to(events: &broadcast::Sender<Happened>, event: &'static str, record: &impl Serialize) {
    if events.receiver_count() == 0 {
        return;
    }
    if let Ok(record) = to_raw_value(record) {
        // An error means that the last watcher has just gone.
        let _ = events.send(Happened { event, record: record.into() });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_slow_watcher_is_told_what_it_missed_and_holds_nobody_up() {
        let events = Sender::new(8);
        publish_to(&events, "tool_call_started", &json!({"n": "before"}));
        let mut watch = Watch(events.subscribe());
        // Nobody reads, and yet every one of these returns.
        for n in 0..100 {
            publish_to(&events, "tool_call_started", &json!({"n": n}));
        }
        let Seen::Missed(missed) = watch.next().await else { panic!("nothing was missed") };
        assert_eq!(missed, 92);
        for n in missed..100 {
            let Seen::Event(event) = watch.next().await else { panic!("{n} is missing") };
            assert_eq!(
                (event.event, event.record.get()),
                ("tool_call_started", &*json!({"n": n}).to_string())
            );
        }
    }
}
