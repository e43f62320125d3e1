//! `initialize` and `server/discover`: start of a conversation in each era. `initialize` negotiates the protocol
//! revision and reads the name of the client.

use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::era::{self, Era, Keeping};
use super::{
    Handshake, INSTRUCTIONS, LIST_CHANGED, REVISIONS, STATELESS, announced, capabilities, displayable,
    server_info,
};

use crate::agent::Agent;
use crate::notify::Notifier;
use crate::rpc::{self, Params, RpcError};
use crate::service::{Answer, Call};
use crate::session::Session;

const DISCOVER: &str = "server/discover";

/// Performs the handshake of a connection.
pub(crate) fn initialize(agent: &Agent, session: &mut Session, call: Call) -> Result<Answer, RpcError> {
    if session.handshake.is_some() {
        return Err(RpcError::invalid_request("this connection is already initialized"));
    }
    let handshake = agree(call.params)?;
    let reply = json!({
        "protocolVersion": handshake.revision,
        "capabilities": capabilities(),
        "serverInfo": server_info(),
        "instructions": INSTRUCTIONS,
        "_meta": announced(&agent.limits),
    });
    tracing::debug!(connection = session.connection, revision = handshake.revision, "mcp_initialized");
    session.handshake = Some(handshake);
    let changes = agent.layer.tool_changes();
    Ok(Answer::Follow(rpc::answer(&reply), Box::new(|notifier| Box::pin(tell_changes(changes, notifier)))))
}

async fn tell_changes(mut changes: watch::Receiver<u64>, notifier: Notifier) {
    while changes.changed().await.is_ok() {
        notifier.tell(LIST_CHANGED, &json!({})).await;
    }
}

/// Accepts the client's revision if it is supported, else offers the newest supported one; the client may
/// then disconnect.
fn agree(mut params: Params) -> Result<Handshake, RpcError> {
    let wanted: String = params.need("protocolVersion")?;
    let client: Option<Map<String, Value>> = params.want("clientInfo")?;
    let [.., newest] = REVISIONS;
    let revision = REVISIONS.into_iter().find(|known| *known == wanted).unwrap_or(newest);
    let name = client.as_ref().and_then(|client| client.get("name")?.as_str());
    Ok(Handshake { client: name.and_then(displayable), revision })
}

/// Result of `server/discover`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
    supported_versions: [&'static str; 1],
    capabilities: Value,
    instructions: &'static str,
    #[serde(flatten)]
    keeping: Keeping,
    #[serde(rename = "_meta")]
    meta: Map<String, Value>,
}

/// Returns server information in the stateless era, in place of a handshake.
pub(crate) fn discover(agent: &Agent, session: &mut Session, mut call: Call) -> Result<Answer, RpcError> {
    let (era, _) = Era::of(session, &mut call.params)?;
    let Some(keeping) = era.keeping() else {
        return Err(RpcError::unknown_method(DISCOVER, []));
    };
    let discovered = Discovered {
        supported_versions: [STATELESS],
        capabilities: capabilities(),
        instructions: INSTRUCTIONS,
        keeping,
        meta: announced(&agent.limits).into_iter().chain([era::signature()]).collect(),
    };
    Ok(Answer::now(&discovered))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncBufReadExt, BufReader};

    use super::*;
    use crate::outbox::Outbox;

    #[tokio::test]
    async fn client_is_notified_when_tools_change() {
        let (server, client) = tokio::io::duplex(1024);
        let (outbox, _writer) = Outbox::open(server, Duration::from_secs(60));
        let sender = watch::Sender::new(0_u64);
        let telling = tokio::spawn(tell_changes(sender.subscribe(), Notifier::new(outbox)));
        let mut lines = BufReader::new(client).lines();
        for change in 1..3 {
            sender.send_replace(change);
            let told: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
            assert_eq!(told["method"], LIST_CHANGED);
            assert!(told.get("id").is_none(), "a notification has no id: {told}");
        }
        drop(sender);
        telling.await.unwrap();
    }

    #[test]
    fn handshake_negotiates_or_names_the_wrong_field() {
        let agree = |params: Value| agree(Params::read(Some(params)).unwrap());
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
        for revision in REVISIONS {
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
