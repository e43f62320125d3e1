//! The two eras of MCP: in one, a connection starts with a handshake; in the other, every request states its
//! revision and its client in `_meta`. One connection may use both.

use serde::Serialize;
use serde_json::{Map, Value};
use tool::{Caller, CallerEndpoint};

use super::{HANDSHAKE_REVISIONS, STATELESS_REVISION, display_name};
use crate::connection_state::ConnectionState;
use crate::rpc::{Params, RpcError};

const REVISION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CLIENT_INFO_KEY: &str = "io.modelcontextprotocol/clientInfo";
const CLIENT_CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO_KEY: &str = "io.modelcontextprotocol/serverInfo";
/// Extension of the stateless revision by which a call may become a task.
pub(crate) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Era of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum McpEra {
    /// The handshake of the connection applies.
    Handshake,
    /// The request is stateless.
    Stateless {
        /// Name of the client, made safe for display.
        client: Option<String>,
        /// Features that the client declares in this request.
        features: ClientFeatures,
    },
}

/// Optional features of a client that this server uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClientFeatures {
    /// The client accepts a task in place of a result.
    pub(crate) tasks: bool,
    /// The client shows forms to its user.
    pub(crate) forms: bool,
}

impl ClientFeatures {
    fn from_capabilities(capabilities: &Map<String, Value>) -> Self {
        let elicitation = capabilities.get("elicitation").and_then(Value::as_object);
        ClientFeatures {
            tasks: capabilities.get("extensions").and_then(|it| it.get(TASKS_EXTENSION)).is_some(),
            // An empty object declares forms only.
            forms: elicitation.is_some_and(|modes| modes.is_empty() || modes.contains_key("form")),
        }
    }
}

impl McpEra {
    /// Takes `_meta` out of the parameters and determines the era from it.
    pub(crate) fn from_request(
        session: &mut ConnectionState,
        params: &mut Params,
    ) -> Result<(McpEra, Map<String, Value>), RpcError> {
        let meta: Map<String, Value> = params.optional("_meta")?.unwrap_or_default();
        let era = match meta.get(REVISION_KEY) {
            Some(revision) => {
                session.has_stateless_requests = true;
                Self::stateless(revision, &meta)?
            }
            None if session.handshake.is_some() => McpEra::Handshake,
            None => return Err(not_initialized()),
        };
        Ok((era, meta))
    }

    fn stateless(revision: &Value, meta: &Map<String, Value>) -> Result<McpEra, RpcError> {
        match revision.as_str() {
            Some(STATELESS_REVISION) => {}
            Some(other) => return Err(RpcError::unsupported_revision(other, &[STATELESS_REVISION])),
            None => return Err(RpcError::wrong_type(REVISION_KEY, "a string", revision)),
        }
        let features = match meta.get(CLIENT_CAPABILITIES_KEY) {
            Some(Value::Object(capabilities)) => ClientFeatures::from_capabilities(capabilities),
            Some(other) => return Err(RpcError::wrong_type(CLIENT_CAPABILITIES_KEY, "an object", other)),
            None => {
                return Err(RpcError::missing(CLIENT_CAPABILITIES_KEY, "an object, empty if there are none"));
            }
        };
        let name = meta.get(CLIENT_INFO_KEY).and_then(|client| client.get("name")?.as_str());
        Ok(McpEra::Stateless { client: name.and_then(display_name), features })
    }

    /// Returns the caller on whose behalf a call of this request runs.
    pub(crate) fn caller(&self, session: &ConnectionState) -> Caller {
        let caller = session.caller(CallerEndpoint::Mcp);
        match self {
            McpEra::Handshake => caller,
            McpEra::Stateless { client, .. } => Caller { client: client.clone(), ..caller },
        }
    }

    /// Returns the fields that this era adds to every result, if any.
    pub(crate) fn result_fields(&self) -> Option<StatelessResultFields> {
        match self {
            McpEra::Handshake => None,
            McpEra::Stateless { .. } => Some(StatelessResultFields { result_type: "complete" }),
        }
    }

    /// Returns the features that the client declares in this request. A handshake declares none that this
    /// server uses.
    pub(crate) fn features(&self) -> ClientFeatures {
        match self {
            McpEra::Handshake => ClientFeatures::default(),
            McpEra::Stateless { features, .. } => *features,
        }
    }
}

/// Fields of every result of the stateless era.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatelessResultFields {
    result_type: &'static str,
}

/// Cache hints of a cacheable result of the stateless era.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CacheHints {
    #[serde(flatten)]
    seal: StatelessResultFields,
    ttl_ms: u64,
    cache_scope: &'static str,
}

