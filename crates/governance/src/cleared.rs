//! Call that passed the pre-check: its paths may be opened, but it is not permitted yet.

use std::sync::Arc;
use std::time::Duration;

use file_access::{LinkSearch, NamesPaths, PathRequest};
use guardrail::ValidCall;

use crate::floor::Floor;
use crate::glob::PathGlobs;
use crate::judge::Named;
use crate::situation::Workspaces;

/// Valid call that its mode, category, rate limits and names as typed do not deny. Only `precheck` creates
/// one.
///
/// It is not a permit, because the objects that its names lead to have not been examined. The content is
/// boxed, because the value moves through every stage of the pipeline and each future on the way would grow
/// by its size.
#[derive(Debug)]
pub struct Cleared(Box<Parts>);

#[derive(Debug)]
struct Parts {
    call: ValidCall,
    named: Named,
    guard: Guard,
    timeout: Duration,
}

/// Forbidden paths and workspaces, in which the other names of a hard-linked file are searched.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) floor: Arc<Floor>,
    pub(crate) forbidden: Arc<PathGlobs>,
    pub(crate) workspaces: Workspaces,
}

impl Cleared {
    pub(crate) fn new(call: ValidCall, named: Named, guard: Guard, timeout: Duration) -> Self {
        Cleared(Box::new(Parts { call, named, guard, timeout }))
    }

    /// Returns the call.
    pub fn call(&self) -> &ValidCall {
        &self.0.call
    }

    /// Returns the timeout of the call, which includes the time for opening its paths.
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
        let forbidden = guard.forbidden.written().iter().map(|written| written.plain_part.clone());
        Some(LinkSearch {
            likely: guard.workspaces.iter().map(|workspace| workspace.root().to_owned()).collect(),
            guarded: guard.floor.folders().iter().cloned().chain(forbidden).collect(),
        })
    }
}
