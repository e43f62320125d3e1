//! An answer that goes on: its parts are read as they come, for as long as somebody waits for another.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};

use crate::error::OutboundError;
use crate::exchange::Driving;

/// The body of an answer, on its way. The connection ends with it.
pub struct Stream {
    /// The status of the response.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    pub(crate) host: String,
    pub(crate) body: Incoming,
    pub(crate) _driving: Driving,
}

impl Stream {
    /// The next part, or nothing where there is no more. How long that is waited for is for the caller to say.
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
