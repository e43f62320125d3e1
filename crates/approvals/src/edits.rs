//! Channels on which the operator sends edited arguments to the waiting calls.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, oneshot};
use tool::Arguments;

/// Edit of the arguments of a waiting call by the operator.
#[derive(Debug)]
pub struct ArgumentEdit {
    /// The new arguments.
    pub arguments: Arguments,
    /// Receives the outcome, or the reason why the arguments were refused.
    pub reply: oneshot::Sender<Result<EditOutcome, String>>,
}

/// Result of an `ArgumentEdit`.
#[derive(Debug)]
pub enum EditOutcome {
    /// The edited call needs approval; holds the id of its new request.
    ApprovalRequired(String),
    /// The edited call needs no approval.
    Permitted,
}

/// Edit channels of the waiting calls by approval id, in the order in which the calls arrived.
#[derive(Debug, Default)]
pub(crate) struct EditChannels(Mutex<HashMap<String, Vec<mpsc::Sender<ArgumentEdit>>>>);

impl EditChannels {
    /// Opens a channel for one more call that waits for this approval.
    pub(crate) fn open<'a>(&'a self, id: &'a str) -> EditReceiver<'a> {
        let (sender, edits) = mpsc::channel(1);
        // Appended, so that a second call that presents the same approval does not take edits away from the
        // first.
        self.lock().entry(id.to_owned()).or_default().push(sender.clone());
        EditReceiver { channels: self, id, sender, edits }
    }

    /// Channel of the first call that waits for this approval.
    pub(crate) fn first(&self, id: &str) -> Option<mpsc::Sender<ArgumentEdit>> {
        self.lock().get(id).and_then(|waiting| waiting.first().cloned())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<mpsc::Sender<ArgumentEdit>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receiving end of edits for one waiting call. Dropping it closes the channel.
#[derive(Debug)]
pub struct EditReceiver<'a> {
    channels: &'a EditChannels,
    id: &'a str,
    /// Identifies this call among those that wait for the same approval.
    sender: mpsc::Sender<ArgumentEdit>,
    edits: mpsc::Receiver<ArgumentEdit>,
}

impl EditReceiver<'_> {
    /// Waits for the next edit.
    pub async fn next(&mut self) -> Option<ArgumentEdit> {
        self.edits.recv().await
    }
}

impl Drop for EditReceiver<'_> {
    fn drop(&mut self) {
        let mut channels = self.channels.lock();
        if let Some(waiting) = channels.get_mut(self.id) {
            waiting.retain(|sender| !sender.same_channel(&self.sender));
            if waiting.is_empty() {
                channels.remove(self.id);
            }
        }
    }
}
