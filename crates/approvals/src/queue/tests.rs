//! Tests of the state machine under random orders of events: requests, decisions, expiry, withdrawal, reload,
//! use by any caller, and a crash at any point, before or after the disk write.

use std::collections::BTreeMap;

use ledger::entry::ApprovalEventEntry;
use tool::caller::{CallerKey, ProcessIdentity};
use tool::{CallId, CallerEndpoint, Mode, TraceContext};

use super::*;
use crate::schedule_rng::{SchedulePanicReport, ScheduleRng};

/// Process with this number, which runs no more.
fn process(n: usize) -> CallerKey {
    CallerKey::Process(ProcessIdentity { pid: i32::try_from(n).unwrap(), started: Some(1) })
}

fn caller(n: usize) -> Caller {
    let session = (n > 0).then(|| format!("s{n}"));
    Caller {
        uid: 501,
        pid: None,
        endpoint: CallerEndpoint::Mcp,
        connection: 1,
        client: None,
        session,
        account: Some(process(n)),
    }
}

fn terms(owner: usize, rules: &[&str], requested_at: i64, expires_at: i64) -> RequestTerms {
    let call = ledger::CallHeader {
        call_id: CallId::fresh(),
        tool: "write_file".to_owned(),
        mode: Mode::Alert,
        caller: Arc::new(caller(owner)),
        trace: TraceContext::root(),
    };
    RequestTerms {
        call: Arc::new(call),
        rules: rules.iter().map(|rule| (*rule).to_owned()).collect(),
        request_digest: String::new(),
        requested_at: at(requested_at),
        expires_at: at(expires_at),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// Expected state of a request, tracked independently of the queue.
#[derive(Clone, Debug)]
struct ExpectedRequest {
    owner: usize,
    digest: usize,
    asked_by: usize,
    expires: i64,
    granted_until: Option<i64>,
    ended: bool,
    executed: u32,
}

/// Model of the surroundings of the queue: the disk, the clock, the effect of calls and the rules.
struct QueueModel {
    queue: ApprovalQueue,
    /// Ledger entries on disk.
    disk: Vec<ApprovalEventEntry>,
    now: i64,
    /// Current effect of a call; another number is another effect.
    effect: usize,
    /// Number of rules that require approval now.
    rules: usize,
    forbidden: bool,
    expected: BTreeMap<String, ExpectedRequest>,
}

const RULES: [&str; 3] = ["tools", "modes", "safety"];

impl QueueModel {
    /// Writes a change to disk and applies it, or crashes before or after the write.
    fn commit(&mut self, approval: ApprovalEventEntry, dice: &mut ScheduleRng) -> bool {
        match dice.next_below(40) {
            0 => {
                self.crash();
                false
            }
            1 => {
                self.disk.push(approval);
                self.crash();
                false
            }
            _ => {
                self.queue.apply(&approval);
                self.disk.push(approval);
                true
            }
        }
    }

    /// Drops the state in memory and restores it from the entries on disk.
    fn crash(&mut self) {
        self.queue = ApprovalQueue::default();
        for approval in &self.disk {
            self.queue.apply(approval);
        }
    }

    fn digest(&self) -> String {
        format!("effect {}", self.effect)
    }

    /// Runs a call that presents an approval through the pipeline: judged by the current rules, then the
    /// approval is used.
    fn call(&mut self, id: &str, client: usize, dice: &mut ScheduleRng) {
        if self.forbidden {
            return;
        }
        let digest = self.digest();
        let rules: Vec<String> = RULES[..self.rules].iter().map(|rule| (*rule).to_owned()).collect();
        let caller = caller(client);
        let claim = ApprovalClaim { caller: &caller, digest: &digest, rules: &rules };
        let Ok(used) = self.queue.propose_use(id, claim, at(self.now)) else { return };
        if !self.commit(used, dice) {
            return;
        }
        let truth = self.expected.get_mut(id).expect("only a requested approval is used");
        truth.executed += 1;
        assert_eq!(truth.executed, 1, "executed at most once");
        assert!(truth.granted_until.is_some_and(|until| self.now < until), "only if approved, and unexpired");
        assert!(!truth.ended, "only if not denied or withdrawn");
        assert_eq!(truth.digest, self.effect, "only if unchanged");
        assert_eq!(truth.owner, client, "only for its caller");
        assert!(self.rules <= truth.asked_by, "only if no further rule requires approval");
    }

    fn step(&mut self, dice: &mut ScheduleRng) {
        let ids: Vec<String> = self.expected.keys().cloned().collect();
        let id = dice.pick(&ids).cloned().unwrap_or_else(|| "none".to_owned());
        match dice.next_below(12) {
            0 if ids.len() < 4 => self.ask(dice),
            1 | 2 => {
                let until = self.now + 5;
                if let Ok(granted) = self.queue.propose_grant(&id, "human", at(self.now), at(until)) {
                    let truth = self.expected.get_mut(&id).unwrap();
                    assert!(truth.granted_until.is_none() && !truth.ended, "the first decision is final");
                    assert!(self.now < truth.expires, "an expired request is not approved");
                    let on_disk = self.disk.len();
                    self.commit(granted, dice);
                    if self.disk.len() > on_disk {
                        self.expected.get_mut(&id).unwrap().granted_until = Some(until);
                    }
                }
            }
            3 => {
                if let Ok(denied) = self.queue.propose_denial(&id, "human", at(self.now), None) {
                    assert!(self.expected[&id].granted_until.is_none(), "the first decision is final");
                    self.end(&id, denied, dice);
                }
            }
            4 => {
                if let Some(void) = self.queue.propose_void(&id, "withdrawn") {
                    self.end(&id, void, dice);
                }
            }
            5 => {
                for expired in self.queue.propose_expiries(at(self.now)) {
                    let id = expired.id.clone();
                    let truth = &self.expected[&id];
                    let end = truth.granted_until.unwrap_or(truth.expires);
                    assert!(end <= self.now, "nothing expires early");
                    self.end(&id, expired, dice);
                }
            }
            6 => self.now += i64::try_from(dice.next_below(4)).unwrap(),
            7 => self.effect = dice.next_below(2),
            8 => self.rules = 1 + dice.next_below(3),
            9 => self.forbidden = dice.next_below(3) == 0,
            10 if dice.next_below(4) == 0 => self.crash(),
            _ => {
                let client = dice.next_below(2);
                self.call(&id, client, dice);
            }
        }
    }

    fn ask(&mut self, dice: &mut ScheduleRng) {
        let id = format!("{}-{}", self.expected.len(), dice.next_below(1_000_000));
        let owner = dice.next_below(2);
        let terms = terms(owner, &RULES[..self.rules], self.now, self.now + 4);
        let requested = self.queue.propose_request(&id, &self.digest(), &terms).unwrap();
        let on_disk = self.disk.len();
        self.commit(requested, dice);
        if self.disk.len() > on_disk {
            let truth = ExpectedRequest {
                owner,
                digest: self.effect,
                asked_by: self.rules,
                expires: self.now + 4,
                granted_until: None,
                ended: false,
                executed: 0,
            };
            self.expected.insert(id, truth);
        }
    }

    fn end(&mut self, id: &str, approval: ApprovalEventEntry, dice: &mut ScheduleRng) {
        let on_disk = self.disk.len();
        self.commit(approval, dice);
        if self.disk.len() > on_disk {
            self.expected.get_mut(id).unwrap().ended = true;
        }
    }
}

#[test]
fn executed_once_and_only_if_approved_and_unchanged() {
    let (mut executed, mut asked) = (0_u64, 0_u64);
    for schedule in 1..=2_000_u64 {
        let _report = SchedulePanicReport(schedule);
        let mut dice = ScheduleRng::from_seed(schedule);
        let mut model = QueueModel {
            queue: ApprovalQueue::default(),
            disk: Vec::new(),
            now: 1_000_000,
            effect: 0,
            rules: 1,
            forbidden: false,
            expected: BTreeMap::new(),
        };
        for _ in 0..30 {
            model.step(&mut dice);
        }
        asked += model.expected.len() as u64;
        executed += model.expected.values().map(|truth| u64::from(truth.executed)).sum::<u64>();
    }
    assert!(executed > 100, "too few schedules execute a call: {executed} of {asked}");
}

#[test]
fn one_caller_or_user_cannot_fill_the_queue() {
    let mut queue = ApprovalQueue::default();
    for n in 0..OPEN_SHARE.per_caller {
        let requested = queue.propose_request(&n.to_string(), "d", &terms(0, &[], 0, 10)).unwrap();
        queue.apply(&requested);
    }
    assert_eq!(
        queue.propose_request("more", "d", &terms(0, &[], 0, 10)).unwrap_err(),
        CapacityError::Caller(OPEN_SHARE.per_caller)
    );
    assert!(
        queue.propose_request("more", "d", &terms(0, &[], 10, 20)).is_ok(),
        "an expired request does not count"
    );
    // A different process for each request is still the same user.
    for n in OPEN_SHARE.per_caller..OPEN_SHARE.per_user {
        let requested = queue.propose_request(&n.to_string(), "d", &terms(n, &[], 0, 10)).unwrap();
        queue.apply(&requested);
    }
    assert_eq!(
        queue.propose_request("more", "d", &terms(99, &[], 0, 10)).unwrap_err(),
        CapacityError::User(OPEN_SHARE.per_user)
    );
}

#[test]
fn busy_clients_leave_capacity_to_new_clients() {
    let mut queue = ApprovalQueue::default();
    let mut ask = |id: &str, client: usize| {
        let requested = queue.propose_request(id, "d", &terms(client, &[], 0, 10))?;
        queue.apply(&requested);
        Ok::<(), CapacityError>(())
    };
    let taken: Vec<usize> =
        [1, 2].map(|one| (0..99).take_while(|n| ask(&format!("{one} {n}"), one).is_ok()).count()).to_vec();
    assert_eq!(
        taken,
        [OPEN_SHARE.per_caller, OPEN_SHARE.per_user - OPEN_SHARE.reserved - OPEN_SHARE.per_caller]
    );
    for client in 3..3 + OPEN_SHARE.reserved {
        assert_eq!(ask(&format!("{client} first"), client), Ok(()), "it has no request yet");
        assert!(ask(&format!("{client} second"), client).is_err());
    }
    assert_eq!(ask("last", 99), Err(CapacityError::User(OPEN_SHARE.per_user)));
}

#[test]
fn closed_requests_are_forgotten_in_order() {
    let mut queue = ApprovalQueue::default();
    for n in 0..1000 {
        let id = n.to_string();
        let requested = queue.propose_request(&id, "d", &terms(0, &[], 0, 10)).unwrap();
        queue.apply(&requested);
        let denied = queue.propose_denial(&id, "human", at(1), Some("no")).unwrap();
        queue.apply(&denied);
    }
    assert_eq!(queue.requests().len(), MAX_CLOSED, "memory is bounded");
    let error = queue.find_usable("999", &caller(0), at(1)).unwrap_err();
    assert_eq!(error, UnusableApproval::Denied(Some("no".to_owned())), "the latest ones are still reported");
}

#[test]
fn open_request_is_found_by_its_process_and_a_denial_by_all() {
    let of_process =
        |pid| Caller { account: Some(CallerKey::of_pid(pid)), client: Some("a".to_owned()), ..caller(0) };
    let mut queue = ApprovalQueue::default();
    let mut terms = terms(0, &[], 0, 100);
    let header =
        ledger::CallHeader { caller: Arc::new(of_process(1)), ..ledger::CallHeader::clone(&terms.call) };
    terms.call = Arc::new(header);
    queue.apply(&queue.propose_request("q", "digest", &terms).unwrap());
    let found = |queue: &ApprovalQueue, caller: &Caller| {
        queue.find_earlier("digest", caller, (at(1), at(0))).map(|(id, _)| id.clone())
    };
    let renamed = Caller { client: Some("b".to_owned()), session: Some("s".to_owned()), ..of_process(1) };
    let stranger = Caller { client: Some("b".to_owned()), ..of_process(3) };
    assert_eq!(found(&queue, &of_process(1)).as_deref(), Some("q"));
    assert_eq!(found(&queue, &of_process(2)), None, "a process that copied the name");
    queue.apply(&queue.propose_grant("q", "operator", at(1), at(50)).unwrap());
    assert_eq!(found(&queue, &of_process(1)).as_deref(), Some("q"));
    assert_eq!(found(&queue, &of_process(2)), None, "it cannot use the approval either");
    assert!(queue.find_usable("q", &of_process(2), at(2)).is_ok(), "with the id, the restarted client can");
    assert_eq!(queue.find_usable("q", &stranger, at(2)).map(|_| ()), Err(UnusableApproval::Unknown));

    queue.apply(
        &queue.propose_request("no", "digest", &RequestTerms { requested_at: at(2), ..terms }).unwrap(),
    );
    queue.apply(&queue.propose_denial("no", "operator", at(3), None).unwrap());
    let after =
        |caller: &Caller| queue.find_earlier("digest", caller, (at(4), at(0))).map(|(id, _)| id.clone());
    assert_eq!(after(&of_process(2)).as_deref(), Some("no"), "a restart does not repeat a denied question");
    assert_eq!(
        after(&renamed).as_deref(),
        Some("no"),
        "nor does another name or worker session of the process"
    );
    assert_eq!(after(&stranger), None);
}
