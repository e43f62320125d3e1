//! HTTP request, and the limits of its response.

use std::time::Instant;

use crate::credential::Credential;

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpMethod {
    /// `GET`.
    Get,
    /// `POST`, with a body.
    Post,
}

/// HTTP request. It has no `Debug` output, because headers may carry keys.
#[derive(Clone)]
pub struct HttpRequest {
    /// Absolute URL.
    pub url: String,
    /// Method.
    pub method: HttpMethod,
    /// Headers other than `Host`, `Connection` and `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// Body; empty for none.
    pub body: Vec<u8>,
    /// Key, which is sent only to the one origin it belongs to.
    pub credential: Option<Credential>,
}

impl HttpRequest {
    /// Creates a `GET` request without headers.
    pub fn get(url: impl Into<String>) -> Self {
        let (url, method) = (url.into(), HttpMethod::Get);
        HttpRequest { url, method, headers: Vec::new(), body: Vec::new(), credential: None }
    }

    /// Adds one header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Limits of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseLimits {
    /// Maximum number of body bytes to read, before decoding.
    pub body_bytes: u64,
    /// Time by which the whole response must have arrived, including redirects.
    pub deadline: Instant,
}
