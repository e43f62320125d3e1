//! What is asked of a server, and what its answer may take.

use std::time::Instant;

use crate::credential::Credential;

/// The method of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`, with a body.
    Post,
}

/// One request. Headers may carry keys, so it has no form that could be printed.
#[derive(Clone)]
pub struct Question {
    /// A whole address.
    pub url: String,
    /// Its method.
    pub method: Method,
    /// Headers beside `Host`, `Connection` and `Content-Length`.
    pub headers: Vec<(&'static str, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// A key, which is sent to the one address it is for or not at all.
    pub credential: Option<Credential>,
}

impl Question {
    /// A plain `GET`.
    pub fn get(url: impl Into<String>) -> Self {
        let (url, method) = (url.into(), Method::Get);
        Question { url, method, headers: Vec::new(), body: Vec::new(), credential: None }
    }

    /// The same with one header more.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// What an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// How many bytes of the body are read, as they travel.
    pub body_bytes: u64,
    /// When it must all have come, redirects included.
    pub deadline: Instant,
}
