//! Rate limits for requests and refused calls of agents: per caller, with a machine-wide ceiling. It only
//! decides: the dispatcher of the agent methods calls it before it runs a method, and the layer before it
//! replies with a refusal.
//!
//! The limits stop floods and nothing else: they are an order of magnitude above what an orchestrator needs.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tool::caller::{CallerKey, EndpointParty};
use tool::{Refusal, RefusalCode};

use crate::bookkeeping::Throttled;
use crate::call::PipelineCall;
use crate::modes::ModeWatch;

/// Callers with a bucket of their own. Further ones share the machine-wide bucket only.
const MAX_CALLERS: usize = 1024;

/// Work of one caller: 20,000 calls per second sustained, after a burst of 200,000.
const CALLER_WORK: (f64, f64) = (2_000_000.0, 200_000.0);
/// Session openings of one caller: 20 per second sustained, after a burst of 64.
const CALLER_SESSIONS: (f64, f64) = (64.0, 20.0);
/// Refused calls of one caller that are answered with their own reason: 20 per second sustained, after a burst that
/// takes a few megabytes of the ledger. Beyond that the answer is `rate_limited`.
const CALLER_REFUSALS: (f64, f64) = (16_384.0, 20.0);
/// Bytes of a reply that cost as much as a light request.
const REPLY_BYTES_PER_UNIT: usize = 512;
/// The machine-wide ceiling is this many times the limit of one caller.
const MACHINE: f64 = 2.0;

/// Cost of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestCost {
    /// Answers from memory and writes no record.
    Light,
    /// Judges or runs a call, and can write records.
    Call,
    /// Opens a session: a socket, a listener and two records.
    SessionOpen,
}

impl RequestCost {
    fn work(self) -> f64 {
        match self {
            RequestCost::Light => 1.0,
            RequestCost::Call | RequestCost::SessionOpen => 10.0,
        }
    }

    fn sessions(self) -> f64 {
        if self == RequestCost::SessionOpen { 1.0 } else { 0.0 }
    }
}

/// Request limits of all callers.
pub(crate) struct Throttle(Mutex<Limits>);

struct Limits {
    machine: Buckets,
    callers: HashMap<CallerKey, Buckets>,
}

/// Charge to the limits of a caller.
#[derive(Clone, Copy)]
enum Charge {
    Request(RequestCost),
    Refusal,
}

#[derive(Clone, Debug)]
struct Buckets {
    work: TokenBucket,
    sessions: TokenBucket,
    refusals: TokenBucket,
}

impl Buckets {
    fn new(factor: f64, now: Instant) -> Self {
        let bucket = |(capacity, per_second): (f64, f64)| {
            TokenBucket::new(capacity * factor, per_second * factor, now)
        };
        Buckets {
            work: bucket(CALLER_WORK),
            sessions: bucket(CALLER_SESSIONS),
            refusals: bucket(CALLER_REFUSALS),
        }
    }

    fn wait(&mut self, charge: Charge, now: Instant) -> Duration {
        match charge {
            Charge::Request(cost) => {
                self.work.wait(cost.work(), now).max(self.sessions.wait(cost.sessions(), now))
            }
            Charge::Refusal => self.refusals.wait(1.0, now),
        }
    }

    fn spend(&mut self, charge: Charge) {
        match charge {
            Charge::Request(cost) => {
                self.work.spend(cost.work());
                self.sessions.spend(cost.sessions());
            }
            Charge::Refusal => self.refusals.spend(1.0),
        }
    }

    fn is_full(&mut self, now: Instant) -> bool {
        self.work.is_full(now) && self.sessions.is_full(now) && self.refusals.is_full(now)
    }
}

impl Default for Throttle {
    fn default() -> Self {
        let machine = Buckets::new(MACHINE, Instant::now());
        Throttle(Mutex::new(Limits { machine, callers: HashMap::new() }))
    }
}

impl Throttle {
    /// Charges one request, or returns the time after which it can be admitted.
    pub(crate) fn admit(&self, caller: CallerKey, cost: RequestCost, now: Instant) -> Result<(), Duration> {
        self.charge(caller, Charge::Request(cost), now)
    }

