//! Pinned tool definitions of a server (trust on first use). The first definitions are accepted, because the
//! operator has accepted the server itself. A tool whose definition differs later is not called, and the new
//! definition is stored for the operator's review.
//!
//! Pins that cannot be read or stored are an error: no tool of that server is called.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tool::{Failure, FailureKind};

use super::definitions::ServerToolDefinitions;
use super::pin_store::PinStore;

/// Pins of one server.
#[derive(Debug)]
pub(crate) struct ServerPins {
    store: Option<PinStore>,
    id: String,
    state: Mutex<ServerPinsState>,
}

#[derive(Debug)]
struct ServerPinsState {
    pin_state: PinState,
    /// Definitions that were last compared and stored.
    last_noted: Option<Arc<ServerToolDefinitions>>,
}

#[derive(Debug)]
enum PinState {
    /// The server has not listed its tools yet.
    Unpinned,
    Pinned(Arc<ServerToolDefinitions>),
    /// Pins exist but cannot be read, with the reason.
    Unreadable(String),
}

impl ServerPins {
    /// Loads the pins of the server of a manifest. The id is a valid file name.
    pub(crate) fn load(upstreams: Option<&PinStore>, id: &str) -> ServerPins {
        let pin_state = match upstreams.map_or(Ok(None), |upstreams| upstreams.read(id)) {
            Ok(None) => PinState::Unpinned,
            Ok(Some(bytes)) => ServerToolDefinitions::from_bytes(&bytes).map_or_else(
                |error| PinState::Unreadable(error.to_string()),
                |known| PinState::Pinned(Arc::new(known)),
            ),
            Err(error) => PinState::Unreadable(error.to_string()),
        };
        let state = Mutex::new(ServerPinsState { pin_state, last_noted: None });
        ServerPins { store: upstreams.cloned(), id: id.to_owned(), state }
    }

    /// Returns the pinned definition of a tool: `None` without pins, `null` if the server has no such tool.
    pub(crate) fn pinned_definition(&self, tool: &str) -> Option<Value> {
        match &self.state().pin_state {
            PinState::Unpinned => None,
            // The absence of a tool is pinned too: a tool added later needs approval.
            PinState::Pinned(known) => Some(known.get(tool).cloned().unwrap_or_default()),
            // Differs from every accepted definition, so that a reload reports a change.
            PinState::Unreadable(reason) => Some(json!({"unreadable": reason})),
        }
    }

    /// Returns true if these definitions have already been noted.
    pub(crate) fn is_noted(&self, text: &Arc<ServerToolDefinitions>) -> bool {
        self.state().last_noted.as_ref().is_some_and(|noted| noted == text)
    }

    /// Compares the definitions with the pins and stores what is new. The first definitions apply only once
    /// they are stored. Blocking.
    pub(crate) fn note(&self, text: &Arc<ServerToolDefinitions>) -> Result<(), Failure> {
        let mut state = self.state();
        match &state.pin_state {
            PinState::Unreadable(reason) => return Err(self.unreadable_failure(reason)),
            PinState::Unpinned => {
                self.with_store(|upstreams, id| upstreams.store_first(id, &text.to_bytes()))
                    .map_err(|error| self.unstored_failure(&error))?;
                state.pin_state = PinState::Pinned(Arc::clone(text));
            }
            PinState::Pinned(pinned) => {
                let stored = match pinned == text {
                    true => self.with_store(PinStore::remove_newer),
                    false => self.with_store(|upstreams, id| upstreams.store_newer(id, &text.to_bytes())),
                };
                if let Err(error) = stored {
                    tracing::warn!(%error, server = self.id, "changed tool definitions cannot be stored for review");
                    return Ok(());
                }
            }
        }
        state.last_noted = Some(Arc::clone(text));
        Ok(())
    }

    /// Checks that the definition of a tool is the accepted one.
    pub(crate) fn check_tool(&self, tool: &str, text: &ServerToolDefinitions) -> Result<(), Failure> {
        let Some(now) = text.get(tool) else {
            let names: Vec<&str> = text.names().collect();
            tracing::info!(
                server = self.id,
                tool,
                has = names.join(" "),
                "a server lacks a tool of its manifest"
            );
            let message = format!("the server of `{}` has no tool `{tool}`", self.id);
            let hint = format!("it has {} other tools; the daemon's log lists them", names.len());
            return Err(Failure::new(FailureKind::NotFound, message).with_hint(hint));
        };
        match &self.state().pin_state {
            PinState::Pinned(pinned) if pinned.get(tool) == Some(now) => Ok(()),
            PinState::Unreadable(reason) => Err(self.unreadable_failure(reason)),
            PinState::Pinned(_) | PinState::Unpinned => {
                let message =
                    format!("the server of `{}` now defines `{tool}` differently than accepted", self.id);
                Err(Failure::new(FailureKind::Conflict, message).with_hint(
                    "nothing was run; `sinew reload --accept` shows the difference and accepts it",
                ))
            }
        }
    }

    fn with_store(&self, how: impl FnOnce(&PinStore, &str) -> io::Result<()>) -> io::Result<()> {
        self.store.as_ref().map_or(Ok(()), |upstreams| how(upstreams, &self.id))
    }

