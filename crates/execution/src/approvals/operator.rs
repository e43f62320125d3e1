//! What the operator's door can do: see the questions, answer them, and see and revoke the rules that stand.
//!
//! Nothing on the road of a call leads here. Whoever calls these has the operator's channel; a yes takes the PIN too,
//! where there is one.

use std::sync::Arc;
use std::time::Duration;

use ledger::LedgerError;
use serde::{Deserialize, Serialize};
use telemetry::redact;
use tokio::sync::{oneshot, watch};
use tool::{Arguments, CallId, Caller};

use super::card::Card;
use super::clock::later;
use super::pin::{Pin, PinError};
use super::queue::{Standing, State, Undecidable};
use super::{Edit, Edited};
use crate::layer::ToolExecutionLayer;

const LONGEST_MESSAGE: usize = 1000;
/// How long a call that waits may take to look at changed arguments.
const EDIT_PATIENCE: Duration = Duration::from_secs(30);

/// A question in the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Listed {
    /// `pending`, or `approved` where the answer was not used yet.
    pub state: String,
    /// Until when it can be answered or used, in seconds from now.
    pub seconds_left: u64,
    /// Whether its caller waits for the answer.
    pub waiting: bool,
    /// The arguments as they were given, where a human may change them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub editable: Option<Arguments>,
    /// What is shown.
    #[serde(flatten)]
    pub card: Card,
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Yes, to this call.
    Once,
    /// Yes, to this call and to others like it.
    Lasting(Lasting),
    /// No, and what the model is told.
    Deny(Option<String>),
    /// Neither: the call is to be another one.
    Edit(Arguments),
}

/// A yes that goes on.
#[derive(Clone, Debug, Default)]
pub struct Lasting {
    /// For how long; absent: as long as the connection and the daemon, and at most a day.
    pub lasts: Option<Duration>,
    /// `argument=pattern`.
    pub patterns: Vec<String>,
    /// The rule as it was displayed. It holds only if it is the one that would be made.
    pub displayed: Option<Vec<String>>,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// It is on record.
    Recorded,
    /// It is on record, and so is the rule.
    Standing {
        /// Names the rule.
        rule: String,
    },
    /// The changed call is a new question.
    Asked {
        /// Names the question.
        id: String,
    },
    /// The changed call needs nobody's leave and goes on.
    Runs,
}

/// Why an answer was not taken.
#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    /// There is no such question.
    #[error("there is no approval `{0}`")]
    Unknown(String),
    /// Somebody was first, or nobody was in time.
    #[error("approval `{id}` is {state} already; the first decision stands")]
    Over {
        /// The question.
        id: String,
        /// How it ended.
        state: &'static str,
    },
    /// The rule must be displayed first.
    #[error("the rule was not displayed as it would be made")]
    NotDisplayed {
        /// The rule.
        lines: Vec<String>,
    },
    /// No such rule can be made.
    #[error("no such rule can be made: {0}")]
    NoRule(String),
    /// The changed arguments are refused.
    #[error("the arguments cannot be changed so: {0}")]
    NotEdited(String),
    /// The message is too long.
    #[error("the message has {0} bytes; at most {LONGEST_MESSAGE} reach the model")]
    LongMessage(usize),
    /// The yes is on record, and the rule is not.
    #[error("the call is approved, but the rule was not made: {0}")]
    RuleNotRecorded(LedgerError),
    /// There is no such rule.
    #[error("no rule `{0}` stands: it was revoked, has run out, or never stood")]
    NoSuchGrant(String),
    /// Sinew itself failed.
    #[error("a fault inside Sinew ended this; its log has the place, and `sinew approvals list` what holds")]
    Crashed,
    /// The PIN is missing or wrong.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// It could not be recorded, so it does not hold.
    #[error("the decision was not taken: {0}")]
    NotRecorded(#[from] LedgerError),
}

impl ToolExecutionLayer {
    /// The questions that can be answered, and the answers that were not used yet, oldest first.
    pub async fn approvals(&self) -> Vec<Listed> {
        self.approvals.sweep(&self.ledger).await;
        let ids: Vec<String> = self.approvals.queue().asked().into_iter().map(|(id, _)| id.clone()).collect();
        ids.iter().filter_map(|id| self.listed(id)).collect()
    }

    /// One of them.
    pub async fn approval(&self, id: &str) -> Option<Listed> {
        self.approvals.sweep(&self.ledger).await;
        self.listed(id)
    }

    fn listed(&self, id: &str) -> Option<Listed> {
        let (state, until) = {
            let queue = self.approvals.queue();
            let asked = queue.get(id)?;
            match &asked.state {
                State::Pending => (asked.state.as_str(), asked.terms.expires_at),
                State::Granted { until } => (asked.state.as_str(), *until),
                State::Denied { .. } | State::Expired | State::Used | State::Void { .. } => return None,
            }
        };
        if until <= self.approvals.now() {
            return None;
        }
        let kept = self.approvals.cards.get(id)?;
        Some(Listed {
            state: state.to_owned(),
            seconds_left: self.approvals.clock.until(until).as_secs(),
            waiting: self.approvals.editors().contains_key(id),
            editable: kept.arguments.clone(),
            card: kept.card.clone(),
        })
    }

