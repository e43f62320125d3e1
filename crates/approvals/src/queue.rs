//! Approval requests and standing rules as a pure fold over ledger entries.
//!
//! Every change is proposed as a ledger entry, written to disk by the caller, and then applied; a restart
//! applies the same entries again. So the state in memory always equals the ledger. The caller passes the
//! time in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use ledger::entry::{ApprovalEvent, ApprovalEventEntry};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::Caller;

use crate::caller_share::{CallerShare, ShareExceeded};
use crate::rule::{CallProfile, RuleScope};

/// Limits of open requests: in total, and per user and caller. A flood of requests is a way to make an operator
/// approve without reading.
const MAX_OPEN: usize = 128;
const OPEN_SHARE: CallerShare = CallerShare { per_user: 64, per_caller: 32, reserved: 16, small: 1 };
/// Limit of standing rules: more than a person remembers having created.
const MAX_RULES: usize = 64;
/// Closed requests that are remembered, so that callers can learn how their request ended.
const MAX_CLOSED: usize = 256;

/// All approval requests and standing rules.
#[derive(Debug, Default)]
pub(crate) struct ApprovalQueue {
    requests: BTreeMap<String, QueuedRequest>,
    rules: BTreeMap<String, ActiveRule>,
    /// Ids of closed requests, oldest first.
    closed: VecDeque<String>,
}

/// Approval request with its state.
#[derive(Clone, Debug)]
pub(crate) struct QueuedRequest {
    pub(crate) digest: String,
    pub(crate) terms: RequestTerms,
    pub(crate) state: RequestState,
}

impl QueuedRequest {
    /// Returns true if the request is pending or approved and has not expired at `now`.
    fn is_open_at(&self, now: Timestamp) -> bool {
        match &self.state {
            RequestState::Pending => now < self.terms.expires_at,
            RequestState::Granted { until } => now < *until,
            RequestState::Denied { .. }
            | RequestState::Expired
            | RequestState::Used
            | RequestState::Void { .. } => false,
        }
    }
}

/// Content of a request as recorded in the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RequestTerms {
    /// Call that requested approval.
    pub(crate) call: Arc<ledger::CallHeader>,
    /// Rules that require approval, by file and name.
    pub(crate) rules: Vec<String>,
    /// Keyed digest of the file of the request.
    #[serde(alias = "card")]
    pub(crate) request_digest: String,
    #[serde(alias = "asked_at")]
    pub(crate) requested_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// State of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestState {
    Pending,
    /// Approved; the approval can be used once, before `until`.
    Granted {
        until: Timestamp,
    },
    Denied {
        message: Option<String>,
        /// Time of the denial; `None` in records of older versions.
        at: Option<Timestamp>,
    },
    Expired,
    Used,
    /// Withdrawn: by the caller, because the effect or a rule changed, or because the operator edited the
    /// call.
    Void {
        reason: String,
    },
}

impl RequestState {
    /// Name of the state for people.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            RequestState::Pending => "pending",
            RequestState::Granted { .. } => "approved",
            RequestState::Denied { .. } => "denied",
            RequestState::Expired => "expired",
            RequestState::Used => "used",
            RequestState::Void { .. } => "withdrawn",
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, RequestState::Pending | RequestState::Granted { .. })
    }
}

/// Standing rule: matching calls need no further approval for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ActiveRule {
    pub(crate) rule: RuleScope,
    /// Id of the approval that created the rule.
    pub(crate) from: String,
    pub(crate) made_at: Timestamp,
    pub(crate) until: Timestamp,
}

/// Facts of a call that wants to use an approval.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalClaim<'a> {
    /// Caller that claims it.
    pub caller: &'a Caller,
    /// Digest of the effect of the call.
    pub digest: &'a str,
    /// Rules that require approval now.
    pub rules: &'a [String],
}

/// Limit that prevents a new request or rule; holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapacityError {
    /// Limit of all callers together.
    Total(usize),
    /// Limit per user, identified by the uid from the kernel.
    User(usize),
    /// Limit of one caller.
    Caller(usize),
}

