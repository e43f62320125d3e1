//! Response that is read part by part, as it arrives.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};

use crate::error::OutboundError;
use crate::exchange::Driving;

/// Body of a response that is still arriving. The connection is closed on drop.
pub struct Stream {
    /// Status code.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    pub(crate) host: String,
    pub(crate) body: Incoming,
    pub(crate) _driving: Driving,
}

impl Stream {
    /// Returns the next part, or `None` at the end. The caller sets the timeout.
    pub async fn next(&mut self) -> Result<Option<Bytes>, OutboundError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(cause)) => return Err(OutboundError::Garbled { host: self.host.clone(), cause }),
                Some(Ok(frame)) => {
                    if let Ok(part) = frame.into_data() {
                        return Ok(Some(part));
                    }
                }
            }
        }
    }
}
