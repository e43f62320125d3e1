//! Something that happens once in every call, and that few wait for: whoever waits pays for it, and no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub(crate) struct Signal(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    #[default]
    Unawaited,
    Awaited(CancellationToken),
    Given,
}

impl Signal {
    /// It happens now, for good.
    pub(crate) fn give(&self) {
        let before = std::mem::replace(&mut *self.state(), State::Given);
        if let State::Awaited(token) = before {
            token.cancel();
        }
    }

    /// Returns when it has happened.
    pub(crate) async fn given(&self) {
        if let Some(token) = self.token() {
            token.cancelled().await;
        }
    }

    /// What to wait for, where it has not happened yet.
    fn token(&self) -> Option<CancellationToken> {
        let mut state = self.state();
        match &*state {
            State::Unawaited => {
                let token = CancellationToken::new();
                *state = State::Awaited(token.clone());
                Some(token)
            }
            State::Awaited(token) => Some(token.clone()),
            State::Given => None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A state is put in whole, so a panic elsewhere cannot have broken it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn everybody_hears_of_it_however_early_or_late_they_ask() {
        let signal = Signal::default();
        let (mut one, mut other) = (Box::pin(signal.given()), Box::pin(signal.given()));
        assert!((&mut one).now_or_never().is_none() && (&mut other).now_or_never().is_none(), "not yet");
        signal.give();
        assert!(one.now_or_never().is_some() && other.now_or_never().is_some());
        assert!(signal.given().now_or_never().is_some(), "and for good");
        signal.give();
        assert!(signal.given().now_or_never().is_some());
    }
}
