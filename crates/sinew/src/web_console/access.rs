//! Checks of a request before its body is read: host, origin, fetch metadata and content type.
//!
//! Every page in the operator's browser can send requests to a loopback port: a page of another site, a page on
//! another port of this machine, and a page whose name an attacker resolves to this machine (DNS rebinding). A cookie
//! would be sent with all of them, so there is none. A page of another origin is recognised by the headers that a
//! script cannot set: `Host`, `Origin` and `Sec-Fetch-*`.

use hyper::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};

use crate::http_bridge::single;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Accepted host and origin.
pub(super) struct AccessRules {
    host: String,
    origin: String,
}

/// Reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestDenied {
    /// `Host` is not the name that the link has.
    Host,
    /// The request comes from a page of another origin.
    Origin,
    /// The browser reports another site, or a frame.
    FetchMetadata,
    /// The body is not declared as JSON.
    ContentType,
}

impl RequestDenied {
    pub(super) fn status(self) -> StatusCode {
        match self {
            RequestDenied::Host => StatusCode::MISDIRECTED_REQUEST,
            RequestDenied::Origin | RequestDenied::FetchMetadata => StatusCode::FORBIDDEN,
            RequestDenied::ContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            RequestDenied::Host => "this server answers to the name of its link only, with its port",
            RequestDenied::Origin => "requests of pages of another origin are refused",
            RequestDenied::FetchMetadata => "requests that another site causes are refused",
            RequestDenied::ContentType => "the content type must be application/json",
        }
    }
}

impl AccessRules {
    pub(super) fn new(port: u16) -> Self {
        let host = format!("localhost:{port}");
        AccessRules { origin: format!("http://{host}"), host }
    }

    /// Returns the origin of the pages.
    pub(super) fn origin(&self) -> &str {
        &self.origin
    }

    /// Checks the host, for every request.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), RequestDenied> {
        match single(headers, &HOST) {
            Some(host) if host.eq_ignore_ascii_case(&self.host) => Ok(()),
            _ => Err(RequestDenied::Host),
        }
    }

    /// Checks a request for a file of the page: the operator opened it, or the page itself loads it.
    pub(super) fn check_asset(&self, headers: &HeaderMap) -> Result<(), RequestDenied> {
        let value = |name| headers.contains_key(&name).then(|| single(headers, &name).unwrap_or_default());
        match (value(FETCH_SITE), value(FETCH_MODE), value(FETCH_DEST)) {
            (None | Some("same-origin" | "none"), _, dest) if !is_frame(dest) => Ok(()),
            // The redirect file is a page of another site for the browser. It may navigate here, and embed nothing.
            (_, Some("navigate"), Some("document")) => Ok(()),
            _ => Err(RequestDenied::FetchMetadata),
        }
    }

    /// Checks a request to the interface. Only a script of the page can send one.
    pub(super) fn check_api(&self, headers: &HeaderMap) -> Result<(), RequestDenied> {
        if single(headers, &ORIGIN) != Some(&self.origin) {
            return Err(RequestDenied::Origin);
        }
        if single(headers, &FETCH_SITE) != Some("same-origin") {
            return Err(RequestDenied::FetchMetadata);
        }
        let kind = single(headers, &CONTENT_TYPE).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        match kind.eq_ignore_ascii_case("application/json") {
            true => Ok(()),
            false => Err(RequestDenied::ContentType),
        }
    }
}

fn is_frame(dest: Option<&str>) -> bool {
    matches!(dest, Some("iframe" | "frame" | "embed" | "object"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in list {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn only_the_name_of_the_link_is_a_host() {
        let rules = AccessRules::new(8080);
        let check = |list: &[(&'static str, &str)], expect| {
            assert_eq!(rules.check_host(&headers(list)), expect, "{list:?}");
        };
        check(&[("host", "localhost:8080")], Ok(()));
        for host in
            ["127.0.0.1:8080", "localhost", "localhost:80", "evil.example:8080", "localhost:8080.evil", ""]
        {
            check(&[("host", host)], Err(RequestDenied::Host));
        }
        check(&[], Err(RequestDenied::Host));
        check(&[("host", "localhost:8080"), ("host", "evil")], Err(RequestDenied::Host));
    }

    #[test]
    fn interface_takes_requests_of_its_own_page_only() {
        let rules = AccessRules::new(8080);
        let own = [
            ("origin", "http://localhost:8080"),
            ("sec-fetch-site", "same-origin"),
            ("content-type", "application/json; charset=utf-8"),
        ];
        assert_eq!(rules.check_api(&headers(&own)), Ok(()));
        let with = |name: &'static str, value: Option<&str>| {
            let mut map = headers(&own);
            map.remove(name);
            value.map(|value| map.append(name, value.parse().unwrap()));
            rules.check_api(&map)
        };
        for origin in [None, Some("null"), Some("http://localhost:9090"), Some("http://127.0.0.1:8080")] {
            assert_eq!(with("origin", origin), Err(RequestDenied::Origin), "{origin:?}");
        }
        for site in [None, Some("same-site"), Some("cross-site"), Some("none")] {
            assert_eq!(with("sec-fetch-site", site), Err(RequestDenied::FetchMetadata), "{site:?}");
        }
        for kind in
            [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("text/plain;json")]
        {
            assert_eq!(with("content-type", kind), Err(RequestDenied::ContentType), "{kind:?}");
        }
    }

    #[test]
    fn page_can_be_opened_and_not_embedded() {
        let rules = AccessRules::new(8080);
        let check = |site: &str, mode: &str, dest: &str, expect| {
            let map =
                headers(&[("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest)]);
            assert_eq!(rules.check_asset(&map), expect, "{site} {mode} {dest}");
        };
        let refused = Err(RequestDenied::FetchMetadata);
        assert_eq!(rules.check_asset(&headers(&[])), Ok(()), "a client that is no browser");
        check("none", "navigate", "document", Ok(()));
        check("cross-site", "navigate", "document", Ok(()));
        check("same-origin", "cors", "script", Ok(()));
        check("cross-site", "no-cors", "script", refused);
        check("same-site", "cors", "script", refused);
        check("cross-site", "navigate", "iframe", refused);
        check("same-origin", "navigate", "iframe", refused);
    }
}
