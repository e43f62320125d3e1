//! JSON interface of the page. Each entry reads its parameters, sends requests to the daemon, and returns what the
//! view model makes of the replies.
//!
//! The daemon checks every request that loosens: it knows from the connection that the request comes from a console. This
//! file refuses a missing PIN first, so that such a request does not even reach the daemon.

mod calls;
mod ledger;
mod operator;
mod policy;
mod requests;

use std::sync::Arc;

use client::ClientError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::command_context::CommandContext;

use super::feed::Feed;
use super::link::ControlLink;
use super::subcommands::Subcommands;

/// Handlers of the interface with what they use.
pub(super) struct Api {
    context: CommandContext,
    link: Arc<ControlLink>,
    feed: Arc<Feed>,
    subcommands: Subcommands,
}

/// Reason why a request has no result.
#[derive(Debug)]
pub(super) struct ApiError {
    pub(super) code: String,
    pub(super) message: String,
    pub(super) data: Value,
}

type ApiResult = Result<Value, ApiError>;

/// Removes absent parameters, which are null.
pub(super) fn without_nulls(mut params: Value) -> Value {
    if let Some(fields) = params.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    params
}

impl ApiError {
    fn new(code: &str, message: impl Into<String>) -> ApiError {
        ApiError { code: code.to_owned(), message: message.into(), data: Value::Null }
    }

    fn invalid(message: impl Into<String>) -> ApiError {
        ApiError::new("invalid", message)
    }
}

impl From<ClientError> for ApiError {
    fn from(error: ClientError) -> ApiError {
        let message = error.to_string();
        match error {
            ClientError::Rpc { data, .. } => {
                let code = data.get("code").and_then(Value::as_str).unwrap_or("failed").to_owned();
                ApiError { code, message, data }
            }
            _ => ApiError::new(
                "unreachable",
                "the daemon does not answer; the console connects again as soon as it runs",
            ),
        }
    }
}

impl Api {
    pub(super) fn new(context: CommandContext, link: Arc<ControlLink>, feed: Arc<Feed>) -> Api {
        Api { context, link, feed, subcommands: Subcommands::default() }
    }

    /// Runs the entry with this name.
    pub(super) async fn call(&self, name: &str, params: Value) -> ApiResult {
        match name {
            "status" => self.status().await,
            "overview" => self.overview(read(params)?).await,
            "inbox" => self.inbox().await,
            "request" => self.request(read(params)?).await,
            "deny" => self.deny(read(params)?).await,
            "approve" => self.approve(read(params)?).await,
            "edit" => self.edit(read(params)?).await,
            "live" => self.live().await,
            "cancel" => self.cancel(read(params)?).await,
            "ledger" => self.ledger(read(params)?).await,
            "call" => self.recorded_call(read(params)?).await,
            "verify" => Ok(self.link.request("control/ledger.verify", json!({})).await?),
            "undo_preview" => self.preview_undo(read(params)?).await,
            "undo" => self.undo(read(params)?).await,
            "mode" => self.set_mode(read(params)?).await,
            "mode_history" => self.mode_history().await,
            "resume" => self.resume_caller(read(params)?).await,
            "sessions" => self.sessions().await,
            "close_session" => self.close_session(read(params)?).await,
            "revoke" => self.revoke(read(params)?).await,
            "reach" => self.reach().await,
            "explain" => self.explain(read(params)?).await,
            "policy_files" => self.policy_files().await,
            "replay" => self.replay(read(params)?).await,
            "suggest" => self.suggest().await,
            "reload" => self.reload().await,
            "accept_reload" => self.accept_reload(read(params)?).await,
            "tools" => self.tools().await,
            "health" => self.health().await,
            "agents" => self.agents(),
            _ => Err(ApiError::new("not_found", "there is no such request")),
        }
    }
}

/// Reads the parameters of an entry. Unknown ones are refused.
fn read<T: DeserializeOwned>(params: Value) -> Result<T, ApiError> {
    serde_json::from_value(params)
        .map_err(|error| ApiError::invalid(format!("the parameters are wrong: {error}")))
}

/// Refuses what loosens without a PIN, before the daemon does.
fn required_pin(pin: &str) -> Result<&str, ApiError> {
    match pin.is_empty() {
        false => Ok(pin),
        true => Err(ApiError::new("pin_needed", "this needs the operator PIN")),
    }
}
