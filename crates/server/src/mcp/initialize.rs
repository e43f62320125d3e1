//! `initialize` and `server/discover`: start of a conversation in each era. `initialize` negotiates the protocol
//! revision and reads the name of the client.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::era::{self, CacheHints, McpEra};
use super::{
    HANDSHAKE_REVISIONS, INSTRUCTIONS, LIST_CHANGED, McpHandshake, STATELESS_REVISION, capabilities,
    display_name, limits_meta, server_info,
};

use crate::agent::AgentContext;
use crate::connection_state::ConnectionState;
use crate::notify::Notifier;
use crate::rpc::{self, Params, RpcError};
use crate::service::{MethodCall, MethodReply, MethodResult};

const DISCOVER: &str = "server/discover";

/// Performs the handshake of a connection.
pub(crate) fn initialize(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    era::refuse_stateless(session, &mut call.params, "initialize")?;
    if session.handshake.is_some() {
        return Err(RpcError::invalid_request("this connection is already initialized"));
    }
    let handshake = negotiate(call.params)?;
    let reply = json!({
        "protocolVersion": handshake.revision,
        "capabilities": capabilities(handshake.revision),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
        "_meta": limits_meta(&agent.limits),
    });
    tracing::debug!(connection = session.connection, revision = handshake.revision, "mcp_initialized");
    if let Some(entry) = &session.client_entry {
        entry.set_name(handshake.client.as_deref());
    }
    session.handshake = Some(handshake);
    let changes = agent.layer.tool_changes();
    Ok(MethodReply::ThenNotify(
        rpc::encode_result(&reply),
        Box::new(|notifier| Box::pin(notify_changes(changes, notifier))),
    ))
}

async fn notify_changes(mut changes: watch::Receiver<u64>, notifier: Notifier) {
    while changes.changed().await.is_ok() {
        notifier.notify(LIST_CHANGED, &json!({})).await;
    }
}

/// Accepts the client's revision if it is supported, else offers the newest supported one; the client may
/// then disconnect.
fn negotiate(mut params: Params) -> Result<McpHandshake, RpcError> {
    let wanted: String = params.required("protocolVersion")?;
    let client: Option<Map<String, Value>> = params.optional("clientInfo")?;
    let [.., newest] = HANDSHAKE_REVISIONS;
    let revision = HANDSHAKE_REVISIONS.into_iter().find(|known| *known == wanted).unwrap_or(newest);
    let name = client.as_ref().and_then(|client| client.get("name")?.as_str());
    Ok(McpHandshake { client: name.and_then(display_name), revision })
}

/// Result of `server/discover`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DiscoverResult {
    supported_versions: [&'static str; 1],
    capabilities: Value,
    instructions: &'static str,
    #[serde(flatten)]
    keeping: CacheHints,
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
}

/// Returns server information in the stateless era, in place of a handshake.
pub(crate) fn discover(
    agent: &AgentContext,
    session: &mut ConnectionState,
    mut call: MethodCall,
) -> MethodResult {
    let (era, _) = McpEra::from_request(session, &mut call.params)?;
    let Some(keeping) = era.cache_hints() else {
        return Err(RpcError::unknown_method(DISCOVER, []));
    };
    let discovered = DiscoverResult {
        supported_versions: [STATELESS_REVISION],
        capabilities: capabilities(STATELESS_REVISION),
        instructions: INSTRUCTIONS,
        keeping,
        meta: limits_meta(&agent.limits).into_iter().chain([era::server_info_entry()]).collect(),
    };
    Ok(MethodReply::now(&discovered))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::outbox::{Outbox, OutboxHooks};

    #[tokio::test]
    async fn client_is_notified_when_tools_change() {
        let (server, client) = tokio::io::duplex(1024);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(60), OutboxHooks::none());
        let sender = watch::Sender::new(0_u64);
        let notifying = tokio::spawn(notify_changes(sender.subscribe(), Notifier::new(outbox)));
        let mut lines = BufReader::new(client).lines();
        for change in 1..3 {
            sender.send_replace(change);
            let reported: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(reported["method"], LIST_CHANGED);
            assert!(reported.get("id").is_none(), "a notification has no id: {reported}");
        }
        drop(sender);
        notifying.await.unwrap();
    }

    #[test]
    fn handshake_negotiates_or_names_the_wrong_field() {
        let agree = |params: Value| negotiate(Params::read(Some(params)).unwrap());
        let check = |version: &str, client: Value, revision: &str, name: Option<&str>| {
            let params =
                json!({"protocolVersion": version, "clientInfo": client, "capabilities": {}, "more": 1});
            let handshake = agree(params).unwrap();
            assert_eq!(
                (handshake.revision, handshake.client.as_deref()),
                (revision, name),
                "{version} {client}"
            );
        };
        for revision in HANDSHAKE_REVISIONS {
            check(revision, json!({"name": "claude-code", "version": "2"}), revision, Some("claude-code"));
        }
        check("2026-07-28", json!({}), "2025-11-25", None);
        check(
            "",
            json!({"name": "a\u{202e}b\n\u{1b}[31mc"}),
            "2025-11-25",
            Some("ab[31mc #91e8faf4c0868046"),
        );
        check("1", json!({"name": "\u{0}\u{7} "}), "2025-11-25", None);
        check(
            "1",
            json!({"name": "x".repeat(100)}),
            "2025-11-25",
            Some(&format!("{} #09ecb6ebc8bcefc7", "x".repeat(46))),
        );
        check("1", json!({"name": 5}), "2025-11-25", None);
        assert_eq!(agree(json!({})).unwrap_err().data["field"], "protocolVersion");
        assert_eq!(agree(json!({"protocolVersion": 1})).unwrap_err().data["field"], "protocolVersion");
        let error = agree(json!({"protocolVersion": "1", "clientInfo": "x"})).unwrap_err();
        assert_eq!(error.data["field"], "clientInfo");
    }
}