    /// Charges one refused call, or returns the time after which a refusal is answered with its reason again.
    pub(crate) fn admit_refusal(&self, caller: CallerKey, now: Instant) -> Result<(), Duration> {
        self.charge(caller, Charge::Refusal, now)
    }

    /// Charges the bytes of a reply. The reply is sent in any case; later requests of the caller get `rate_limited` until the bucket has refilled.
    pub(crate) fn charge_reply(&self, caller: CallerKey, bytes: usize, now: Instant) {
        // Short replies are part of the cost of their request, and need no lock.
        let units = u32::try_from(bytes / REPLY_BYTES_PER_UNIT).unwrap_or(u32::MAX);
        if units == 0 {
            return;
        }
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { machine, callers } = &mut *limits;
        for buckets in callers.get_mut(&caller).into_iter().chain([machine]) {
            buckets.work.wait(0.0, now);
            buckets.work.spend(f64::from(units));
        }
    }

    fn charge(&self, caller: CallerKey, cost: Charge, now: Instant) -> Result<(), Duration> {
        // Numbers are whole after every statement, so a panic elsewhere cannot have broken them.
        let mut limits = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Limits { machine, callers } = &mut *limits;
        if callers.len() >= MAX_CALLERS && !callers.contains_key(&caller) {
            callers.retain(|_, buckets| !buckets.is_full(now));
        }
        let own = if callers.len() < MAX_CALLERS || callers.contains_key(&caller) {
            Some(callers.entry(caller).or_insert_with(|| Buckets::new(1.0, now)))
        } else {
            None
        };
        let (mut wait, mut own) = (machine.wait(cost, now), own);
        if let Some(own) = &mut own {
            wait = wait.max(own.wait(cost, now));
        }
        if !wait.is_zero() {
            return Err(wait);
        }
        machine.spend(cost);
        if let Some(own) = own {
            own.spend(cost);
        }
        Ok(())
    }

    /// Charges a refused call, or an answer that reveals as much as one, to its caller.
    pub(crate) fn check_refusal_pace(&self, call: &PipelineCall) -> Result<(), Box<Refusal>> {
        if call.header.caller.endpoint.party() != EndpointParty::Agents {
            return Ok(());
        }
        let charged = self.admit_refusal(call.caller_key, Instant::now());
        charged.map_err(|wait| {
            let reason = "too many calls of this caller were refused";
            let refusal =
                Refusal::new(&call.tool_name, RefusalCode::RateLimited, reason).with_detail("refusals");
            let refusal = refusal.with_hint("nothing was run; try again later");
            Box::new(Refusal { retry_after_ms: Some(Throttled::from(wait).retry_after_ms), ..refusal })
        })
    }

    /// Answers a refused call: with its own refusal, or with `rate_limited` if too many calls of this caller were
    /// refused. The replaced refusal still counts for the mode rules, which `watch` evaluates.
    pub(crate) fn pace_refusal(
        &self,
        watch: &ModeWatch,
        call: &PipelineCall,
        refusal: Box<Refusal>,
    ) -> Box<Refusal> {
        match self.check_refusal_pace(call) {
            Ok(()) => refusal,
            Err(paced) => {
                watch.count_refused(call, &refusal);
                let hint = format!(
                    "wait {} ms; this call was refused with `{}`: {}",
                    paced.retry_after_ms.unwrap_or_default(),
                    refusal.code,
                    refusal.reason
                );
                Box::new(paced.with_hint(&hint))
            }
        }
    }
}

/// Token bucket: a burst, and a rate at which it refills. Time is an argument.
#[derive(Clone, Debug)]
pub(crate) struct TokenBucket {
    capacity: f64,
    per_second: f64,
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    pub(crate) fn new(capacity: f64, per_second: f64, now: Instant) -> Self {
        TokenBucket { capacity, per_second, tokens: capacity, at: now }
    }

