//! Standing rules: creation from a displayed rule, listing and revocation.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tool::Caller;

use super::clock::later;
use super::operator::{DecideError, Lasting};
use super::queue::{Standing, State};
use super::rule::Rule;
use crate::layer::ToolExecutionLayer;

/// Maximum duration of a rule, and the duration of a rule for one connection.
const LONGEST_RULE: Duration = Duration::from_secs(24 * 60 * 60);

/// Standing rule in the list for the operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StandingRule {
    /// Id of the rule.
    pub id: String,
    /// The rule as text.
    pub lines: Vec<String>,
    /// Id of the approval that created it.
    pub from: String,
    /// Time of creation.
    pub made_at: Timestamp,
    /// Time of expiry.
    pub until: Timestamp,
    /// Seconds until it expires.
    pub seconds_left: u64,
}

impl ToolExecutionLayer {
    /// Builds the rule that a decision would create, if it equals the displayed one.
    pub(super) fn rule_of(&self, id: &str, lasting: &Lasting) -> Result<Standing, DecideError> {
        let (connection, asked) = match self.approvals.queue().get(id) {
            Some(asked) => (asked.terms.call.caller.connection, asked.state.clone()),
            None => return Err(DecideError::Unknown(id.to_owned())),
        };
        if asked != State::Pending {
            return Err(DecideError::Over { id: id.to_owned(), state: asked.as_str() });
        }
        let kept = self.approvals.cards.get(id).ok_or_else(|| DecideError::Unknown(id.to_owned()))?;
        let narrowest = kept.rule.clone().ok_or_else(|| {
            DecideError::NoRule("it names several paths or commands: it can only be approved once".to_owned())
        })?;
        let widened = narrowest.widened(&lasting.patterns).map_err(DecideError::NoRule)?;
        let rule = match lasting.lasts {
            Some(_) => widened,
            None => widened.on(&self.approvals.life, connection),
        };
        let lasts = lasting.lasts.unwrap_or(LONGEST_RULE).min(LONGEST_RULE);
        let lines = lines(&rule, lasting.lasts);
        let text = lines.join("\n");
        if redact::shared().redact_text(&text) != text.as_str() {
            let why = "it would contain what looks like a secret: this call can only be approved once";
            return Err(DecideError::NoRule(why.to_owned()));
        }
        if lasting.displayed.as_ref() != Some(&lines) {
            return Err(DecideError::NotDisplayed { lines });
        }
        let now = self.approvals.now();
        Ok(Standing { rule, from: id.to_owned(), made_at: now, until: later(now, lasts) })
    }

    /// All standing rules.
    pub async fn standing_rules(&self) -> Vec<StandingRule> {
        self.approvals.sweep(&self.ledger).await;
        let clock = &self.approvals.clock;
        let queue = self.approvals.queue();
        let rules = queue.standing().map(|(id, standing)| StandingRule {
            id: id.clone(),
            lines: standing.rule.lines(),
            from: standing.from.clone(),
            made_at: standing.made_at,
            until: standing.until,
            seconds_left: clock.until(standing.until).as_secs(),
        });
        rules.collect()
    }

    /// Revokes a rule. That only reduces what is allowed, so it takes no PIN.
    pub async fn revoke_rule(self: &Arc<Self>, id: &str, by: &Caller) -> Result<(), DecideError> {
        let by = redact::shared().redact_text(&by.display_name()).into_owned();
        let (layer, id) = (Arc::clone(self), id.to_owned());
        let revoking = tokio::spawn(async move {
            let _turn = layer.approvals.turn.lock().await;
            let revoked = layer.approvals.queue().revoke(&id, &by);
            match revoked {
                Some(revoked) => {
                    layer.approvals.record(&layer.ledger, revoked).await.map_err(DecideError::from)
                }
                None => Err(DecideError::NoSuchGrant(id)),
            }
        });
        revoking.await.unwrap_or(Err(DecideError::Crashed))
    }
}

fn lines(rule: &Rule, lasts: Option<Duration>) -> Vec<String> {
    let mut lines = rule.lines();
    lines.push(match lasts {
        Some(lasts) => format!("for {} s", lasts.min(LONGEST_RULE).as_secs()),
        None => "until the connection or the daemon ends, and at most a day".to_owned(),
    });
    lines
}
