//! Approval requests and standing rules as a pure fold over ledger entries.
//!
//! Every change is proposed as a ledger entry, written to disk by the caller, and then applied; a restart
//! applies the same entries again. So the state in memory always equals the ledger. The caller passes the
//! time in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use ledger::entry::{Approval, ApprovalEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::Caller;

use super::rule::{Rule, Wanted};

/// Limits of open requests: in total, per user regardless of client names, and per caller. A flood of
/// requests is a way to make an operator approve without reading.
const MOST_OPEN: usize = 128;
const MOST_OF_USER: usize = 64;
const MOST_OF_ONE: usize = 32;
/// Open requests per user that are reserved for clients without one, so that two busy clients do not block a
/// third.
const KEPT_FREE: usize = 16;
/// Limit of standing rules: more than a person remembers having created.
const MOST_STANDING: usize = 64;
/// Closed requests that are remembered, so that callers can learn how their request ended.
const MOST_OVER: usize = 256;

/// All approval requests and standing rules.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    asked: BTreeMap<String, Asked>,
    standing: BTreeMap<String, Standing>,
    /// Ids of closed requests, oldest first.
    over: VecDeque<String>,
}

/// Approval request with its state.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) digest: String,
    pub(crate) terms: Terms,
    pub(crate) state: State,
}

impl Asked {
    /// Returns true if the request is pending or approved and has not expired at `now`.
    fn is_open_at(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Pending => now < self.terms.expires_at,
            State::Granted { until } => now < *until,
            State::Denied { .. } | State::Expired | State::Used | State::Void { .. } => false,
        }
    }
}

/// Content of a request as recorded in the ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// Call that requested approval.
    pub(crate) call: Arc<ledger::Call>,
    /// Rules that require approval, by file and name.
    pub(crate) rules: Vec<String>,
    /// Keyed digest of the file of the request.
    pub(crate) card: String,
    pub(crate) asked_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// State of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    /// Approved; the approval can be used once, before `until`.
    Granted {
        until: Timestamp,
    },
    Denied {
        message: Option<String>,
    },
    Expired,
    Used,
    /// Withdrawn: by the caller, because the effect or a rule changed, or because the operator edited the
    /// call.
    Void {
        why: String,
    },
}

impl State {
    /// Name of the state for people.
    pub(crate) fn as_str(&self) -> &'static str {
        match self {
            State::Pending => "pending",
            State::Granted { .. } => "approved",
            State::Denied { .. } => "denied",
            State::Expired => "expired",
            State::Used => "used",
            State::Void { .. } => "withdrawn",
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, State::Pending | State::Granted { .. })
    }
}

/// Standing rule: matching calls need no further approval for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) rule: Rule,
    /// Id of the approval that created the rule.
    pub(crate) from: String,
    pub(crate) made_at: Timestamp,
    pub(crate) until: Timestamp,
}

/// Facts of a call that wants to use an approval.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) digest: &'a str,
    /// Rules that require approval now.
    pub(crate) rules: &'a [String],
}

/// Limit that prevents a new request or rule; holds its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All(usize),
    /// Limit per user, identified by the uid from the kernel.
    OfUser(usize),
    OfCaller(usize),
}

/// Reason why a request cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecidable {
    Unknown,
    /// It was decided earlier or has expired; holds the name of its state.
    Over(&'static str),
}

/// Reason why an approval cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// There is none, or it belongs to another caller.
    Unknown,
    Pending,
    Denied(Option<String>),
    Expired,
    Used,
    Void(String),
    /// It was given for another effect.
    Mismatch,
}

