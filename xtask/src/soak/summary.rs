//! Result of a campaign: one line of JSON, printed at its end and saved in `docs/assurance.ndjson`.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::process;
use crate::project::Profile;

use super::campaign::{Campaign, Session};

/// Start of the line in which a test reports the summary of its campaign.
pub(crate) const MARK: &str = "campaign-summary ";

/// Figure that a run without an exception reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Summary {
    pub(crate) figure: u64,
    /// More figures, in words.
    pub(crate) notes: String,
}

impl Summary {
    /// Reads the summary from a line of a test's output.
    pub(crate) fn in_line(line: &str) -> Option<Summary> {
        let (_, json) = line.split_once(MARK)?;
        let value: Value = serde_json::from_str(json.trim()).ok()?;
        let notes = value.get("notes").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Summary { figure: value.get("figure")?.as_u64()?, notes })
    }

    /// Adds the facts of the run.
    pub(crate) fn into_result(
        self,
        campaign: &Campaign,
        session: &Session<'_>,
        duration: Duration,
    ) -> Result<CampaignResult> {
        let date = process::capture(&mut session.root.command("date", &["-u", "+%F"]))?;
        Ok(CampaignResult {
            campaign: campaign.name.to_owned(),
            figure: self.figure,
            total: self.figure,
            seed: session.seed,
            date: date.trim().to_owned(),
            seconds: duration.as_secs(),
            build: match session.profile {
                Profile::Dev => "dev",
                Profile::Release => "release",
            }
            .to_owned(),
            notes: self.notes,
        })
    }
}

/// Saved result of a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CampaignResult {
    pub(crate) campaign: String,
    /// Figure of the last saved run.
    pub(crate) figure: u64,
    /// Sum of the figures of all saved runs.
    pub(crate) total: u64,
    pub(crate) seed: u64,
    pub(crate) date: String,
    pub(crate) seconds: u64,
    pub(crate) build: String,
    pub(crate) notes: String,
}

impl CampaignResult {
    /// Line of JSON without a newline.
    pub(crate) fn line(&self) -> String {
        json!({
            "campaign": self.campaign,
            "figure": self.figure,
            "total": self.total,
            "seed": self.seed,
            "date": self.date,
            "seconds": self.seconds,
            "build": self.build,
            "notes": self.notes,
        })
        .to_string()
    }

    /// Parses a saved line.
    pub(crate) fn parse(line: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(line).context("a saved result is not JSON")?;
        let text = |key: &str| {
            let found = value
                .get(key)
                .and_then(Value::as_str)
                .with_context(|| format!("a saved result has no `{key}`"));
            found.map(str::to_owned)
        };
        let number = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_u64)
                .with_context(|| format!("a saved result has no number `{key}`"))
        };
        Ok(CampaignResult {
            campaign: text("campaign")?,
            figure: number("figure")?,
            total: number("total")?,
            seed: number("seed")?,
            date: text("date")?,
            seconds: number("seconds")?,
            build: text("build")?,
            notes: text("notes")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_found_in_the_output_of_a_test() {
        let line = "test x ... campaign-summary {\"figure\":7,\"notes\":\"all well\"}\n";
        assert_eq!(Summary::in_line(line), Some(Summary { figure: 7, notes: "all well".to_owned() }));
        assert_eq!(Summary::in_line("campaign-summary {}"), None);
        assert_eq!(Summary::in_line("7 kills"), None);
    }

    #[test]
    fn a_saved_result_parses_back() {
        let result = CampaignResult {
            campaign: "kills".to_owned(),
            figure: 5,
            total: 12,
            seed: 3,
            date: "2026-01-02".to_owned(),
            seconds: 61,
            build: "dev".to_owned(),
            notes: "none lost".to_owned(),
        };
        assert_eq!(CampaignResult::parse(&result.line()).unwrap(), result);
        assert!(CampaignResult::parse("{}").is_err());
    }
}