    /// Follows what happens to questions.
    pub fn approvals_changes(&self) -> watch::Receiver<u64> {
        self.approvals.subscribe()
    }

    /// The operator's PIN.
    pub fn pin(&self) -> &Pin {
        &self.approvals.pin
    }

    /// Answers a question. It happens even if whoever answered goes away meanwhile; the first answer on disk counts.
    pub async fn decide(
        self: &Arc<Self>,
        id: &str,
        answer: Answer,
        by: &Caller,
        pin: Option<String>,
    ) -> Result<Decided, DecideError> {
        // A no makes nothing happen, so it takes no PIN.
        if !matches!(answer, Answer::Deny(_)) {
            self.approvals.pin.verify(pin).await?;
        }
        let by = redact::shared().redact_text(&by.display_name()).into_owned();
        let (layer, id) = (Arc::clone(self), id.to_owned());
        let deciding = tokio::spawn(async move { layer.decide_in_turn(&id, answer, &by).await });
        deciding.await.unwrap_or(Err(DecideError::Crashed))
    }

    async fn decide_in_turn(&self, id: &str, answer: Answer, by: &str) -> Result<Decided, DecideError> {
        match answer {
            Answer::Once => self.grant(id, by, None).await,
            Answer::Lasting(lasting) => {
                let standing = self.rule_of(id, &lasting)?;
                self.grant(id, by, Some(standing)).await
            }
            Answer::Deny(message) => self.deny(id, by, message.as_deref()).await,
            Answer::Edit(arguments) => self.edit(id, arguments).await,
        }
    }

    async fn grant(&self, id: &str, by: &str, standing: Option<Standing>) -> Result<Decided, DecideError> {
        let _turn = self.approvals.turn.lock().await;
        let now = self.approvals.now();
        // An answer that nobody comes for is not kept longer than the question would have been.
        let until = later(now, self.world.load().policy.approval_timeout());
        let granted = self.approvals.queue().grant(id, by, now, until).map_err(|why| over(id, why))?;
        let rule = match standing {
            None => None,
            Some(standing) => {
                let rule = CallId::fresh().to_string();
                let rule = rule.get(rule.len().saturating_sub(10)..).unwrap_or(&rule).to_owned();
                let full = |_| DecideError::NoRule("too many rules stand already: revoke one".to_owned());
                let stands = self.approvals.queue().stand(&rule, &standing, by).map_err(full)?;
                Some((rule, stands))
            }
        };
        self.approvals.record(&self.ledger, granted).await?;
        match rule {
            None => Ok(Decided::Recorded),
            Some((rule, stands)) => {
                let stood = self.approvals.record(&self.ledger, stands).await;
                stood.map_err(DecideError::RuleNotRecorded)?;
                Ok(Decided::Standing { rule })
            }
        }
    }

    async fn deny(&self, id: &str, by: &str, message: Option<&str>) -> Result<Decided, DecideError> {
        if let Some(long) = message.map(str::len).filter(|length| *length > LONGEST_MESSAGE) {
            return Err(DecideError::LongMessage(long));
        }
        let message = message.map(|message| redact::shared().redact_text(message).into_owned());
        let _turn = self.approvals.turn.lock().await;
        let now = self.approvals.now();
        let denied =
            self.approvals.queue().deny(id, by, now, message.as_deref()).map_err(|why| over(id, why))?;
        self.approvals.record(&self.ledger, denied).await?;
        Ok(Decided::Recorded)
    }

    /// Hands changed arguments to the call that waits. What comes of them is asked about like any other call.
    async fn edit(&self, id: &str, arguments: Arguments) -> Result<Decided, DecideError> {
        let refused = |why: &str| DecideError::NotEdited(why.to_owned());
        self.approvals.queue().decidable(id, self.approvals.now()).map_err(|why| over(id, why))?;
        if self.approvals.cards.get(id).is_none_or(|kept| kept.arguments.is_none()) {
            return Err(refused("they hold what is masked; deny it and say what it should do instead"));
        }
        let editor = self.approvals.editors().get(id).and_then(|waiting| waiting.first().cloned());
        let Some(editor) = editor else {
            return Err(refused("its caller does not wait; deny it and say what it should do instead"));
        };
        let (answer, answered) = oneshot::channel();
        let gone = || refused("its caller does not wait any more");
        editor.send(Edit { arguments, answer }).await.map_err(|_| gone())?;
        match tokio::time::timeout(EDIT_PATIENCE, answered).await {
            Ok(Ok(Ok(Edited::Asks(id)))) => Ok(Decided::Asked { id }),
            Ok(Ok(Ok(Edited::Runs))) => Ok(Decided::Runs),
            Ok(Ok(Err(why))) => Err(DecideError::NotEdited(why)),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(refused(
                "it takes too long to look at what the changed call would do; `sinew approvals list` shows what is asked now",
            )),
        }
    }
}

fn over(id: &str, why: Undecidable) -> DecideError {
    match why {
        Undecidable::Unknown => DecideError::Unknown(id.to_owned()),
        Undecidable::Over(state) => DecideError::Over { id: id.to_owned(), state },
    }
}
