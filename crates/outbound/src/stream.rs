//! Response that is read part by part, as it arrives.

use crate::error::OutboundError;

/// Body of a response that is still arriving. The connection is closed on drop.
pub struct Stream {
    /// Status code.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    pub(crate) host: String,
    pub(crate) response: reqwest::Response,
}

impl Stream {
    /// Returns the next part, or `None` at the end. The caller sets the timeout.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, OutboundError> {
        let part = self.response.chunk().await;
        part.map(|part| part.map(Vec::from)).map_err(|error| OutboundError::garbled(&self.host, &error))
    }
}
