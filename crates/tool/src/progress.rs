//! How far a call has come, said while it runs. Nobody may be listening: saying it never waits and never fails, and
//! nothing may depend on its being heard.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// One thing said about a call that is under way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgressNote {
    /// For people.
    pub message: String,
    /// How much there is to do, and how much of it is done.
    pub share: Option<(u64, u64)>,
    /// For programs; a piece of output with its number, for example.
    pub data: Option<Value>,
}

impl ProgressNote {
    /// A sentence.
    pub fn saying(message: impl Into<String>) -> Self {
        ProgressNote { message: message.into(), ..ProgressNote::default() }
    }
}

/// Where a call says how far it has come. A clone says it to the same listener.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<dyn Fn(ProgressNote) + Send + Sync>>);

impl Progress {
    /// Everything said goes to this function, which must return at once.
    pub fn heard_by(listener: impl Fn(ProgressNote) + Send + Sync + 'static) -> Self {
        Progress(Some(Arc::new(listener)))
    }

    /// Says something.
    pub fn tell(&self, note: ProgressNote) {
        if let Some(listener) = &self.0 {
            listener(note);
        }
    }

    /// Whether anybody listens: what nobody hears need not be put into words.
    pub fn is_heard(&self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.is_heard()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn what_is_said_is_heard_or_lost() {
        Progress::default().tell(ProgressNote::saying("to nobody"));
        assert!(!Progress::default().is_heard());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = Arc::clone(&heard);
        let progress = Progress::heard_by(move |note| ears.lock().unwrap().push(note.message));
        progress.tell(ProgressNote::saying("half"));
        progress.tell(ProgressNote::saying("done"));
        assert_eq!(*heard.lock().unwrap(), ["half", "done"]);
    }
}