impl McpEra {
    /// Like `result_fields`, with cache hints. The time to live is short because a reload may change the
    /// result, and the scope is private because the visible tools depend on the user.
    pub(crate) fn cache_hints(&self) -> Option<CacheHints> {
        self.result_fields().map(|seal| CacheHints { seal, ttl_ms: 60_000, cache_scope: "private" })
    }
}

/// Returns the `_meta` entry that identifies this server in the stateless era.
pub(crate) fn server_info_entry() -> (String, Value) {
    (SERVER_INFO_KEY.to_owned(), super::server_info())
}

fn not_initialized() -> RpcError {
    let handshakes = HANDSHAKE_REVISIONS.join(", ");
    let message = format!(
        "send `initialize` first (protocol versions {handshakes}), or put `{REVISION_KEY}`: \"{STATELESS_REVISION}\" into the \
         request's `_meta`"
    );
    RpcError::invalid_params("_meta", &message).with_data("code", "not_initialized")
}

/// Refuses a method that the stateless revision does not have, if the request is of that revision.
pub(crate) fn refuse_stateless(
    session: &mut ConnectionState,
    params: &mut Params,
    method: &str,
) -> Result<(), RpcError> {
    let meta: Map<String, Value> = params.optional("_meta")?.unwrap_or_default();
    match meta.get(REVISION_KEY) {
        Some(_) => {
            session.has_stateless_requests = true;
            Err(RpcError::unknown_method(method, []))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::connection_state::PeerCredentials;
    use crate::mcp::McpHandshake;

    fn era(handshake: bool, meta: &Value) -> Result<McpEra, RpcError> {
        let mut session = ConnectionState::new(1, PeerCredentials { uid: 1, process: None }, None);
        session.handshake =
            handshake.then_some(McpHandshake { client: Some("old".to_owned()), revision: "2025-11-25" });
        let mut params = Params::read(Some(json!({"_meta": meta}))).unwrap();
        McpEra::from_request(&mut session, &mut params).map(|(era, _)| era)
    }

    #[test]
    fn request_era_overrides_the_connection_handshake() {
        let alone = |client: Option<&str>| McpEra::Stateless {
            client: client.map(str::to_owned),
            features: ClientFeatures::default(),
        };
        let stated = json!({REVISION_KEY: STATELESS_REVISION, CLIENT_CAPABILITIES_KEY: {}, CLIENT_INFO_KEY: {"name": "c\u{202e}1"}});
        for handshake in [false, true] {
            assert_eq!(
                era(handshake, &stated).unwrap(),
                alone(Some("c1 #82edfd4ff8757f91")),
                "the request's own client name counts"
            );
            let nameless = json!({REVISION_KEY: STATELESS_REVISION, CLIENT_CAPABILITIES_KEY: {}});
            assert_eq!(era(handshake, &nameless).unwrap(), alone(None));
        }
        assert_eq!(era(true, &json!({})).unwrap(), McpEra::Handshake);
        let error = era(false, &json!({})).unwrap_err();
        assert!(
            error.message.contains("initialize") && error.message.contains(STATELESS_REVISION),
            "{}",
            error.message
        );
    }

    #[test]
    fn features_are_those_that_the_request_declares() {
        let check = |capabilities: Value, tasks: bool, forms: bool| {
            let meta = json!({REVISION_KEY: STATELESS_REVISION, CLIENT_CAPABILITIES_KEY: capabilities});
            assert_eq!(era(true, &meta).unwrap().features(), ClientFeatures { tasks, forms }, "{meta}");
        };
        check(json!({}), false, false);
        check(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}), true, false);
        check(json!({"extensions": {"other": {}}, "tasks": {}}), false, false);
        check(json!({"elicitation": {}}), false, true);
        check(json!({"elicitation": {"form": {}, "url": {}}}), false, true);
        check(json!({"elicitation": {"url": {}}}), false, false);
        check(json!({"elicitation": true, "extensions": true}), false, false);
        assert_eq!(era(true, &json!({})).unwrap().features(), ClientFeatures::default());
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
        check(
            json!({REVISION_KEY: "2027-01-01", CLIENT_CAPABILITIES_KEY: {}}),
            -32022,
            "\"supported\":[\"2026-07-28\"]",
        );
        check(json!({REVISION_KEY: "2027-01-01"}), -32022, "\"requested\":\"2027-01-01\"");
        check(json!({REVISION_KEY: "2025-11-25", CLIENT_CAPABILITIES_KEY: {}}), -32022, "supported");
        check(json!({REVISION_KEY: 5, CLIENT_CAPABILITIES_KEY: {}}), -32602, REVISION_KEY);
        check(json!({REVISION_KEY: STATELESS_REVISION}), -32602, CLIENT_CAPABILITIES_KEY);
        check(
            json!({REVISION_KEY: STATELESS_REVISION, CLIENT_CAPABILITIES_KEY: []}),
            -32602,
            CLIENT_CAPABILITIES_KEY,
        );
    }
}