impl Queue {
    /// All requests, oldest first.
    pub(crate) fn asked(&self) -> Vec<(&String, &Asked)> {
        let mut all: Vec<_> = self.asked.iter().collect();
        all.sort_by(|one, other| (one.1.terms.asked_at, one.0).cmp(&(other.1.terms.asked_at, other.0)));
        all
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Asked> {
        self.asked.get(id)
    }

    pub(crate) fn standing(&self) -> impl Iterator<Item = (&String, &Standing)> {
        self.standing.iter()
    }

    /// Proposes a new request.
    pub(crate) fn request(&self, id: &str, digest: &str, terms: &Terms) -> Result<Approval, Full> {
        self.has_room_for(&terms.call.caller, terms.asked_at)?;
        let asked = Asked { digest: digest.to_owned(), terms: terms.clone(), state: State::Pending };
        Ok(entry(id, &asked, ApprovalEvent::Requested, None, json!(terms)))
    }

    /// Checks that this caller may open one more request.
    pub(crate) fn has_room_for(&self, asks: &Caller, now: Timestamp) -> Result<(), Full> {
        // Expired requests do not count, whether their expiry is recorded yet or not.
        let open = || self.asked.values().filter(|asked| asked.is_open_at(now));
        let of_user = || open().filter(|asked| asked.terms.call.caller.uid == asks.uid);
        if open().count() >= MOST_OPEN {
            return Err(Full::All(MOST_OPEN));
        }
        let of_one = of_user().filter(|asked| asked.terms.call.caller.is_same_party(asks)).count();
        if of_one >= MOST_OF_ONE {
            return Err(Full::OfCaller(MOST_OF_ONE));
        }
        let room = if of_one == 0 { MOST_OF_USER } else { MOST_OF_USER - KEPT_FREE };
        if of_user().count() >= room {
            return Err(Full::OfUser(room));
        }
        Ok(())
    }

    /// Proposes an approval. The first decision wins.
    pub(crate) fn grant(
        &self,
        id: &str,
        by: &str,
        now: Timestamp,
        until: Timestamp,
    ) -> Result<Approval, Undecidable> {
        let asked = self.decidable(id, now)?;
        Ok(entry(id, asked, ApprovalEvent::Granted, Some(by), json!({"until": until})))
    }

    /// Proposes a denial.
    pub(crate) fn deny(
        &self,
        id: &str,
        by: &str,
        now: Timestamp,
        message: Option<&str>,
    ) -> Result<Approval, Undecidable> {
        let asked = self.decidable(id, now)?;
        Ok(entry(id, asked, ApprovalEvent::Denied, Some(by), json!({"message": message})))
    }

    /// Returns a request that can still be decided.
    pub(crate) fn decidable(&self, id: &str, now: Timestamp) -> Result<&Asked, Undecidable> {
        let asked = self.asked.get(id).ok_or(Undecidable::Unknown)?;
        match &asked.state {
            State::Pending if now < asked.terms.expires_at => Ok(asked),
            State::Pending => Err(Undecidable::Over(State::Expired.as_str())),
            over => Err(Undecidable::Over(over.as_str())),
        }
    }

    /// Proposes the use of an approval, if it was given to this caller for this effect.
    pub(crate) fn take(&self, id: &str, claim: Claim<'_>, now: Timestamp) -> Result<Approval, Unusable> {
        let asked = self.usable(id, claim.caller, now)?;
        // The operator did not know of a rule that was not in the request.
        let as_shown = claim.rules.iter().all(|rule| asked.terms.rules.contains(rule));
        if asked.digest != claim.digest || !as_shown {
            return Err(Unusable::Mismatch);
        }
        Ok(entry(id, asked, ApprovalEvent::Used, None, Value::Null))
    }

    /// Returns an approval that this caller may use.
    pub(crate) fn usable(&self, id: &str, caller: &Caller, now: Timestamp) -> Result<&Asked, Unusable> {
        let asked = self.asked.get(id).filter(|asked| asked.terms.call.caller.is_same_party(caller));
        let asked = asked.ok_or(Unusable::Unknown)?;
        match &asked.state {
            State::Granted { until } if now < *until => Ok(asked),
            State::Pending if now < asked.terms.expires_at => Err(Unusable::Pending),
            State::Granted { .. } | State::Pending | State::Expired => Err(Unusable::Expired),
            State::Denied { message } => Err(Unusable::Denied(message.clone())),
            State::Used => Err(Unusable::Used),
            State::Void { why } => Err(Unusable::Void(why.clone())),
        }
    }

    /// Proposes the withdrawal of a pending request or an unused approval.
    pub(crate) fn void(&self, id: &str, why: &str) -> Option<Approval> {
        let asked = self.asked.get(id).filter(|asked| asked.state.is_open())?;
        Some(entry(id, asked, ApprovalEvent::Void, None, json!({"why": why})))
    }

    /// Proposes the expiry of everything that has expired at `now`.
    pub(crate) fn expired(&self, now: Timestamp) -> Vec<Approval> {
        let questions =
            self.asked.iter().filter(|(_, asked)| asked.state.is_open() && !asked.is_open_at(now));
        let rules = self.standing.iter().filter(|(_, standing)| standing.until <= now);
        let questions =
            questions.map(|(id, asked)| entry(id, asked, ApprovalEvent::Expired, None, Value::Null));
        questions
            .chain(rules.map(|(id, standing)| over(id, standing, ApprovalEvent::Expired, None)))
            .collect()
    }

    /// Proposes a new standing rule.
    pub(crate) fn stand(&self, id: &str, standing: &Standing, by: &str) -> Result<Approval, Full> {
        if self.standing.len() >= MOST_STANDING {
            return Err(Full::All(MOST_STANDING));
        }
        Ok(Approval { data: json!(standing), ..over(id, standing, ApprovalEvent::Standing, Some(by)) })
    }

    /// Proposes the revocation of a standing rule.
    pub(crate) fn revoke(&self, id: &str, by: &str) -> Option<Approval> {
        self.standing.get(id).map(|standing| over(id, standing, ApprovalEvent::Revoked, Some(by)))
    }

    /// Id of the standing rule that covers a call, if there is one.
    pub(crate) fn covering(&self, wanted: &Wanted<'_>, now: Timestamp) -> Option<&String> {
        let holds = |standing: &Standing| now < standing.until && standing.rule.covers(wanted);
        self.standing.iter().find(|(_, standing)| holds(standing)).map(|(id, _)| id)
    }

    /// Applies a ledger entry. An entry that cannot be parsed is ignored, which can only result in fewer
    /// approvals.
    pub(crate) fn apply(&mut self, approval: &Approval) {
        let Approval { id, event, digest, data, .. } = approval;
        let text = |key: &str| data.get(key).and_then(Value::as_str).map(str::to_owned);
        match event {
            ApprovalEvent::Requested => {
                if let Ok(terms) = serde_json::from_value(data.clone()) {
                    let asked = Asked { digest: digest.clone(), terms, state: State::Pending };
                    self.asked.insert(id.clone(), asked);
                }
            }
            ApprovalEvent::Granted => match text("until").and_then(|until| until.parse().ok()) {
                Some(until) => self.turn(id, State::Granted { until }),
                None => self.turn(id, State::Expired),
            },
            ApprovalEvent::Standing => {
                if let Ok(standing) = serde_json::from_value(data.clone()) {
                    self.standing.insert(id.clone(), standing);
                }
            }
            ApprovalEvent::Denied => self.turn(id, State::Denied { message: text("message") }),
            ApprovalEvent::Expired => self.turn(id, State::Expired),
            ApprovalEvent::Used => self.turn(id, State::Used),
            ApprovalEvent::Void | ApprovalEvent::Revoked | ApprovalEvent::Other => {
                self.turn(id, State::Void { why: text("why").unwrap_or_default() });
            }
        }
    }

    fn turn(&mut self, id: &str, state: State) {
        self.standing.remove(id);
        let Some(asked) = self.asked.get_mut(id) else { return };
        let is_over = asked.state.is_open() && !state.is_open();
        asked.state = state;
        if is_over {
            self.over.push_back(id.to_owned());
        }
        while self.over.len() > MOST_OVER
            && let Some(oldest) = self.over.pop_front()
        {
            self.asked.remove(&oldest);
        }
    }
}

fn entry(id: &str, asked: &Asked, event: ApprovalEvent, by: Option<&str>, data: Value) -> Approval {
    Approval {
        id: id.to_owned(),
        event,
        call_id: Some(asked.terms.call.call_id),
        tool: Some(asked.terms.call.tool.clone()),
        digest: asked.digest.clone(),
        by: by.map(str::to_owned),
        data,
    }
}

/// Builds a ledger entry about a standing rule.
fn over(id: &str, standing: &Standing, event: ApprovalEvent, by: Option<&str>) -> Approval {
    Approval {
        id: id.to_owned(),
        event,
        call_id: None,
        tool: Some(standing.rule.tool().to_owned()),
        digest: String::new(),
        by: by.map(str::to_owned),
        data: json!({"from": standing.from}),
    }
}

#[cfg(test)]
mod tests;