/// Reason why a request cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UndecidableRequest {
    Unknown,
    /// It was decided earlier or has expired; holds the name of its state.
    AlreadyDecided(&'static str),
}

/// Reason why an approval cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnusableApproval {
    /// There is none, or it belongs to another caller.
    Unknown,
    /// It is not decided yet.
    Pending,
    /// It was denied; holds the operator's message.
    Denied(Option<String>),
    /// It was not decided or not used in time.
    Expired,
    /// It was used before.
    Used,
    /// It was withdrawn; holds the reason.
    Void(String),
    /// It was given for another effect.
    Mismatch,
}

impl ApprovalQueue {
    /// All requests, oldest first.
    pub(crate) fn requests(&self) -> Vec<(&String, &QueuedRequest)> {
        let mut all: Vec<_> = self.requests.iter().collect();
        all.sort_by(|one, other| {
            (one.1.terms.requested_at, one.0).cmp(&(other.1.terms.requested_at, other.0))
        });
        all
    }

    pub(crate) fn get(&self, id: &str) -> Option<&QueuedRequest> {
        self.requests.get(id)
    }

    pub(crate) fn rules(&self) -> impl Iterator<Item = (&String, &ActiveRule)> {
        self.rules.iter()
    }

    /// Proposes a new request.
    pub(crate) fn propose_request(
        &self,
        id: &str,
        digest: &str,
        terms: &RequestTerms,
    ) -> Result<ApprovalEventEntry, CapacityError> {
        self.check_capacity(&terms.call.caller, terms.requested_at)?;
        let queued =
            QueuedRequest { digest: digest.to_owned(), terms: terms.clone(), state: RequestState::Pending };
        Ok(request_entry(id, &queued, ApprovalEvent::Requested, None, json!(terms)))
    }

    /// Checks that this caller may open one more request.
    pub(crate) fn check_capacity(&self, caller: &Caller, now: Timestamp) -> Result<(), CapacityError> {
        // Expired requests do not count, whether their expiry is recorded yet or not.
        let open = || self.requests.values().filter(|queued| queued.is_open_at(now));
        if open().count() >= MAX_OPEN {
            return Err(CapacityError::Total(MAX_OPEN));
        }
        let callers = open().map(|queued| &*queued.terms.call.caller);
        OPEN_SHARE.check(caller, callers).map_err(|exceeded| match exceeded {
            ShareExceeded::Caller(max) => CapacityError::Caller(max),
            ShareExceeded::User(max) => CapacityError::User(max),
        })
    }

