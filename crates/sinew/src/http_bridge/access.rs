//! Checks of a request before its body is read: the host and the origin it names, and the bearer token.
//!
//! A page in a browser can reach a loopback port, also through a name of its own that it resolves to this
//! machine (DNS rebinding). Such requests name another host or another origin. Programs of other users can
//! reach the port too, and do not have the token.

use hyper::header::{AUTHORIZATION, HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, StatusCode};
use tool::canonical;

/// Names of this machine that a request may use.
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Accepted hosts and origins, and the digest of the token.
pub(super) struct AccessRules {
    port: u16,
    token_digest: String,
}

/// Reason to refuse a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessDenied {
    /// `Host` names another machine, or is missing.
    Host,
    /// The request comes from a page of another origin.
    Origin,
    /// The token is missing or wrong.
    Token,
}

impl AccessDenied {
    pub(super) fn status(self) -> StatusCode {
        match self {
            AccessDenied::Host | AccessDenied::Origin => StatusCode::FORBIDDEN,
            AccessDenied::Token => StatusCode::UNAUTHORIZED,
        }
    }

    pub(super) fn message(self) -> &'static str {
        match self {
            AccessDenied::Host => {
                "the Host header must name this server: localhost, 127.0.0.1 or [::1], with its port"
            }
            AccessDenied::Origin => "requests of pages of another origin are refused",
            AccessDenied::Token => "send `Authorization: Bearer TOKEN` with the token of the token file",
        }
    }
}

impl AccessRules {
    pub(super) fn new(port: u16, token: &str) -> Self {
        AccessRules { port, token_digest: digest(token) }
    }

    /// Checks the headers of a request.
    pub(super) fn check(&self, headers: &HeaderMap) -> Result<(), AccessDenied> {
        if !single(headers, &HOST).is_some_and(|host| self.names_this_server(host)) {
            return Err(AccessDenied::Host);
        }
        if headers.contains_key(ORIGIN) && !single(headers, &ORIGIN).is_some_and(|it| self.is_own_origin(it))
        {
            return Err(AccessDenied::Origin);
        }
        let sent = single(headers, &AUTHORIZATION).and_then(|value| value.split_once(' '));
        match sent {
            // Digests are compared, so the time of the comparison says nothing about the token.
            Some((scheme, token))
                if scheme.eq_ignore_ascii_case("bearer") && digest(token.trim()) == self.token_digest =>
            {
                Ok(())
            }
            _ => Err(AccessDenied::Token),
        }
    }

    fn names_this_server(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
            _ => (host, None),
        };
        // A name without a port means the default port of HTTP, where another server may run.
        let is_port = port.unwrap_or("80") == self.port.to_string();
        is_port && LOOPBACK_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
    }

    fn is_own_origin(&self, origin: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|host| self.names_this_server(host))
    }
}

/// Returns the value of a header that occurs exactly once.
pub(crate) fn single<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn digest(token: &str) -> String {
    canonical::sha256_hex(token.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[track_caller]
    fn check(headers: &[(&'static str, &str)], expect: Result<(), AccessDenied>) {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        assert_eq!(AccessRules::new(8080, TOKEN).check(&map), expect, "{headers:?}");
    }

    #[test]
    fn foreign_hosts_and_origins_are_refused() {
        let bearer = format!("Bearer {TOKEN}");
        let token = ("authorization", bearer.as_str());
        for host in ["localhost:8080", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST:8080"] {
            check(&[("host", host), token], Ok(()));
            check(&[("host", host), ("origin", &format!("http://{host}")), token], Ok(()));
        }
        let refused = Err(AccessDenied::Host);
        for host in [
            "127.0.0.1",
            "[::1]",
            "evil.example",
            "evil.example:8080",
            "localhost:9090",
            "localhost.evil.example:8080",
            "",
        ] {
            check(&[("host", host), token], refused);
        }
        check(&[token], refused);
        check(&[("host", "localhost:8080"), ("host", "evil.example"), token], refused);
        let refused = Err(AccessDenied::Origin);
        let local = ("host", "localhost:8080");
        for origin in [
            "http://localhost",
            "http://evil.example",
            "https://localhost:8080",
            "http://localhost:3000",
            "null",
            "",
        ] {
            check(&[local, ("origin", origin), token], refused);
        }
    }

    #[test]
    fn missing_or_wrong_token_is_refused() {
        let local = ("host", "127.0.0.1:8080");
        let refused = Err(AccessDenied::Token);
        check(&[local], refused);
        for value in ["Bearer ", "Bearer x", "Basic dTpw", TOKEN, &format!("Bearer {TOKEN}0")] {
            check(&[local, ("authorization", value)], refused);
        }
        check(&[local, ("authorization", &format!("bearer {TOKEN}"))], Ok(()));
    }
}