    /// Time until `cost` can be spent; zero if it can be spent now.
    pub(crate) fn wait(&mut self, cost: f64, now: Instant) -> Duration {
        self.refill(now);
        // A request that costs more than the bucket holds is admitted when the bucket is full, because it
        // must not wait forever.
        let missing = cost.min(self.capacity) - self.tokens;
        if missing <= 0.0 {
            return Duration::ZERO;
        }
        Duration::try_from_secs_f64(missing / self.per_second).unwrap_or(Duration::MAX)
    }

    /// Spends `cost`. The bucket can go below zero, for which later requests wait.
    pub(crate) fn spend(&mut self, cost: f64) {
        self.tokens -= cost;
    }

    pub(crate) fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.capacity
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.capacity);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(throttle: &Throttle, pid: i32, cost: RequestCost, times: u32, now: Instant) -> u32 {
        let admit = |_: &u32| throttle.admit(CallerKey::of_pid(pid), cost, now).is_ok();
        u32::try_from((0..times).filter(admit).count()).unwrap()
    }

    #[test]
    fn session_floods_are_paced_per_caller_and_machine_wide() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(admitted(&throttle, 1, RequestCost::SessionOpen, 1000, start), 64);
        let wait = throttle.admit(CallerKey::of_pid(1), RequestCost::SessionOpen, start).unwrap_err();
        assert!((Duration::from_millis(1)..=Duration::from_millis(50)).contains(&wait), "{wait:?}");
        assert_eq!(
            admitted(&throttle, 1, RequestCost::SessionOpen, 1000, start + Duration::from_secs(1)),
            20
        );
        let later = start + Duration::from_secs(60);
        let all: u32 =
            (2..50).map(|pid| admitted(&throttle, pid, RequestCost::SessionOpen, 100, later)).sum();
        assert_eq!(all, 128, "however many processes ask");
    }

    #[test]
    fn ordinary_callers_are_not_limited() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for second in 0..600 {
            let now = start + Duration::from_secs(second);
            assert_eq!(admitted(&throttle, 1, RequestCost::Call, 1000, now), 1000, "reads");
            assert_eq!(admitted(&throttle, 1, RequestCost::SessionOpen, 5, now), 5, "sessions");
        }
    }

    #[test]
    fn large_replies_use_up_the_work_of_their_caller() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let list = 87_000;
        let served = (0..100_000).take_while(|_| {
            let admitted = throttle.admit(CallerKey::of_pid(1), RequestCost::Light, start).is_ok();
            throttle.charge_reply(CallerKey::of_pid(1), list, start);
            admitted
        });
        let served = served.count();
        assert!((10_000..12_000).contains(&served), "a gigabyte at once: {served}");
        let wait = throttle.admit(CallerKey::of_pid(1), RequestCost::Light, start).unwrap_err();
        assert!(wait < Duration::from_millis(10), "{wait:?}");
        assert!(throttle.admit(CallerKey::of_pid(2), RequestCost::Light, start).is_ok(), "another caller");
        throttle.charge_reply(CallerKey::of_pid(2), 500, start);
        assert_eq!(
            admitted(&throttle, 2, RequestCost::Call, 1000, start),
            1000,
            "short replies cost nothing more"
        );
    }

    #[test]
    fn memory_is_bounded_however_many_callers_come() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for pid in 0..5000 {
            let _ = throttle.admit(CallerKey::of_pid(pid), RequestCost::Light, now);
        }
        assert_eq!(throttle.0.lock().unwrap().callers.len(), MAX_CALLERS);
    }

    #[test]
    fn refusals_are_paced_per_caller() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let refused = |pid, now| {
            let admit = |_: &u32| throttle.admit_refusal(CallerKey::of_pid(pid), now).is_ok();
            (0..20_000).filter(admit).count()
        };
        assert_eq!(refused(1, start), 16_384);
        let wait = throttle.admit_refusal(CallerKey::of_pid(1), start).unwrap_err();
        assert!(wait <= Duration::from_millis(50), "{wait:?}");
        assert_eq!(refused(2, start), 16_384, "another caller is not affected");
        assert_eq!(refused(3, start), 0, "machine-wide");
        assert_eq!(refused(1, start + Duration::from_secs(1)), 20);
    }
}