    /// Proposes an approval. The first decision wins.
    pub(crate) fn propose_grant(
        &self,
        id: &str,
        by: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<ApprovalEventEntry, UndecidableRequest> {
        let queued = self.find_decidable(id, now)?;
        Ok(request_entry(id, queued, ApprovalEvent::Granted, Some(by), json!({"until": until})))
    }

    /// Proposes a denial.
    pub(crate) fn propose_denial(
        &self,
        id: &str,
        by: &str,
        now: Timestamp,
        message: Option<&str>,
    ) -> Result<ApprovalEventEntry, UndecidableRequest> {
        let queued = self.find_decidable(id, now)?;
        let data = json!({"message": message, "at": now});
        Ok(request_entry(id, queued, ApprovalEvent::Denied, Some(by), data))
    }

    /// Returns a request that can still be decided.
    pub(crate) fn find_decidable(
        &self,
        id: &str,
        now: Timestamp,
    ) -> Result<&QueuedRequest, UndecidableRequest> {
        let queued = self.requests.get(id).ok_or(UndecidableRequest::Unknown)?;
        match &queued.state {
            RequestState::Pending if now < queued.terms.expires_at => Ok(queued),
            RequestState::Pending => Err(UndecidableRequest::AlreadyDecided(RequestState::Expired.as_str())),
            over => Err(UndecidableRequest::AlreadyDecided(over.as_str())),
        }
    }

    /// Proposes the use of an approval, if it was given to this caller for this effect.
    pub(crate) fn propose_use(
        &self,
        id: &str,
        claim: ApprovalClaim<'_>,
        now: Timestamp,
    ) -> Result<ApprovalEventEntry, UnusableApproval> {
        let queued = self.find_usable(id, claim.caller, now)?;
        // The operator did not know of a rule that was not in the request.
        let as_shown = claim.rules.iter().all(|rule| queued.terms.rules.contains(rule));
        if queued.digest != claim.digest || !as_shown {
            return Err(UnusableApproval::Mismatch);
        }
        Ok(request_entry(id, queued, ApprovalEvent::Used, None, Value::Null))
    }

    /// Returns an approval that this caller may use.
    pub(crate) fn find_usable(
        &self,
        id: &str,
        caller: &Caller,
        now: Timestamp,
    ) -> Result<&QueuedRequest, UnusableApproval> {
        let queued = self.requests.get(id).filter(|queued| queued.terms.call.caller.is_same_party(caller));
        let queued = queued.ok_or(UnusableApproval::Unknown)?;
        match &queued.state {
            RequestState::Granted { until } if now < *until => Ok(queued),
            RequestState::Pending if now < queued.terms.expires_at => Err(UnusableApproval::Pending),
            RequestState::Granted { .. } | RequestState::Pending | RequestState::Expired => {
                Err(UnusableApproval::Expired)
            }
            RequestState::Denied { message, .. } => Err(UnusableApproval::Denied(message.clone())),
            RequestState::Used => Err(UnusableApproval::Used),
            RequestState::Void { reason } => Err(UnusableApproval::Void(reason.clone())),
        }
    }

    /// Newest request for this effect that answers a call of this caller without an approval id. It is open
    /// and from the same process or worker session, or it was denied after `since`. A denial applies to every
    /// process that uses the client's name, and to every name and worker session of the process that asked. An
    /// approval applies to the process that requested it.
    pub(crate) fn find_earlier(
        &self,
        digest: &str,
        caller: &Caller,
        (now, since): (Timestamp, Timestamp),
    ) -> Option<(&String, &QueuedRequest)> {
        let is_wanted = |queued: &QueuedRequest| {
            let was_denied = matches!(queued.state, RequestState::Denied { at: Some(at), .. } if at > since);
            let requester = &queued.terms.call.caller;
            queued.digest == digest
                && (was_denied && (requester.is_same_party(caller) || requester.is_same_process(caller))
                    || queued.is_open_at(now) && requester.is_same_instance(caller))
        };
        let wanted = self.requests.iter().filter(|(_, queued)| is_wanted(queued));
        wanted.max_by_key(|(id, queued)| (queued.terms.requested_at, (*id).clone()))
    }

    /// Proposes the withdrawal of a pending request or an unused approval.
    pub(crate) fn propose_void(&self, id: &str, reason: &str) -> Option<ApprovalEventEntry> {
        let queued = self.requests.get(id).filter(|queued| queued.state.is_open())?;
        Some(request_entry(id, queued, ApprovalEvent::Void, None, json!({"why": reason})))
    }

    /// Proposes the expiry of everything that has expired at `now`.
    pub(crate) fn propose_expiries(&self, now: Timestamp) -> Vec<ApprovalEventEntry> {
        let questions =
            self.requests.iter().filter(|(_, queued)| queued.state.is_open() && !queued.is_open_at(now));
        let rules = self.rules.iter().filter(|(_, status)| status.until <= now);
        let questions = questions
            .map(|(id, queued)| request_entry(id, queued, ApprovalEvent::Expired, None, Value::Null));
        questions
            .chain(rules.map(|(id, status)| rule_entry(id, status, ApprovalEvent::Expired, None)))
            .collect()
    }

    /// Proposes a new standing rule.
    pub(crate) fn propose_rule(
        &self,
        id: &str,
        status: &ActiveRule,
        by: &str,
    ) -> Result<ApprovalEventEntry, CapacityError> {
        if self.rules.len() >= MAX_RULES {
            return Err(CapacityError::Total(MAX_RULES));
        }
        Ok(ApprovalEventEntry {
            data: json!(status),
            ..rule_entry(id, status, ApprovalEvent::Standing, Some(by))
        })
    }

    /// Proposes the revocation of a standing rule.
    pub(crate) fn propose_revocation(&self, id: &str, by: &str) -> Option<ApprovalEventEntry> {
        self.rules.get(id).map(|status| rule_entry(id, status, ApprovalEvent::Revoked, Some(by)))
    }

    /// Id of the standing rule that covers a call, if there is one.
    pub(crate) fn covering_rule(&self, wanted: &CallProfile<'_>, now: Timestamp) -> Option<&String> {
        let holds = |status: &ActiveRule| now < status.until && status.rule.covers(wanted);
        self.rules.iter().find(|(_, status)| holds(status)).map(|(id, _)| id)
    }

    /// Applies a ledger entry. An entry that cannot be parsed is ignored, which can only result in fewer
    /// approvals.
    pub(crate) fn apply(&mut self, approval: &ApprovalEventEntry) {
        let ApprovalEventEntry { id, event, digest, data, .. } = approval;
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        match event {
            ApprovalEvent::Requested => {
                if let Ok(terms) = serde_json::from_value(data.clone()) {
                    let queued =
                        QueuedRequest { digest: digest.clone(), terms, state: RequestState::Pending };
                    self.requests.insert(id.clone(), queued);
                }
            }
            ApprovalEvent::Granted => match text("until").and_then(|until| until.parse().ok()) {
                Some(until) => self.set_state(id, RequestState::Granted { until }),
                None => self.set_state(id, RequestState::Expired),
            },
            ApprovalEvent::Standing => {
                if let Ok(status) = serde_json::from_value(data.clone()) {
                    self.rules.insert(id.clone(), status);
                }
            }
            ApprovalEvent::Denied => {
                let at = text("at").and_then(|at| at.parse().ok());
                self.set_state(id, RequestState::Denied { message: text("message"), at });
            }
            ApprovalEvent::Expired => self.set_state(id, RequestState::Expired),
            ApprovalEvent::Used => self.set_state(id, RequestState::Used),
            ApprovalEvent::Void | ApprovalEvent::Revoked | ApprovalEvent::Other => {
                self.set_state(id, RequestState::Void { reason: text("why").unwrap_or_default() });
            }
        }
    }

    fn set_state(&mut self, id: &str, state: RequestState) {
        self.rules.remove(id);
        let Some(queued) = self.requests.get_mut(id) else { return };
        let is_over = queued.state.is_open() && !state.is_open();
        queued.state = state;
        if is_over {
            self.closed.push_back(id.to_owned());
        }
        while self.closed.len() > MAX_CLOSED
            && let Some(oldest) = self.closed.pop_front()
        {
            self.requests.remove(&oldest);
        }
    }
}

fn request_entry(
    id: &str,
    queued: &QueuedRequest,
    event: ApprovalEvent,
    by: Option<&str>,
    data: Value,
) -> ApprovalEventEntry {
    ApprovalEventEntry {
        id: id.to_owned(),
        event,
        call_id: Some(queued.terms.call.call_id),
        tool: Some(queued.terms.call.tool.clone()),
        digest: queued.digest.clone(),
        by: by.map(str::to_owned),
        via: None,
        data,
    }
}

/// Builds a ledger entry about a standing rule.
fn rule_entry(id: &str, status: &ActiveRule, event: ApprovalEvent, by: Option<&str>) -> ApprovalEventEntry {
    ApprovalEventEntry {
        id: id.to_owned(),
        event,
        call_id: None,
        tool: Some(status.rule.tool().to_owned()),
        digest: String::new(),
        by: by.map(str::to_owned),
        via: None,
        data: json!({"from": status.from}),
    }
}

#[cfg(test)]
mod tests;
