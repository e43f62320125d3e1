//! Mode, PIN, sessions, grants, tools and health.

use console_view::{ActionEffect, ConsoleHeader, LedgerRow, visible_json};
use serde::Deserialize;
use serde_json::{Value, json};
use tool::Mode;

use super::{Api, ApiResult, required_pin, without_nulls};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ModeParams {
    mode: Mode,
    reason: String,
    #[serde(default)]
    pin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallerParams {
    caller: String,
    #[serde(default)]
    pin: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionParams {
    session_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantParams {
    id: String,
}

/// Hosts whose settings `sinew hook install` can change.
const HOSTS: [&str; 1] = ["claude-code"];

impl Api {
    pub(super) async fn set_mode(&self, change: ModeParams) -> ApiResult {
        let status = self.link.request("control/status", json!({})).await?;
        let settable = ConsoleHeader::from_status(&status).modes;
        let loosens = settable.iter().any(|it| it.to == change.mode && it.effect == ActionEffect::Loosens);
        let pin = loosens.then(|| required_pin(&change.pin)).transpose()?;
        let params = without_nulls(json!({"mode": change.mode, "reason": change.reason, "pin": pin}));
        Ok(self.link.request("control/mode.set", params).await?)
    }

    pub(super) async fn mode_history(&self) -> ApiResult {
        let reply = &self.link.request("control/ledger.query", json!({"kind": "mode", "limit": 200})).await?;
        let records = reply["records"].as_array().map(Vec::as_slice).unwrap_or_default();
        let change = |record: &Value| {
            let row = LedgerRow::from_record(record);
            json!({"seq": row.seq, "time_ms": row.time_ms, "from": record["from"], "to": record["to"],
                "reason": row.target, "by": row.caller, "sensors": visible_json(record.pointer("/data/sensors").unwrap_or(&Value::Null))})
        };
        let changes: Vec<Value> = records.iter().rev().map(change).collect();
        Ok(json!({"changes": changes}))
    }

    pub(super) async fn resume_caller(&self, wanted: CallerParams) -> ApiResult {
        let params = json!({"caller": wanted.caller, "pin": required_pin(&wanted.pin)?});
        Ok(self.link.request("control/callers.resume", params).await?)
    }

    pub(super) async fn sessions(&self) -> ApiResult {
        let sessions = &self.link.request("control/sessions.list", json!({})).await?;
        let grants = &self.link.request("control/grants.list", json!({})).await?;
        let callers = &self.link.request("control/callers.list", json!({})).await?;
        Ok(visible_json(&json!({"sessions": sessions["sessions"], "grants": grants["grants"],
            "suspended": callers["suspended"]})))
    }

    pub(super) async fn close_session(&self, wanted: SessionParams) -> ApiResult {
        let params = json!({"session_id": wanted.session_id});
        Ok(self.link.request("control/sessions.close", params).await?)
    }

    pub(super) async fn revoke(&self, wanted: GrantParams) -> ApiResult {
        Ok(self.link.request("control/grants.revoke", json!({"id": wanted.id})).await?)
    }

    pub(super) async fn tools(&self) -> ApiResult {
        let tools = &self.subcommands.run(&["tools", "list"]).await?;
        let status = &self.link.request("control/status", json!({})).await?;
        Ok(visible_json(&json!({"tools": tools["tools"], "problems": status["manifest_problems"]})))
    }

    pub(super) async fn health(&self) -> ApiResult {
        let checks = &self.subcommands.run(&["doctor"]).await?;
        let status = self.link.request("control/status", json!({})).await?;
        Ok(visible_json(&json!({"checks": checks["checks"], "status": status})))
    }

    /// Commands that connect an agent, for the first steps.
    pub(super) fn agents(&self) -> ApiResult {
        let program = std::env::current_exe().map(|path| path.display().to_string());
        let program = program.unwrap_or_else(|_| "sinew".to_owned());
        Ok(json!({"program": program, "hosts": HOSTS,
            "agent_socket": self.context.home().agent_socket().display().to_string(),
            "mcp": {"mcpServers": {"sinew": {"command": program, "args": ["mcp"]}}}}))
    }
}
