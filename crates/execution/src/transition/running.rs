//! The calls that run and have not answered at once, so that a mode can end those it forbids.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;
use tool::{CallId, ToolDefinition};

/// All of them.
#[derive(Clone, Default)]
pub(crate) struct Running(Arc<Mutex<HashMap<CallId, Entry>>>);

struct Entry {
    definition: Arc<ToolDefinition>,
    stop: CancellationToken,
}

/// One of them, as long as it runs.
pub(crate) struct Ticket {
    id: CallId,
    stop: CancellationToken,
    list: Running,
}

impl Running {
    /// Notes a call that runs now.
    pub(crate) fn begin(&self, id: CallId, definition: &Arc<ToolDefinition>) -> Ticket {
        let stop = CancellationToken::new();
        self.list().insert(id, Entry { definition: Arc::clone(definition), stop: stop.clone() });
        Ticket { id, stop, list: self.clone() }
    }

    /// Tells the calls of these tools to end.
    pub(crate) fn cancel(&self, forbidden: impl Fn(&ToolDefinition) -> bool) {
        self.list()
            .values()
            .filter(|entry| forbidden(&entry.definition))
            .for_each(|entry| entry.stop.cancel());
    }

    /// How many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list().len()
    }

    fn list(&self) -> MutexGuard<'_, HashMap<CallId, Entry>> {
        // The map is whole after every statement, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Returns when the call must end.
    pub(crate) async fn cancelled(&self) {
        self.stop.cancelled().await;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.list.list().remove(&self.id);
    }
}
