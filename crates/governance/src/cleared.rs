//! A call that may be opened: nothing that can be said of it by its name alone forbids it.

use std::time::Duration;

use guardrail::ValidCall;
use resources::{NamesPaths, PathRequest};

/// A valid call whose mode, category, rates and names as typed are no reason to refuse it. Only
/// [`clear`](crate::clear) makes one. It is no permit: what its names lead to has not been seen.
#[derive(Debug)]
pub struct Cleared {
    call: ValidCall,
    requests: Vec<PathRequest>,
    timeout: Duration,
}

impl Cleared {
    pub(crate) fn new(call: ValidCall, requests: Vec<PathRequest>, timeout: Duration) -> Self {
        Cleared { call, requests, timeout }
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
        &self.requests
    }
}

impl NamesPaths for Cleared {
    fn path_requests(&self) -> Vec<PathRequest> {
        self.requests.clone()
    }
}
