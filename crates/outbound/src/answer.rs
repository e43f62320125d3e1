//! What came back: the body as it travelled, and the few headers somebody acts on. Cookies and all the rest end here.

use url::Url;

/// A response, its body not decoded.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Where it came from, after all redirects.
    pub url: Url,
    /// The status of the response.
    pub status: u16,
    /// `Content-Type`, as sent.
    pub content_type: Option<String>,
    /// `Content-Encoding`, in the order the codings were applied.
    pub codings: Vec<String>,
    /// `Retry-After`, as sent.
    pub retry_after: Option<String>,
    /// `Location`, as sent: a redirect that was not followed.
    pub location: Option<String>,
    /// `Mcp-Session-Id`, as sent: what a server of tools wants to be told from now on.
    pub mcp_session: Option<String>,
    /// The body, as far as its cap let it come.
    pub body: Vec<u8>,
    /// Whether there would have been more of it, or it broke off.
    pub is_cut: bool,
    /// The addresses that led here, the first one first; empty without redirects.
    pub led_by: Vec<Url>,
}