    fn unreadable_failure(&self, reason: &str) -> Failure {
        let message =
            format!("the pinned definitions of the server of `{}` cannot be read: {reason}", self.id);
        let accepted_path =
            self.store.as_ref().map(|upstreams| upstreams.accepted_path(&self.id)).unwrap_or_default();
        let accepted_path = accepted_path.display();
        Failure::new(FailureKind::Conflict, message).with_hint(format!(
            "nothing was run; remove `{accepted_path}`, then run `sinew reload --accept` to pin its tools again"
        ))
    }

    fn unstored_failure(&self, error: &io::Error) -> Failure {
        let message = format!("the tools of MCP server `{}` cannot be pinned: {error}", self.id);
        Failure::new(FailureKind::Conflict, message)
            .with_hint("nothing was run: without stored definitions, later changes could not be detected")
    }

    fn state(&self) -> MutexGuard<'_, ServerPinsState> {
        // Values are replaced as a whole, so a poisoned lock is safe to use.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pin_store::PinVersion;
    use super::*;

    fn definitions(description: &str) -> Arc<ServerToolDefinitions> {
        let mut text = ServerToolDefinitions::default();
        text.add_page(json!([{"name": "t", "description": description}])).unwrap();
        Arc::new(text)
    }

    #[test]
    fn a_changed_definition_stops_the_tool_until_accepted() {
        let folder = tempfile::tempdir().unwrap();
        let of = |taking| PinStore::new(folder.path().join("u"), taking);
        let first = ServerPins::load(Some(&of(PinVersion::Accepted)), "s");
        assert_eq!(first.pinned_definition("t"), None);
        first.note(&definitions("one")).unwrap();
        assert!(first.is_noted(&definitions("one")) && !first.is_noted(&definitions("two")));
        assert!(first.check_tool("t", &definitions("one")).is_ok());
        assert_eq!(first.check_tool("t", &definitions("two")).unwrap_err().kind, FailureKind::Conflict);
        assert_eq!(first.check_tool("x", &definitions("one")).unwrap_err().kind, FailureKind::NotFound);
        // After a restart the accepted definition applies; the reload compares it with the newer one.
        first.note(&definitions("two")).unwrap();
        let again = ServerPins::load(Some(&of(PinVersion::Accepted)), "s");
        assert!(
            again.check_tool("t", &definitions("one")).is_ok()
                && again.check_tool("t", &definitions("two")).is_err()
        );
        let newest = ServerPins::load(Some(&of(PinVersion::Newest)), "s");
        assert_eq!(newest.pinned_definition("t"), Some(json!({"description": "two"})));
        again.note(&definitions("one")).unwrap();
        let newest = ServerPins::load(Some(&of(PinVersion::Newest)), "s");
        assert_eq!(
            newest.pinned_definition("t"),
            Some(json!({"description": "one"})),
            "the change was reverted"
        );
        assert_eq!(newest.pinned_definition("x"), Some(Value::Null), "the absence of a tool is known");
    }

    #[test]
    fn unreadable_or_unstored_pins_stop_all_tools() {
        let folder = tempfile::tempdir().unwrap();
        let upstreams = PinStore::new(folder.path().join("u"), PinVersion::Accepted);
        std::fs::create_dir(folder.path().join("u")).unwrap();
        std::fs::write(upstreams.accepted_path("s"), "{\"t\":").unwrap();
        let broken = ServerPins::load(Some(&upstreams), "s");
        assert_eq!(broken.note(&definitions("one")).unwrap_err().kind, FailureKind::Conflict);
        let refused = broken.check_tool("t", &definitions("one")).unwrap_err();
        assert!(refused.hint.unwrap().contains("sinew reload --accept"));
        assert_ne!(broken.pinned_definition("t"), None, "a reload reports the change");
        // A folder in place of the file is unreadable; a file in place of the folder cannot store a pin.
        std::fs::create_dir(upstreams.accepted_path("d")).unwrap();
        assert!(ServerPins::load(Some(&upstreams), "d").note(&definitions("one")).is_err());
        let nowhere = PinStore::new(upstreams.accepted_path("s").join("u"), PinVersion::Accepted);
        let unwritable = ServerPins::load(Some(&nowhere), "x");
        assert_eq!(unwritable.note(&definitions("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(
            unwritable.check_tool("t", &definitions("one")).is_err(),
            "a definition that is not stored does not apply"
        );
    }

    #[test]
    fn the_first_definition_applies_once_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let refusing = PinStore::new(folder.path().join("u"), PinVersion::Accepted)
            .with_sealer(Arc::new(|_, _| Err(io::Error::other("no seal"))));
        let pins = ServerPins::load(Some(&refusing), "s");
        assert_eq!(pins.note(&definitions("one")).unwrap_err().kind, FailureKind::Conflict);
        assert!(pins.check_tool("t", &definitions("one")).is_err());
        // The sealed copy takes precedence over the other file.
        let copy = folder.path().join("copy");
        strict_yaml::replace_private_file(&copy.join("s.json"), &definitions("one").to_bytes()).unwrap();
        std::fs::write(refusing.accepted_path("s"), definitions("two").to_bytes()).unwrap();
        let copied = ServerPins::load(
            Some(&PinStore::new(folder.path().join("u"), PinVersion::Accepted).with_copy(copy)),
            "s",
        );
        assert!(
            copied.check_tool("t", &definitions("one")).is_ok()
                && copied.check_tool("t", &definitions("two")).is_err()
        );
    }
}
