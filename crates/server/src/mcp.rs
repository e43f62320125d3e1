//! The Model Context Protocol, in both its eras: with a handshake, and with requests that stand alone. One file per
//! method; `era.rs` tells the eras apart.
//!
//! MCP grows new parameters with every revision, so unknown ones are passed over here, unlike in Sinew's own
//! methods; only what begins with `sinew/` is ours, and strict.

pub(crate) mod call;
pub(crate) mod discover;
pub(crate) mod initialize;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod ping;

mod era;
mod progress;
mod result;

use serde_json::{Map, Value, json};

use crate::methods::status::LimitsReply;
use crate::rpc::{Id, Params};
use crate::service::{Effect, Notice};
use crate::settings::Limits;

/// The revisions that begin with a handshake, oldest first.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The revision in which every request stands alone.
const STATELESS: &str = "2026-07-28";

const INSTRUCTIONS: &str = "Every call is checked, judged by the policy of this machine and recorded. A call that was not \
    run comes back as an error that says why and, where there is one, how to put it right: read it before trying again. \
    What policy forbids stays forbidden however it is asked.";

/// What a client is told whenever there are other tools than before.
const LIST_CHANGED: &str = "notifications/tools/list_changed";

/// What was agreed at the beginning of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handshake {
    /// What the client calls itself, fit for display.
    pub(crate) client: Option<String>,
    /// The revision both will speak.
    pub(crate) revision: &'static str,
}

pub(crate) const NOTICES: &[Notice] = &[
    Notice { name: "notifications/initialized", run: |_| Effect::Nothing },
    Notice { name: "notifications/cancelled", run: cancelled },
];

/// The client takes a request back: a call that runs or waits is ended, and recorded as cancelled.
fn cancelled(mut params: Params) -> Effect {
    match params.take("requestId").map(Id::read) {
        Some(Ok(id)) => Effect::Withdraw(id),
        _ => Effect::Nothing,
    }
}

/// What this server can do.
fn capabilities() -> Value {
    json!({"tools": {"listChanged": true}})
}

/// What this server calls itself.
fn server_info() -> Value {
    json!({"name": "sinew", "title": "Sinew", "version": env!("CARGO_PKG_VERSION")})
}

/// What a client has to keep to, under a name of ours.
fn announced(limits: &Limits) -> Map<String, Value> {
    Map::from_iter([("sinew/limits".to_owned(), json!(LimitsReply::new(limits)))])
}

const LONGEST_NAME: usize = 64;

/// At most 64 characters that can be shown anywhere: no control, no direction marks.
fn displayable(whole: &str) -> Option<String> {
    let harmless = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || *c == ' ';
    let name: String = whole.chars().filter(harmless).take(LONGEST_NAME).collect();
    match name.trim() {
        "" => None,
        name if name == whole => Some(name.to_owned()),
        name => Some(tool::shortened(name, LONGEST_NAME, whole)),
    }
}
