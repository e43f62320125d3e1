//! Operations of the control socket: list approval requests and decide them.
//!
//! No stage of the pipeline calls into this file. Callers have access to the control socket; an approval also
//! takes the operator PIN if one is set.

use std::sync::Arc;
use std::time::Duration;

use ledger::LedgerError;
use ledger::entry::ApprovalEventEntry;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tokio::sync::oneshot;
use tool::{Arguments, Caller};

use crate::clock::saturating_add;
use crate::edits::{ArgumentEdit, EditOutcome};
use crate::pin::PinError;
use crate::queue::{ActiveRule, RequestState, UndecidableRequest};
use crate::request::ApprovalRequest;
use crate::state::Approvals;
use crate::submission::new_approval_id;

const MAX_MESSAGE_BYTES: usize = 1000;
/// Time limit for a waiting call to process edited arguments.
const EDIT_TIMEOUT: Duration = Duration::from_secs(30);

/// Approval request in the list for the operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ListedApproval {
    /// `pending`, or `approved` if the approval was not used yet.
    pub state: String,
    /// Seconds until the request, or the unused approval, expires.
    pub seconds_left: u64,
    /// True if the caller waits for the decision.
    pub waiting: bool,
    /// The original arguments, if the operator may edit them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editable: Option<Arguments>,
    /// The request itself.
    #[serde(flatten)]
    pub request: ApprovalRequest,
}

/// Decision of the operator.
#[derive(Clone, Debug)]
pub enum OperatorDecision {
    /// Approve this call.
    ApproveOnce,
    /// Approve this call and create a standing rule for similar calls.
    ApproveWithRule(StandingRuleRequest),
    /// Deny, with an optional message for the model.
    Deny(Option<String>),
    /// Replace the arguments of the call.
    EditArguments(Arguments),
}

/// Standing rule that the operator wants to create.
#[derive(Clone, Debug, Default)]
pub struct StandingRuleRequest {
    /// Duration of the rule. `None`: until the connection or the daemon ends, and at most a day.
    pub duration: Option<Duration>,
    /// Patterns of the form `argument=pattern` that widen the rule.
    pub patterns: Vec<String>,
    /// The rule as it was displayed. It is created only if it equals the rule that results from this request.
    pub displayed: Option<Vec<String>>,
}

/// Result of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecisionOutcome {
    /// The decision is recorded.
    Recorded,
    /// The decision and the standing rule are recorded.
    RuleCreated {
        /// Id of the rule.
        rule: String,
    },
    /// The edited call is a new approval request.
    NewRequest {
        /// Id of the new request.
        id: String,
    },
    /// The edited call needs no approval and continues.
    Permitted,
}

/// Reason why a decision was rejected.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such request.
    #[error("there is no approval `{0}`")]
    Unknown(String),
    /// The request was decided earlier, or has expired.
    #[error("approval `{id}` is already {state}; the first decision is final")]
    AlreadyDecided {
        /// Approval id.
        id: String,
        /// State of the request.
        state: &'static str,
    },
    /// The rule must be displayed before it is created.
    #[error("the rule must be displayed in its final form before it is created")]
    NotDisplayed {
        /// The rule as it would be created.
        lines: Vec<String>,
    },
    /// The rule cannot be created.
    #[error("the rule cannot be created: {0}")]
    InvalidRule(String),
    /// The edited arguments were refused.
    #[error("the arguments were not changed: {0}")]
    EditRefused(String),
    /// The message is too long.
    #[error("the message has {0} bytes; the limit is {MAX_MESSAGE_BYTES}")]
    MessageTooLong(usize),
    /// The approval is recorded, the rule is not.
    #[error("the call is approved, but the rule was not created: {0}")]
    RuleNotRecorded(LedgerError),
    /// There is no such rule.
    #[error("there is no rule `{0}`: it was revoked, has expired or never existed")]
    UnknownRule(String),
    /// Internal fault.
    #[error("internal fault in Sinew: see its log, and `sinew approvals list` for the current state")]
    InternalFault,
    /// The PIN is missing or wrong.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The decision could not be recorded, so it has no effect.
    #[error("the decision has no effect because it could not be recorded: {0}")]
    NotRecorded(#[from] LedgerError),
}

/// Author of a decision.
struct Decider {
    name: String,
    /// Client that the operator used, if it is not the command line.
    via: Option<&'static str>,
}

impl Decider {
    /// Adds the client of the operator to an entry.
    fn sign(&self, entry: ApprovalEventEntry) -> ApprovalEventEntry {
        ApprovalEventEntry { via: self.via.map(str::to_owned), ..entry }
    }
}

