//! Questions to a human and their answers: a pure fold over what is on record.
//!
//! Every change is proposed as the record that will say so, put on disk by whoever asked, and then applied; a start
//! applies the same records again. So what holds in memory is what is on record, and nothing else. Time is handed in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use ledger::entry::{Approval, ApprovalEvent};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::Caller;

use super::rule::{Rule, Wanted};

/// Questions that can wait at a time, how many of them may be one user's whatever its clients call themselves, and how
/// many one caller's. A flood of questions is how a human is made to say yes without looking.
const MOST_OPEN: usize = 128;
const MOST_OF_USER: usize = 64;
const MOST_OF_ONE: usize = 32;
/// Places of a user that are kept for its clients without a question: two busy ones do not silence a third.
const KEPT_FREE: usize = 16;
/// Rules that can stand at a time: more than a person remembers having made.
const MOST_STANDING: usize = 64;
/// Questions that are over and still remembered, to tell a caller what became of them.
const MOST_OVER: usize = 256;

/// All questions and standing rules.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    asked: BTreeMap<String, Asked>,
    standing: BTreeMap<String, Standing>,
    /// The questions that are over, oldest first.
    over: VecDeque<String>,
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) digest: String,
    pub(crate) terms: Terms,
    pub(crate) state: State,
}

impl Asked {
    /// Whether it waits, or its answer does, and has not run out by then.
    fn is_open_at(&self, now: Timestamp) -> bool {
        match &self.state {
            State::Pending => now < self.terms.expires_at,
            State::Granted { until } => now < *until,
            State::Denied { .. } | State::Expired | State::Used | State::Void { .. } => false,
        }
    }
}

/// What a question is about, as it is on record.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// The call that asked.
    pub(crate) call: Arc<ledger::Call>,
    /// The rules that ask, by file and name.
    pub(crate) rules: Vec<String>,
    /// Stands for what is shown.
    pub(crate) card: String,
    pub(crate) asked_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Where a question stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Pending,
    /// A human said yes, and it can be used until then, once.
    Granted {
        until: Timestamp,
    },
    Denied {
        message: Option<String>,
    },
    Expired,
    Used,
    /// It was taken back: by the one who asked, by a stricter rule, or by the one who answered.
    Void {
        why: String,
    },
}

impl State {
    /// The word for people.
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

/// A rule by which a human is not asked again for a while.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Standing {
    pub(crate) rule: Rule,
    /// The question whose answer it was.
    pub(crate) from: String,
    pub(crate) made_at: Timestamp,
    pub(crate) until: Timestamp,
}

/// What a call brings when it wants to use an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) digest: &'a str,
    /// The rules that ask now.
    pub(crate) rules: &'a [String],
}

/// Why no question was asked, and no rule made: there are so many, and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All(usize),
    /// Of one user, by the kernel's word.
    OfUser(usize),
    OfCaller(usize),
}

/// Why a question was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecidable {
    Unknown,
    /// Somebody was first, or nobody was in time.
    Over(&'static str),
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// There is none, or it is another caller's.
    Unknown,
    Pending,
    Denied(Option<String>),
    Expired,
    Used,
    Void(String),
    /// It was given for something else.
    Mismatch,
}

impl Queue {
    /// The questions, oldest first.
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

    /// A new question.
    pub(crate) fn request(&self, id: &str, digest: &str, terms: &Terms) -> Result<Approval, Full> {
        self.has_room_for(&terms.call.caller, terms.asked_at)?;
        let asked = Asked { digest: digest.to_owned(), terms: terms.clone(), state: State::Pending };
        Ok(entry(id, &asked, ApprovalEvent::Requested, None, json!(terms)))
    }

    /// Whether this caller could ask one question more.
    pub(crate) fn has_room_for(&self, asks: &Caller, now: Timestamp) -> Result<(), Full> {
        // What has run out takes nobody's place, whether that is on record yet or not.
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

    /// A yes. The first answer is the one that counts.
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

    /// A no.
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

    /// A question that can be answered.
    pub(crate) fn decidable(&self, id: &str, now: Timestamp) -> Result<&Asked, Undecidable> {
        let asked = self.asked.get(id).ok_or(Undecidable::Unknown)?;
        match &asked.state {
            State::Pending if now < asked.terms.expires_at => Ok(asked),
            State::Pending => Err(Undecidable::Over(State::Expired.as_str())),
            over => Err(Undecidable::Over(over.as_str())),
        }
    }

    /// Uses an answer up, if it was given to this caller for this very effect.
    pub(crate) fn take(&self, id: &str, claim: Claim<'_>, now: Timestamp) -> Result<Approval, Unusable> {
        let asked = self.usable(id, claim.caller, now)?;
        // A rule that did not ask then is one the human was not told of.
        let as_shown = claim.rules.iter().all(|rule| asked.terms.rules.contains(rule));
        if asked.digest != claim.digest || !as_shown {
            return Err(Unusable::Mismatch);
        }
        Ok(entry(id, asked, ApprovalEvent::Used, None, Value::Null))
    }

    /// An answer that this caller may use for what it was given for.
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

    /// Takes a question or an unused answer back.
    pub(crate) fn void(&self, id: &str, why: &str) -> Option<Approval> {
        let asked = self.asked.get(id).filter(|asked| asked.state.is_open())?;
        Some(entry(id, asked, ApprovalEvent::Void, None, json!({"why": why})))
    }

    /// Whatever has run out by now.
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

    /// A new standing rule.
    pub(crate) fn stand(&self, id: &str, standing: &Standing, by: &str) -> Result<Approval, Full> {
        if self.standing.len() >= MOST_STANDING {
            return Err(Full::All(MOST_STANDING));
        }
        Ok(Approval { data: json!(standing), ..over(id, standing, ApprovalEvent::Standing, Some(by)) })
    }

    /// Takes a standing rule back.
    pub(crate) fn revoke(&self, id: &str, by: &str) -> Option<Approval> {
        self.standing.get(id).map(|standing| over(id, standing, ApprovalEvent::Revoked, Some(by)))
    }

    /// The standing rule that covers a call, if one does.
    pub(crate) fn covering(&self, wanted: &Wanted<'_>, now: Timestamp) -> Option<&String> {
        let holds = |standing: &Standing| now < standing.until && standing.rule.covers(wanted);
        self.standing.iter().find(|(_, standing)| holds(standing)).map(|(id, _)| id)
    }

    /// Takes in what is on record. An entry that cannot be read is passed over: then nothing can come of it.
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

/// An entry about a standing rule.
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
