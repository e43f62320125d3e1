//! WebSocket handshake. A response that selects another subprotocol or an extension is refused, because it
//! would change the meaning of the frames.

use reqwest::header::{
    CONNECTION, HeaderMap, HeaderName, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS,
    SEC_WEBSOCKET_PROTOCOL, UPGRADE,
};
use reqwest::{Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};

use crate::request::HttpRequest;

/// A handshake in progress.
pub(super) struct WebSocketHandshake {
    protocol: &'static str,
    key: String,
}

impl WebSocketHandshake {
    pub(super) fn new(protocol: &'static str) -> Self {
        WebSocketHandshake { protocol, key: generate_key() }
    }

    /// Adds the headers of a WebSocket handshake to a request.
    pub(super) fn apply_to(&self, request: HttpRequest) -> HttpRequest {
        request
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", self.key.clone())
            .header("sec-websocket-protocol", self.protocol)
    }

    /// Checks that a response completes the handshake. Returns the reason if not.
    pub(super) fn check(&self, response: &Response) -> Result<(), String> {
        let (status, headers) = (response.status(), response.headers());
        if status.is_redirection() {
            return Err(format!("it answered with status {}; redirects are not followed", status.as_u16()));
        }
        if status != StatusCode::SWITCHING_PROTOCOLS {
            return Err(format!("it answered with status {}", status.as_u16()));
        }
        let is = |name: &HeaderName, word: &str| {
            single_value(headers, name).is_some_and(|value| value.eq_ignore_ascii_case(word))
        };
        let accepted = derive_accept_key(self.key.as_bytes());
        if !is(&UPGRADE, "websocket") || !has_token(headers, &CONNECTION, "upgrade") {
            return Err("its response is not a WebSocket upgrade".to_owned());
        }
        if single_value(headers, &SEC_WEBSOCKET_ACCEPT) != Some(accepted.as_str()) {
            return Err("its `Sec-WebSocket-Accept` header is wrong".to_owned());
        }
        if single_value(headers, &SEC_WEBSOCKET_PROTOCOL) != Some(self.protocol) {
            return Err(format!("it does not support the subprotocol `{}`", self.protocol));
        }
        match headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
            true => Err("it selects an extension that was not requested".to_owned()),
            false => Ok(()),
        }
    }
}

/// Returns the value of a header that occurs exactly once.
fn single_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first.trim())
}

fn has_token(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
}
