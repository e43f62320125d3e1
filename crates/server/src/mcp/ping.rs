//! `ping`: answered at any time, also before the handshake.

use serde_json::json;

use crate::agent::Agent;
use crate::rpc;
use crate::service::{Answer, Method};

pub(crate) const METHOD: Method<Agent> =
    Method { name: "ping", run: |_, _, _| Ok(Answer::Now(rpc::answer(&json!({})))) };
