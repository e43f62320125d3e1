//! Policy: reach, explanations, a candidate with its replay, and waiting reloads.

use console_view::{replay_groups, visible_json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::policy_files::CandidatePolicy;
use super::{Api, ApiError, ApiResult, required_pin, without_nulls};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExplainParams {
    tool_name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
    mode: Option<String>,
    cwd: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReplayParams {
    file: String,
    text: String,
    days: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcceptReloadParams {
    candidate: String,
    #[serde(default)]
    pin: String,
}

impl Api {
    pub(super) async fn reach(&self) -> ApiResult {
        Ok(visible_json(&self.subcommands.run(&["policy", "reach"]).await?))
    }

    pub(super) async fn explain(&self, call: ExplainParams) -> ApiResult {
        let mode = call.mode.filter(|mode| !mode.is_empty());
        let folder = call.cwd.filter(|folder| !folder.is_empty());
        let params =
            without_nulls(json!({"tool_name": call.tool_name, "arguments": call.arguments, "mode": mode,
            "cwd": folder}));
        Ok(visible_json(&self.link.request("control/explain", params).await?))
    }

    pub(super) async fn policy_files(&self) -> ApiResult {
        let folder = CandidatePolicy::folder(&self.context);
        let files = tokio::task::spawn_blocking(move || CandidatePolicy::files(&folder)).await;
        files.map_err(|error| ApiError::invalid(error.to_string()))
    }

    /// Judges the recorded calls of the last days by the policy with this text in place of one file.
    pub(super) async fn replay(&self, wanted: ReplayParams) -> ApiResult {
        let folder = CandidatePolicy::folder(&self.context);
        let (file, text) = (wanted.file, wanted.text);
        let written =
            tokio::task::spawn_blocking(move || CandidatePolicy::write(&folder, &file, &text)).await;
        let candidate = written.map_err(|error| ApiError::invalid(error.to_string()))?;
        let candidate = candidate.map_err(|error| ApiError::invalid(error.to_string()))?;
        let (path, since) =
            (candidate.path().display().to_string(), format!("{}d", wanted.days.clamp(1, 90)));
        let arguments = ["policy", "replay", "--against", path.as_str(), "--since", since.as_str()];
        let replay = self.subcommands.run(&arguments).await;
        // The path is a temporary one, which says nothing to the operator.
        replay
            .map(|replay| replay_groups(&replay))
            .map_err(|error| ApiError { message: error.message.replace(&format!("{path}/"), ""), ..error })
    }

    pub(super) async fn suggest(&self) -> ApiResult {
        Ok(visible_json(&self.subcommands.run(&["policy", "suggest"]).await?))
    }

    /// Reads the configuration again. What tightens applies at once; what loosens is shown and waits.
    pub(super) async fn reload(&self) -> ApiResult {
        Ok(visible_json(&self.link.request("control/reload", json!({})).await?))
    }

    pub(super) async fn accept_reload(&self, wanted: AcceptReloadParams) -> ApiResult {
        let params = json!({"accept": wanted.candidate, "pin": required_pin(&wanted.pin)?});
        Ok(visible_json(&self.link.request("control/reload", params).await?))
    }
}
