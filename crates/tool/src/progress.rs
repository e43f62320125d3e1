//! Progress notifications of a running call. There may be no listener: reporting never blocks and never
//! fails, and no code may depend on delivery.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Progress notification of a running call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressNote {
    /// Message for people.
    pub message: String,
    /// Amount of work that is done, and the total.
    pub done_of_total: Option<(u64, u64)>,
    /// Data for programs, such as a piece of output with its sequence number.
    pub data: Option<Value>,
}

impl ProgressNote {
    /// Creates a notification with a message only.
    pub fn with_message(message: impl Into<String>) -> Self {
        ProgressNote { message: message.into(), ..ProgressNote::default() }
    }
}

/// Sender of progress notifications. Clones share the listener.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(ProgressNote) + Send + Sync>>);

impl Progress {
    /// Creates a sender that calls `listener`, which must return at once.
    pub fn with_listener(listener: impl Fn(ProgressNote) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(listener)))
    }

    /// Sends a notification.
    pub fn report(&self, note: ProgressNote) {
        if let Some(listener) = &self.0 {
            listener(note);
        }
    }

    /// Returns true if there is a listener. Without one, callers can skip building the notification.
    pub fn has_listener(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.has_listener()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn notifications_reach_the_listener_or_are_dropped() {
        Progress::default().report(ProgressNote::with_message("no listener"));
        assert!(!Progress::default().has_listener());
        let received = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&received);
        let progress = Progress::with_listener(move |note| ears.lock().unwrap().push(note.message));
        progress.report(ProgressNote::with_message("half"));
        progress.report(ProgressNote::with_message("done"));
        assert_eq!(*received.lock().unwrap(), ["half", "done"]);
    }
}
