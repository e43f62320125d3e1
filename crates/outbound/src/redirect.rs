//! Where an answer leads on to, if it does. Only the standard redirects: a `Refresh` header or a page that moves by
//! itself is shown, not followed.

use url::Url;

use crate::answer::Answer;
use crate::error::OutboundError;

/// The next address, or nothing if this is the answer.
pub(crate) fn next(answer: &Answer, host: &str) -> Result<Option<Url>, OutboundError> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = &answer.location else { return Ok(None) };
    let joined = answer.url.join(location);
    joined.map(Some).map_err(|_| OutboundError::BadRedirect { host: host.to_owned() })
}