impl Approvals {
    /// Pending requests and unused approvals, oldest first.
    pub async fn list(&self) -> Vec<ListedApproval> {
        self.record_expired().await;
        let ids: Vec<String> = self.queue().requests().into_iter().map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.listed_approval(id)).collect()
    }

    /// One pending request or unused approval.
    pub async fn get(&self, id: &str) -> Option<ListedApproval> {
        self.record_expired().await;
        self.listed_approval(id)
    }

    fn listed_approval(&self, id: &str) -> Option<ListedApproval> {
        let (state, until) = {
            let queue = self.queue();
            let queued = queue.get(id)?;
            match &queued.state {
                RequestState::Pending => (queued.state.as_str(), queued.terms.expires_at),
                RequestState::Granted { until } => (queued.state.as_str(), *until),
                RequestState::Denied { .. }
                | RequestState::Expired
                | RequestState::Used
                | RequestState::Void { .. } => return None,
            }
        };
        if until <= self.now() {
            return None;
        }
        let stored = self.requests.get(id)?;
        Some(ListedApproval {
            state: state.to_owned(),
            seconds_left: self.clock.duration_until(until).as_secs(),
            waiting: self.edit_channels.first(id).is_some(),
            editable: stored.arguments.clone(),
            request: stored.request.clone(),
        })
    }

    /// Decides a request. Completes even if the client disconnects; the first decision on disk wins. An
    /// approval that is not used expires after `timeout`.
    pub async fn decide(
        self: &Arc<Self>,
        id: &str,
        decision: OperatorDecision,
        by: &Caller,
        pin: Option<String>,
        timeout: Duration,
    ) -> Result<DecisionOutcome, DecideError> {
        // A denial allows nothing, so it takes no PIN.
        if !matches!(decision, OperatorDecision::Deny(_)) {
            self.pin.verify(by.endpoint, pin).await?;
        }
        let by = Decider {
            name: redact::shared().redact_text(&by.display_name()).into_owned(),
            via: by.endpoint.operator_client(),
        };
        let (approvals, id) = (Arc::clone(self), id.to_owned());
        let deciding =
            tokio::spawn(async move { approvals.apply_decision(&id, decision, &by, timeout).await });
        deciding.await.unwrap_or(Err(DecideError::InternalFault))
    }

    async fn apply_decision(
        &self,
        id: &str,
        decision: OperatorDecision,
        by: &Decider,
        timeout: Duration,
    ) -> Result<DecisionOutcome, DecideError> {
        match decision {
            OperatorDecision::ApproveOnce => self.grant(id, by, None, timeout).await,
            OperatorDecision::ApproveWithRule(lasting) => {
                let status = self.active_rule_for(id, &lasting)?;
                self.grant(id, by, Some(status), timeout).await
            }
            OperatorDecision::Deny(message) => self.deny(id, by, message.as_deref()).await,
            OperatorDecision::EditArguments(arguments) => self.edit(id, arguments).await,
        }
    }

    async fn grant(
        &self,
        id: &str,
        by: &Decider,
        status: Option<ActiveRule>,
        timeout: Duration,
    ) -> Result<DecisionOutcome, DecideError> {
        let _guard = self.change_lock.lock().await;
        let now = self.now();
        let until = saturating_add(now, timeout);
        let granted =
            self.queue().propose_grant(id, &by.name, now, until).map_err(|why| undecidable_error(id, why))?;
        let rule = match status {
            None => None,
            Some(status) => {
                let rule = new_approval_id();
                let full =
                    |_| DecideError::InvalidRule("too many standing rules exist: revoke one".to_owned());
                let stands = self.queue().propose_rule(&rule, &status, &by.name).map_err(full)?;
                Some((rule, stands))
            }
        };
        self.record(by.sign(granted)).await?;
        match rule {
            None => Ok(DecisionOutcome::Recorded),
            Some((rule, stands)) => {
                let stood = self.record(by.sign(stands)).await;
                stood.map_err(DecideError::RuleNotRecorded)?;
                Ok(DecisionOutcome::RuleCreated { rule })
            }
        }
    }

    async fn deny(
        &self,
        id: &str,
        by: &Decider,
        message: Option<&str>,
    ) -> Result<DecisionOutcome, DecideError> {
        if let Some(long) = message.map(str::len).filter(|length| *length > MAX_MESSAGE_BYTES) {
            return Err(DecideError::MessageTooLong(long));
        }
        let message = message.map(|message| redact::shared().redact_text(message).into_owned());
        let _guard = self.change_lock.lock().await;
        let now = self.now();
        let denied = self
            .queue()
            .propose_denial(id, &by.name, now, message.as_deref())
            .map_err(|why| undecidable_error(id, why))?;
        self.record(by.sign(denied)).await?;
        Ok(DecisionOutcome::Recorded)
    }

    /// Sends edited arguments to the waiting call, which submits them as a new request if they need approval.
    async fn edit(&self, id: &str, arguments: Arguments) -> Result<DecisionOutcome, DecideError> {
        let refused = |why: &str| DecideError::EditRefused(why.to_owned());
        self.queue().find_decidable(id, self.now()).map_err(|why| undecidable_error(id, why))?;
        if self.requests.get(id).is_none_or(|stored| stored.arguments.is_none()) {
            return Err(refused("they contain masked text; deny the call and say what to do instead"));
        }
        let editor = self.edit_channels.first(id);
        let Some(editor) = editor else {
            return Err(refused("its caller does not wait; deny the call and say what to do instead"));
        };
        let (reply_sender, reply_receiver) = oneshot::channel();
        let gone = || refused("its caller does not wait any longer");
        editor.send(ArgumentEdit { arguments, reply: reply_sender }).await.map_err(|_| gone())?;
        match tokio::time::timeout(EDIT_TIMEOUT, reply_receiver).await {
            Ok(Ok(Ok(EditOutcome::ApprovalRequired(id)))) => Ok(DecisionOutcome::NewRequest { id }),
            Ok(Ok(Ok(EditOutcome::Permitted))) => Ok(DecisionOutcome::Permitted),
            Ok(Ok(Err(why))) => Err(DecideError::EditRefused(why)),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(refused(
                "checking the changed call took too long; `sinew approvals list` shows what is pending",
            )),
        }
    }
}

fn undecidable_error(id: &str, why: UndecidableRequest) -> DecideError {
    match why {
        UndecidableRequest::Unknown => DecideError::Unknown(id.to_owned()),
        UndecidableRequest::AlreadyDecided(state) => DecideError::AlreadyDecided { id: id.to_owned(), state },
    }
}
