//! Target of a redirect. Only the standard status codes count: a `Refresh` header, or a page that reloads by
//! itself, is returned and not followed.

use url::Url;

use crate::answer::HttpResponse;
use crate::error::OutboundError;

/// Returns the URL of the next hop, or `None` if the response is final.
pub(crate) fn next(answer: &HttpResponse, host: &str) -> Result<Option<Url>, OutboundError> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = &answer.location else { return Ok(None) };
    let joined = answer.url.join(location);
    joined.map(Some).map_err(|_| OutboundError::BadRedirect { host: host.to_owned() })
}
