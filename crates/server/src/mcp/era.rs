//! The two eras of MCP: in one, a connection starts with a handshake; in the other, every request states its
//! revision and its client in `_meta`. One connection may use both.

use serde::Serialize;
use serde_json::{Map, Value};
use tool::{Caller, Door};

use super::{REVISIONS, STATELESS, displayable};
use crate::rpc::{Params, RpcError};
use crate::session::Session;

const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Era of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// The handshake of the connection applies.
    Handshake,
    /// The request is stateless.
    Stateless {
        /// Name of the client, made safe for display.
        client: Option<String>,
    },
}

impl Era {
    /// Takes `_meta` out of the parameters and determines the era from it.
    pub(crate) fn of(session: &Session, params: &mut Params) -> Result<(Era, Map<String, Value>), RpcError> {
        let meta: Map<String, Value> = params.want("_meta")?.unwrap_or_default();
        let era = match meta.get(REVISION) {
            Some(revision) => Self::stateless(revision, &meta)?,
            None if session.handshake.is_some() => Era::Handshake,
            None => return Err(neither()),
        };
        Ok((era, meta))
    }

    fn stateless(revision: &Value, meta: &Map<String, Value>) -> Result<Era, RpcError> {
        match revision.as_str() {
            Some(STATELESS) => {}
            Some(other) => return Err(RpcError::unsupported_revision(other, &[STATELESS])),
            None => return Err(RpcError::wrong_type(REVISION, "a string", revision)),
        }
        match meta.get(CAPABILITIES) {
            Some(Value::Object(_)) => {}
            Some(other) => return Err(RpcError::wrong_type(CAPABILITIES, "an object", other)),
            None => return Err(RpcError::missing(CAPABILITIES, "an object, empty if there are none")),
        }
        let name = meta.get(CLIENT).and_then(|client| client.get("name")?.as_str());
        Ok(Era::Stateless { client: name.and_then(displayable) })
    }

    /// Returns the caller on whose behalf a call of this request runs.
    pub(crate) fn caller(&self, session: &Session) -> Caller {
        let caller = session.caller(Door::Mcp);
        match self {
            Era::Handshake => caller,
            Era::Stateless { client } => Caller { client: client.clone(), ..caller },
        }
    }

    /// Returns the fields that this era adds to every result, if any.
    pub(crate) fn seal(&self) -> Option<Seal> {
        match self {
            Era::Handshake => None,
            Era::Stateless { .. } => Some(Seal { result_type: "complete" }),
        }
    }
}

/// Fields of every result of the stateless era.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Seal {
    result_type: &'static str,
}

/// Cache hints of a cacheable result of the stateless era.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Keeping {
    #[serde(flatten)]
    seal: Seal,
    ttl_ms: u64,
    cache_scope: &'static str,
}

impl Era {
    /// Like `result_fields`, with cache hints. The time to live is short because a reload may change the
    /// result, and the scope is private because the visible tools depend on the user.
    pub(crate) fn keeping(&self) -> Option<Keeping> {
        self.seal().map(|seal| Keeping { seal, ttl_ms: 60_000, cache_scope: "private" })
    }
}

/// Returns the `_meta` entry that identifies this server in the stateless era.
pub(crate) fn signature() -> (String, Value) {
    (SERVER.to_owned(), super::server_info())
}

fn neither() -> RpcError {
    let handshakes = REVISIONS.join(", ");
    let message = format!(
        "send `initialize` first (protocol versions {handshakes}), or put `{REVISION}`: \"{STATELESS}\" into the \
         request's `_meta`"
    );
    RpcError::invalid_request(&message).with("code", "not_initialized")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Handshake;
    use crate::session::Peer;

    fn era(handshake: bool, meta: &Value) -> Result<Era, RpcError> {
        let mut session = Session::new(1, Peer { uid: 1, pid: None }, None);
        session.handshake =
            handshake.then_some(Handshake { client: Some("old".to_owned()), revision: "2025-11-25" });
        let mut params = Params::read(Some(json!({"_meta": meta}))).unwrap();
        Era::of(&session, &mut params).map(|(era, _)| era)
    }

    #[test]
    fn request_era_overrides_the_connection_handshake() {
        let alone = |client: Option<&str>| Era::Stateless { client: client.map(str::to_owned) };
        let stated = json!({REVISION: STATELESS, CAPABILITIES: {}, CLIENT: {"name": "c\u{202e}1"}});
        for handshake in [false, true] {
            assert_eq!(
                era(handshake, &stated).unwrap(),
                alone(Some("c1 #82edfd4ff8757f91")),
                "the request's own client name counts"
            );
            let nameless = json!({REVISION: STATELESS, CAPABILITIES: {}});
            assert_eq!(era(handshake, &nameless).unwrap(), alone(None));
        }
        assert_eq!(era(true, &json!({})).unwrap(), Era::Handshake);
        let error = era(false, &json!({})).unwrap_err();
        assert!(
            error.message.contains("initialize") && error.message.contains(STATELESS),
            "{}",
            error.message
        );
    }

    #[test]
    fn stateless_request_errors_name_the_field() {
        let check = |meta: Value, code: i64, field: &str| {
            for handshake in [false, true] {
                let error = era(handshake, &meta).unwrap_err();
                assert_eq!(error.code, code, "{meta}");
                assert!(error.data.to_string().contains(field), "{meta}: {}", error.data);
            }
        };
        check(json!({REVISION: "2027-01-01", CAPABILITIES: {}}), -32022, "\"supported\":[\"2026-07-28\"]");
        check(json!({REVISION: "2027-01-01"}), -32022, "\"requested\":\"2027-01-01\"");
        check(json!({REVISION: "2025-11-25", CAPABILITIES: {}}), -32022, "supported");
        check(json!({REVISION: 5, CAPABILITIES: {}}), -32602, REVISION);
        check(json!({REVISION: STATELESS}), -32602, CAPABILITIES);
        check(json!({REVISION: STATELESS, CAPABILITIES: []}), -32602, CAPABILITIES);
    }
}
