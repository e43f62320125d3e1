//! Remote calls in two steps: a placement request, which has no effect, returns a nonce of one host, and the call
//! goes to that host alone. An idempotency key is local to a host, so a request that any host may answer must never
//! carry an effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

use crate::modes::MAX_SKEW_MS;
use crate::{SubjectToken, Subjects};

/// Time for which a nonce is valid, by the clock of the host.
const NONCE_LIFE_MS: u64 = 10_000;
/// Most nonces that are open at a time: further placement requests are not answered.
const MAX_NONCES: usize = 4096;
/// Longest time between a call and its expiry.
const MAX_TTL_MS: u64 = 600_000;

/// Nonce of a placement, as 32 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PlacementNonce(pub String);

impl PlacementNonce {
    /// Creates a nonce from random bytes.
    pub fn new(random: [u8; 16]) -> PlacementNonce {
        PlacementNonce(tool::canonical::hex(&random))
    }
}

/// Signed call of a tool on another host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoteCall {
    /// Host that must run it.
    pub host: SubjectToken,
    /// Caller; the subject must name the same one.
    pub caller: SubjectToken,
    /// Name of the tool.
    pub tool: String,
    /// Arguments.
    pub arguments: Value,
    /// Idempotency key; mandatory for a tool that changes something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Nonce of the placement.
    pub nonce: PlacementNonce,
    /// Time of the caller in milliseconds.
    pub issued_at: u64,
    /// Time in milliseconds after which the host must not start it.
    pub ttl_ms: u64,
}

/// Reason for which a host does not start a remote call. The caller gets it as an answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CallRefusal {
    /// The call is for another host, or from another caller than its subject names.
    #[error("the call does not belong to this subject")]
    Foreign,
    /// The reply subject is not that of this caller, host and nonce.
    #[error("the reply subject is not `sinew.v1.reply.<caller>.<host>.<nonce>`")]
    ReplySubject,
    /// The call expired, for example while the connection was down.
    #[error("the call expired before it arrived")]
    Expired,
    /// The time of the call is in the future.
    #[error("the call is from the future: check the clocks")]
    Future,
    /// The nonce is unknown, used, expired, or of another caller.
    #[error("the placement is not valid any more: place the call again, with the same key")]
    Nonce,
    /// A change has no idempotency key.
    #[error("a call that changes something needs an idempotency key")]
    KeyMissing,
}

impl CallRefusal {
    /// Returns true if the same call can succeed after a new placement.
    pub fn is_retryable(self) -> bool {
        matches!(self, CallRefusal::Nonce | CallRefusal::Expired)
    }
}

/// Host side of remote calls: open nonces, and the checks of a call before it enters the pipeline.
#[derive(Debug)]
pub struct CallGate {
    host: SubjectToken,
    /// Caller and expiry of each open nonce.
    nonces: BTreeMap<PlacementNonce, (SubjectToken, u64)>,
}

impl CallGate {
    /// Creates the gate of a host.
    pub fn new(host: SubjectToken) -> CallGate {
        CallGate { host, nonces: BTreeMap::new() }
    }

    /// Answers a placement request with a nonce for this caller. `None` if too many are open.
    pub fn place(
        &mut self,
        caller: &SubjectToken,
        nonce: PlacementNonce,
        now: u64,
    ) -> Option<PlacementNonce> {
        self.nonces.retain(|_, (_, until)| *until > now);
        if self.nonces.len() >= MAX_NONCES || self.nonces.contains_key(&nonce) {
            return None;
        }
        self.nonces.insert(nonce.clone(), (caller.clone(), now + NONCE_LIFE_MS));
        Some(nonce)
    }

