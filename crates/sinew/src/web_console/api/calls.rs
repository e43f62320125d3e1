//! Overview and live calls.

use console_view::{Charts, ConsoleHeader, visible_json};
use serde::Deserialize;
use serde_json::json;

use super::{Api, ApiResult};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverviewParams {
    /// Length of the time axis.
    minutes: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallIdParams {
    pub(super) call_id: String,
}

impl Api {
    pub(super) async fn status(&self) -> ApiResult {
        let status = self.link.request("control/status", json!({})).await?;
        Ok(json!(ConsoleHeader::from_status(&status)))
    }

    pub(super) async fn overview(&self, wanted: OverviewParams) -> ApiResult {
        let status = self.link.request("control/status", json!({})).await?;
        let header = ConsoleHeader::from_status(&status);
        let now = jiff::Timestamp::now().as_millisecond();
        let minutes = wanted.minutes.clamp(5, 7 * 24 * 60);
        let charts = self.feed.with_rows(|rows| Charts::new(rows.iter(), now, minutes, &header.mode));
        let sessions = &self.link.request("control/sessions.list", json!({})).await?;
        Ok(json!({"charts": charts, "header": header, "sessions": visible_json(&sessions["sessions"])}))
    }

    pub(super) async fn live(&self) -> ApiResult {
        let reply = self.link.request("control/calls.list", json!({})).await?;
        Ok(visible_json(&reply))
    }

    pub(super) async fn cancel(&self, wanted: CallIdParams) -> ApiResult {
        Ok(self.link.request("control/calls.cancel", json!({"call_id": wanted.call_id})).await?)
    }
}
