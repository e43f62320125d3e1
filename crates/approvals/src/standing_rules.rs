//! Standing rules: creation from a displayed rule, listing and revocation.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tool::Caller;

use crate::clock::saturating_add;
use crate::operator::{DecideError, StandingRuleRequest};
use crate::queue::{ActiveRule, RequestState};
use crate::rule::RuleScope;
use crate::state::Approvals;

/// Maximum duration of a rule, and the duration of a rule for one connection.
const MAX_RULE_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

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

impl Approvals {
    /// Builds the rule that a decision would create, if it equals the displayed one.
    pub(super) fn active_rule_for(
        &self,
        id: &str,
        lasting: &StandingRuleRequest,
    ) -> Result<ActiveRule, DecideError> {
        let (connection, state) = match self.queue().get(id) {
            Some(request) => (request.terms.call.caller.connection, request.state.clone()),
            None => return Err(DecideError::Unknown(id.to_owned())),
        };
        if state != RequestState::Pending {
            return Err(DecideError::AlreadyDecided { id: id.to_owned(), state: state.as_str() });
        }
        let stored = self.requests.get(id).ok_or_else(|| DecideError::Unknown(id.to_owned()))?;
        let narrowest = stored.rule.clone().ok_or_else(|| {
            DecideError::InvalidRule(
                "it names several paths or commands: it can only be approved once".to_owned(),
            )
        })?;
        let widened = narrowest.with_patterns(&lasting.patterns).map_err(DecideError::InvalidRule)?;
        let rule = match lasting.duration {
            Some(_) => widened,
            None => widened.on_connection(&self.instance_id, connection),
        };
        let lasts = lasting.duration.unwrap_or(MAX_RULE_DURATION).min(MAX_RULE_DURATION);
        let lines = rule_lines(&rule, lasting.duration);
        let text = lines.join("\n");
        if redact::shared().redact_text(&text) != text.as_str() {
            let reason = "it would contain what looks like a secret: this call can only be approved once";
            return Err(DecideError::InvalidRule(reason.to_owned()));
        }
        if lasting.displayed.as_ref() != Some(&lines) {
            return Err(DecideError::NotDisplayed { lines });
        }
        let now = self.now();
        Ok(ActiveRule { rule, from: id.to_owned(), made_at: now, until: saturating_add(now, lasts) })
    }

    /// All standing rules.
    pub async fn standing_rules(&self) -> Vec<StandingRule> {
        self.record_expired().await;
        let clock = &self.clock;
        let queue = self.queue();
        let rules = queue.rules().map(|(id, status)| StandingRule {
            id: id.clone(),
            lines: status.rule.lines(),
            from: status.from.clone(),
            made_at: status.made_at,
            until: status.until,
            seconds_left: clock.duration_until(status.until).as_secs(),
        });
        rules.collect()
    }

    /// Revokes a rule. That only reduces what is allowed, so it takes no PIN.
    pub async fn revoke_rule(self: &Arc<Self>, id: &str, by: &Caller) -> Result<(), DecideError> {
        let by = redact::shared().redact_text(&by.display_name()).into_owned();
        let (approvals, id) = (Arc::clone(self), id.to_owned());
        let revoking = tokio::spawn(async move {
            let _guard = approvals.change_lock.lock().await;
            let revoked = approvals.queue().propose_revocation(&id, &by);
            match revoked {
                Some(revoked) => approvals.record(revoked).await.map_err(DecideError::from),
                None => Err(DecideError::UnknownRule(id)),
            }
        });
        revoking.await.unwrap_or(Err(DecideError::InternalFault))
    }
}

fn rule_lines(rule: &RuleScope, lasts: Option<Duration>) -> Vec<String> {
    let mut lines = rule.lines();
    lines.push(match lasts {
        Some(lasts) => format!("for {} s", lasts.min(MAX_RULE_DURATION).as_secs()),
        None => "until the connection or the daemon ends, and at most a day".to_owned(),
    });
    lines
}