    /// Checks a call whose signature is valid, and uses up its nonce. `changes` is true if the tool changes
    /// something.
    pub fn admit(
        &mut self,
        call: &RemoteCall,
        (caller, reply): (&SubjectToken, &str),
        changes: bool,
        now: u64,
    ) -> Result<(), CallRefusal> {
        if call.host != self.host || call.caller != *caller {
            return Err(CallRefusal::Foreign);
        }
        // The caller chooses the reply subject, so it must not name anything else that this host may publish to.
        if reply != Subjects::reply(caller.as_str(), self.host.as_str(), &call.nonce.0) {
            return Err(CallRefusal::ReplySubject);
        }
        if call.issued_at > now + MAX_SKEW_MS {
            return Err(CallRefusal::Future);
        }
        if call.issued_at.saturating_add(call.ttl_ms.min(MAX_TTL_MS)) <= now {
            return Err(CallRefusal::Expired);
        }
        if changes && call.key.as_ref().is_none_or(String::is_empty) {
            return Err(CallRefusal::KeyMissing);
        }
        match self.nonces.remove(&call.nonce) {
            Some((placed, until)) if placed == *caller && until > now => Ok(()),
            _ => Err(CallRefusal::Nonce),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: u64 = 1_000_000;

    fn token(text: &str) -> SubjectToken {
        text.parse().unwrap()
    }

    fn call(nonce: &PlacementNonce) -> RemoteCall {
        RemoteCall {
            host: token("h"),
            caller: token("me"),
            tool: "write_file".to_owned(),
            arguments: json!({}),
            key: Some("k".to_owned()),
            nonce: nonce.clone(),
            issued_at: NOW,
            ttl_ms: 5000,
        }
    }

    /// Asserts the answer to one call that was placed at `NOW`.
    fn check(change: impl FnOnce(&mut RemoteCall), later: u64, expect: Result<(), CallRefusal>) {
        let mut gate = CallGate::new(token("h"));
        let nonce = gate.place(&token("me"), PlacementNonce::new([7; 16]), NOW).unwrap();
        let mut call = call(&nonce);
        change(&mut call);
        let reply = Subjects::reply("me", "h", &call.nonce.0);
        assert_eq!(gate.admit(&call, (&token("me"), &reply), true, NOW + later), expect);
    }

    #[test]
    fn only_a_placed_call_in_time_is_admitted() {
        check(|_| {}, 0, Ok(()));
        check(|_| {}, 4999, Ok(()));
        check(|_| {}, 5000, Err(CallRefusal::Expired));
        check(|call| call.ttl_ms = 60_000, 9999, Ok(()));
        check(|call| call.ttl_ms = 60_000, 10_000, Err(CallRefusal::Nonce));
        check(|call| call.ttl_ms = u64::MAX, 10_000_000, Err(CallRefusal::Expired));
        check(|call| call.issued_at += MAX_SKEW_MS + 1, 0, Err(CallRefusal::Future));
        check(|call| call.host = token("g"), 0, Err(CallRefusal::Foreign));
        check(|call| call.caller = token("you"), 0, Err(CallRefusal::Foreign));
        check(|call| call.nonce = PlacementNonce::new([8; 16]), 0, Err(CallRefusal::Nonce));
        check(|call| call.key = None, 0, Err(CallRefusal::KeyMissing));
        check(|call| call.key = Some(String::new()), 0, Err(CallRefusal::KeyMissing));
    }

    #[test]
    fn nonce_is_used_once_and_by_its_caller() {
        let mut gate = CallGate::new(token("h"));
        let nonce = gate.place(&token("me"), PlacementNonce::new([7; 16]), NOW).unwrap();
        let reply = Subjects::reply("me", "h", &nonce.0);
        let foreign = RemoteCall { caller: token("you"), ..call(&nonce) };
        let other = Subjects::reply("you", "h", &nonce.0);
        assert_eq!(gate.admit(&foreign, (&token("you"), &other), true, NOW), Err(CallRefusal::Nonce));
        let nonce = gate.place(&token("me"), PlacementNonce::new([9; 16]), NOW).unwrap();
        let call = call(&nonce);
        let reply_of = |nonce: &PlacementNonce| Subjects::reply("me", "h", &nonce.0);
        assert_eq!(gate.admit(&call, (&token("me"), &reply), true, NOW), Err(CallRefusal::ReplySubject));
        for poisoned in ["sinew.v1.ledger.00.h", "sinew.v1.beat.h", "", "sinew.v1.reply.me.h.*"] {
            let refused = gate.admit(&call, (&token("me"), poisoned), true, NOW);
            assert_eq!(refused, Err(CallRefusal::ReplySubject), "{poisoned}");
        }
        assert_eq!(gate.admit(&call, (&token("me"), &reply_of(&nonce)), true, NOW), Ok(()));
        assert_eq!(gate.admit(&call, (&token("me"), &reply_of(&nonce)), true, NOW), Err(CallRefusal::Nonce));
    }

    #[test]
    fn open_nonces_are_bounded() {
        let mut gate = CallGate::new(token("h"));
        let nonce = |number: usize| PlacementNonce(format!("{number:032x}"));
        for number in 0..MAX_NONCES {
            assert!(gate.place(&token("me"), nonce(number), NOW).is_some());
        }
        assert!(gate.place(&token("me"), nonce(MAX_NONCES), NOW).is_none());
        assert!(gate.place(&token("me"), nonce(MAX_NONCES), NOW + NONCE_LIFE_MS).is_some());
    }
}
