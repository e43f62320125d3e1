//! A call that may be opened: nothing that can be said of it by its name alone forbids it.

use std::time::Duration;

use guardrail::ValidCall;
use resources::{NamesPaths, PathRequest};

use crate::errands::Errands;
use crate::judge::Named;

/// A valid call whose mode, category, rates and names as typed are no reason to refuse it. Only
/// [`clear`](crate::clear) makes one. It is no permit: what its names lead to has not been seen.
#[derive(Debug)]
pub struct Cleared {
    call: ValidCall,
    named: Named,
    timeout: Duration,
}

impl Cleared {
    pub(crate) fn new(call: ValidCall, named: Named, timeout: Duration) -> Self {
        Cleared { call, named, timeout }
    }

    /// The call.
    pub fn call(&self) -> &ValidCall {
        &self.call
    }

    /// How long it may take, opening included.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) fn requests(&self) -> &[PathRequest] {
        &self.named.requests
    }

    pub(crate) fn errands(&self) -> &Errands {
        &self.named.errands
    }
}

impl NamesPaths for Cleared {
    fn path_requests(&self) -> Vec<PathRequest> {
        self.named.requests.clone()
    }
}
