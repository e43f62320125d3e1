//! Submission of an approval request: its file is written first, then its ledger entry, and only then is it
//! visible for decisions.

use std::sync::Arc;
use std::time::Duration;

use governance::ApprovalRequired;
use ledger::entry::ApprovalEventEntry;
use ledger::{CallHeader, LedgerError};
use serde_json::json;
use telemetry::{TelemetryEvent, emit};
use tool::{Refusal, RefusalCode, RuleRef, canonical};

use crate::clock::saturating_add;
use crate::edits::EditReceiver;
use crate::effect::{CallEffect, RequestHeader};
use crate::queue::RequestTerms;
use crate::refusals::capacity_refusal;
use crate::rule::RuleScope;
use crate::state::{Approvals, StoredRequest, event_subject};

/// Call that requires approval, with everything that its request shows.
#[derive(Clone, Copy, Debug)]
pub struct RequestedCall<'a> {
    /// Header of the ledger records of the call.
    pub call: &'a Arc<CallHeader>,
    /// Verdict that requires the approval.
    pub question: &'a ApprovalRequired,
    /// Effect of the call.
    pub effect: &'a CallEffect,
    /// Time until the request expires.
    pub timeout: Duration,
    /// True if the arguments come from the operator.
    pub edited: bool,
}

/// Approval request that is ready to be stored: the part on disk and the terms for the ledger.
pub(crate) struct PreparedRequest {
    stored: StoredRequest,
    bytes: Vec<u8>,
    terms: RequestTerms,
}

/// Reason why a request was not submitted.
#[derive(Debug)]
pub enum SubmitError {
    /// The call is refused.
    Refused(Box<Refusal>),
    /// The request could not be recorded.
    NotRecorded(LedgerError),
}

impl From<Box<Refusal>> for SubmitError {
    fn from(refusal: Box<Refusal>) -> Self {
        SubmitError::Refused(refusal)
    }
}

impl Approvals {
    /// Opens the channel on which the operator can edit the arguments of a call that waits for this approval.
    pub fn open_edits<'a>(&'a self, id: &'a str) -> EditReceiver<'a> {
        self.edit_channels.open(id)
    }

    /// Builds an approval request, or returns the refusal if the call cannot be shown to the operator. Stores
    /// nothing.
    fn prepare(&self, id: &str, requested: RequestedCall<'_>) -> Result<PreparedRequest, Box<Refusal>> {
        let RequestedCall { call, question: approval, effect, timeout, edited } = requested;
        let requested_at = self.now();
        let expires_at = saturating_add(requested_at, timeout);
        let header = RequestHeader { id, requested_at, expires_at, edited };
        let request = effect.to_request(call, approval.permit(), approval.approval_rules(), header)?;
        let rules = rule_names(approval.approval_rules());
        let rule = {
            let wanted = effect.call_profile(call, approval.permit(), &self.instance_id, &rules);
            RuleScope::from_call(&wanted).ok()
        };
        let arguments = (request.masked == 0).then(|| approval.call().arguments().clone());
        let stored = StoredRequest { request, rule, arguments };
        let bytes = canonical::bytes(&json!(stored));
        let request_digest = self.ledger.keyed_digest(&bytes);
        let terms = RequestTerms { call: Arc::clone(call), rules, request_digest, requested_at, expires_at };
        Ok(PreparedRequest { stored, bytes, terms })
    }

    /// Returns the ledger entry of the request, or a refusal if too many requests are pending.
    fn propose(
        &self,
        id: &str,
        requested: RequestedCall<'_>,
        prepared: &PreparedRequest,
    ) -> Result<ApprovalEventEntry, Box<Refusal>> {
        let proposed = self.queue().propose_request(id, requested.effect.digest(), &prepared.terms);
        proposed.map_err(|full| capacity_refusal(&requested.call.tool, full))
    }

    /// Checks that the call can be shown to the operator. Stores nothing.
    pub fn check_showable(&self, requested: RequestedCall<'_>) -> Result<(), Box<Refusal>> {
        self.prepare(&new_approval_id(), requested).map(drop)
    }

    /// Checks that a request could be submitted. Stores nothing.
    pub fn check_submittable(&self, requested: RequestedCall<'_>) -> Result<(), Box<Refusal>> {
        let id = new_approval_id();
        let prepared = self.prepare(&id, requested)?;
        self.propose(&id, requested, &prepared).map(drop)
    }

    /// Submits a request. `charge` is given the size of its records and may refuse them.
    pub async fn submit(
        &self,
        id: &str,
        requested: RequestedCall<'_>,
        charge: impl FnOnce(usize) -> Result<(), Box<Refusal>>,
    ) -> Result<(), SubmitError> {
        self.record_expired().await;
        let prepared = self.prepare(id, requested)?;
        let _guard = self.change_lock.lock().await;
        let proposed = self.propose(id, requested, &prepared)?;
        // A request has at least two records: the request and its end.
        charge(2 * json!(proposed).to_string().len())?;
        let PreparedRequest { stored, bytes, terms } = prepared;
        let requests = Arc::clone(&self.requests);
        let written = tokio::task::spawn_blocking(move || requests.store(stored, &bytes)).await;
        if let Err(error) = written.unwrap_or_else(|fault| Err(std::io::Error::other(fault))) {
            let reason = format!(
                "Permission denied: Approval is required, but the request could not be stored: {error}"
            );
            let refusal = Refusal::new(&requested.call.tool, RefusalCode::ResourceExhausted, reason);
            return Err(Box::new(refusal.with_detail("request_not_stored")).into());
        }
        if let Err(error) = self.record(proposed).await {
            self.requests.remove(id);
            return Err(SubmitError::NotRecorded(error));
        }
        emit(TelemetryEvent::ApprovalRequested {
            call: event_subject(&terms.call),
            approval_id: id,
            risk: requested.question.call().definition().risk_level(),
            timeout_ms: u64::try_from(requested.timeout.as_millis()).unwrap_or(u64::MAX),
        });
        Ok(())
    }
}

/// Names of the rules that require approval, in the form that an approval is bound to.
pub fn rule_names(rules: &[RuleRef]) -> Vec<String> {
    rules.iter().map(|rule| format!("{} {}", rule.file, rule.id)).collect()
}

/// Returns a new approval id, which cannot be guessed.
pub fn new_approval_id() -> String {
    tool::text::random_id()
}
