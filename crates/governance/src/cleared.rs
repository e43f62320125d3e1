//! A call that may be opened: nothing that can be said of it by its name alone forbids it.

use std::sync::Arc;
use std::time::Duration;

use guardrail::ValidCall;
use resources::{LinkSearch, NamesPaths, PathRequest};

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::judge::Named;
use crate::situation::Workspaces;

/// A valid call whose mode, category, rates and names as typed are no reason to refuse it. Only
/// [`clear`](crate::clear) makes one. It is no permit: what its names lead to has not been seen.
///
/// Boxed: it is handed from stage to stage, and whoever waits for one carries the room of all before it.
#[derive(Debug)]
pub struct Cleared(Box<Parts>);

#[derive(Debug)]
struct Parts {
    call: ValidCall,
    named: Named,
    guard: Guard,
    timeout: Duration,
}

/// What forbids, for a file that turns out to have several names.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) floor: Arc<Floor>,
    pub(crate) forbidden: Option<Arc<PathGlobs>>,
    pub(crate) workspaces: Workspaces,
}

impl Cleared {
    pub(crate) fn new(call: ValidCall, named: Named, guard: Guard, timeout: Duration) -> Self {
        Cleared(Box::new(Parts { call, named, guard, timeout }))
    }

    /// The call.
    pub fn call(&self) -> &ValidCall {
        &self.0.call
    }

    /// How long it may take, opening included.
    pub fn timeout(&self) -> Duration {
        self.0.timeout
    }

    pub(crate) fn named(&self) -> &Named {
        &self.0.named
    }
}

impl NamesPaths for Cleared {
    fn path_requests(&self) -> Vec<PathRequest> {
        self.0.named.requests.clone()
    }

    fn link_search(&self) -> Option<LinkSearch> {
        let guard = &self.0.guard;
        let written = guard.forbidden.iter().flat_map(|globs| globs.written());
        let forbidden = written.map(|written| written.plain_part.clone());
        Some(LinkSearch {
            likely: guard.workspaces.iter().map(|workspace| workspace.root().to_owned()).collect(),
            guarded: guard.floor.folders().iter().cloned().chain(forbidden).collect(),
        })
    }
}
