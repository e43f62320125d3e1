//! Tests of the whole pipeline under random orders of events. Calls request approval, are approved, denied,
//! expire, are withdrawn and repeated by any client. The object that they would change is modified, the
//! policy is reloaded, and the daemon crashes at any point. The layer and the ledger are real; only the clock
//! is simulated.
//!
//! Invariant: a call is executed at most once, approved, in time, with an unchanged effect, and by a policy
//! that still allows it. Each test object has its own sequence of events, interleaved with those of others.
//! `SINEW_APPROVAL_SCHEDULES` sets the number of objects in each of nine campaigns (ten thousand in total by
//! default), `SINEW_APPROVAL_SEED` the seed.

mod harness;
mod oracle;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use approvals::{ApprovalMode, ApprovalRequest, OperatorDecision};
use jiff::Timestamp;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tool::{Caller, CallerEndpoint, Progress, TraceContext};

use crate::reload::Acceptance;
use crate::schedule_rng::{SchedulePanicReport, ScheduleRng};
use crate::{CallRequest, ConnectionLoss};
use harness::{DaemonRun, PolicyVariant, TOOL};
use oracle::{ApprovalOracle, ExpectedApproval, OracleState};

/// Events per object, besides the call that requests approval and the events that concern all objects.
const EVENTS_PER_OBJECT: usize = 2;
const CLIENTS: [&str; 2] = ["one", "other"];
/// Approval timeout of the policy, after which requests and unused approvals expire.
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(300);

/// Adds a duration to a time that is far from the end of the calendar.
fn later(from: Timestamp, by: Duration) -> Timestamp {
    from.checked_add(by).unwrap()
}

/// Probabilities of a campaign.
#[derive(Clone, Copy)]
struct EventOdds {
    /// Concurrent objects.
    concurrent_objects: usize,
    /// Crashes and reloads per thousand events.
    crashes: usize,
    reloads: usize,
}

/// State of one campaign.
struct Schedule<'a> {
    odds: EventOdds,
    folder: &'a Path,
    rng: ScheduleRng,
    oracle: Arc<ApprovalOracle>,
    daemon: Option<DaemonRun>,
    policy_variant: PolicyVariant,
    calls: Vec<JoinHandle<()>>,
    /// Names of the active objects and the number of events left for each.
    objects: Vec<(String, usize)>,
    /// Object of each call, by its connection.
    object_by_connection: BTreeMap<u64, String>,
}

fn caller(client: &str, connection: u64) -> Caller {
    Caller {
        uid: 501,
        pid: None,
        endpoint: CallerEndpoint::Socket,
        connection,
        client: Some(client.to_owned()),
        session: None,
        account: None,
    }
}

/// Text of the fact with this label in an approval request.
fn fact_text(approval_request: &ApprovalRequest, label: &str) -> String {
    let mut facts = approval_request.effect.iter().chain(&approval_request.arguments);
    facts.find(|fact| fact.label == label).unwrap().text.clone()
}

impl Schedule<'_> {
    fn daemon(&self) -> &DaemonRun {
        self.daemon.as_ref().unwrap()
    }

    fn pick_object(&mut self) -> String {
        let n = self.rng.next_below(self.objects.len());
        self.objects[n].1 = self.objects[n].1.saturating_sub(1);
        self.objects[n].0.clone()
    }

    fn note(&self, name: &str, what: impl Into<String>) {
        self.oracle.lock().note(name, what.into());
    }

    /// Notes an event that concerns every active object.
    fn note_all(&self, what: &str) {
        self.objects.iter().for_each(|(name, _)| self.note(name, what));
    }

    /// Starts a call about an object, optionally with an approval id.
    fn call(&mut self, name: &str, client: &str, asking: ApprovalMode, approval_id: Option<String>) {
        let connection = self.object_by_connection.last_key_value().map_or(1, |(last, _)| last + 1);
        self.object_by_connection.insert(connection, name.to_owned());
        let withdrawn = CancellationToken::new();
        self.oracle.lock().withdrawn.insert(connection, withdrawn.clone());
        self.note(name, format!("call {connection} by {client}, {asking:?}, {approval_id:?}"));
        let request = CallRequest {
            tool_name: TOOL.to_owned(),
            arguments: json!({"thing": name}),
            caller: caller(client, connection),
            trace: TraceContext::root(),
            deadline: None,
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: crate::CuratedMapCheck::Applied,
            idempotency_key: None,
            cancellation: withdrawn,
            approval_mode: asking,
            approval_id,
            connection_loss: ConnectionLoss::StopsCall,
        };
        let (layer, truth) = (Arc::clone(&self.daemon().layer), Arc::clone(&self.oracle));
        let call = self.daemon().runtime.spawn(async move {
            let result = layer.execute(request).await;
            let refusal = result.metadata.refusal.as_ref();
            let result_name = refusal.map_or("done".to_owned(), |refusal| {
                refusal.detail.clone().unwrap_or_else(|| refusal.code.as_str().to_owned())
            });
            *truth.lock().results.entry(result_name).or_default() += 1;
        });
        self.calls.retain(|call| !call.is_finished());
        // A call that does not wait for a decision always ends, however slow the disk is.
        if asking == ApprovalMode::Async && self.rng.next_below(2) == 0 {
            self.daemon().runtime.block_on(call).unwrap();
        } else {
            self.calls.push(call);
        }
    }

    fn ask(&mut self, name: &str) {
        let asking = [ApprovalMode::Wait, ApprovalMode::Async][self.rng.next_below(2)];
        self.call(name, CLIENTS[0], asking, None);
    }

    /// Repeats a call with an approval id: its own, one of another request or of another client, and
    /// sometimes twice.
    fn repeat(&mut self) {
        let name = self.pick_object();
        let of = if self.rng.next_below(6) == 0 { self.pick_object() } else { name.clone() };
        let Some(id) = self.rng.pick(&self.request_ids(&of)).cloned() else { return };
        let client = CLIENTS[usize::from(self.rng.next_below(5) == 0)];
        let asking = [ApprovalMode::Wait, ApprovalMode::Async][self.rng.next_below(2)];
        for _ in 0..=self.rng.next_below(4) / 3 {
            self.call(&name, client, asking, Some(id.clone()));
        }
    }

    /// Ids of all requests about an object that the queue remembers.
    fn request_ids(&self, name: &str) -> Vec<String> {
        let of_object = |connection: u64| self.object_by_connection.get(&connection).map(String::as_str);
        let approvals = &self.daemon().layer.approvals;
        approvals.request_ids(|call, _| of_object(call.caller.connection) == Some(name))
    }

    /// Picks an open request as the operator sees it.
    fn pick_open_request(&mut self) -> Option<ApprovalRequest> {
        let ids = self.daemon().layer.approvals.request_ids(|_, is_open| is_open);
        let id = self.rng.pick(&ids)?;
        let life = self.daemon();
        life.runtime.block_on(life.layer.approvals.get(id)).map(|listed| listed.request)
    }

    fn decide(&mut self, answer: OperatorDecision) {
        let Some(approval_request) = self.pick_open_request() else { return };
        let name = fact_text(&approval_request, "thing");
        self.objects
            .iter_mut()
            .filter(|(thing, _)| *thing == name)
            .for_each(|(_, events)| *events = events.saturating_sub(1));
        self.note(&name, format!("{answer:?} to {}", approval_request.id));
        let number = matches!(answer, OperatorDecision::ApproveOnce)
            .then(|| self.record_approval(&name, &approval_request));
        let (layer, truth) = (Arc::clone(&self.daemon().layer), Arc::clone(&self.oracle));
        let deciding = self.daemon().runtime.spawn(async move {
            let decided = layer.decide(&approval_request.id, answer, &caller("human", 0), None).await;
            let until = later(truth.lock().now, APPROVAL_TIMEOUT);
            match (decided, number) {
                (Ok(_), Some(number)) => truth.confirm_approval(&name, number, until),
                (Err(_), Some(number)) => truth.retract_approval(&name, number),
                (_, None) => {}
            }
        });
        if self.rng.next_below(2) == 0 {
            self.daemon().runtime.block_on(deciding).unwrap();
        }
    }

    fn record_approval(&self, name: &str, approval_request: &ApprovalRequest) -> usize {
        let client = CLIENTS
            .into_iter()
            .find(|client| approval_request.caller.starts_with(&json!(client).to_string()));
        self.oracle.record_approval(name, |number| ExpectedApproval {
            number,
            client: client.unwrap().to_owned(),
            shown: fact_text(approval_request, "state"),
            rule_count: approval_request.asked_by.len(),
            until: None,
        })
    }

    fn end_call(&mut self) {
        match self.rng.next_below(3) {
            0 => {
                let calls = self.daemon().layer.calls();
                let Some(call) = self.rng.pick(&calls) else { return };
                let life = self.daemon();
                life.runtime.block_on(life.layer.cancel(call.call_id));
                // The call has ended or is cancelled, so it must not start any more, and its token is marked
                // too.
                self.oracle.lock().withdrawn[&call.caller.connection].cancel();
            }
            1 => {
                let connections: Vec<u64> = self
                    .oracle
                    .lock()
                    .withdrawn
                    .keys()
                    .rev()
                    .take(2 * self.odds.concurrent_objects)
                    .copied()
                    .collect();
                let Some(connection) = self.rng.pick(&connections) else { return };
                self.oracle.lock().withdrawn[connection].cancel();
            }
            // The caller disconnects, and its request stays.
            _ => {
                let Some(call) = self.rng.pick(&self.calls) else { return };
                call.abort();
            }
        }
    }

    fn reload(&mut self) {
        use PolicyVariant::{Asks, AsksMore, Forbids};
        self.policy_variant = *self.rng.pick(&[Asks, Asks, AsksMore, AsksMore, Forbids]).unwrap();
        self.note_all(&format!("reload: {:?}", self.policy_variant));
        let life = self.daemon();
        let snapshot = life.snapshot(self.folder, self.policy_variant);
        life.runtime.block_on(life.layer.reload(snapshot, Vec::new(), &Acceptance::Always));
    }

    fn crash(&mut self) {
        self.note_all("crash");
        self.calls.clear();
        self.daemon.take().unwrap().crash();
        self.oracle.record_crash(APPROVAL_TIMEOUT);
        self.daemon = Some(DaemonRun::start(self.folder, &self.oracle, self.policy_variant));
    }

    fn step_one_object(&mut self) {
        match self.rng.next_below(14) {
            0 => {
                let name = self.pick_object();
                self.ask(&name);
            }
            1..6 => self.decide(OperatorDecision::ApproveOnce),
            6 => self.decide(OperatorDecision::Deny(None)),
            7..11 => self.repeat(),
            11 => {
                let (name, state) = (self.pick_object(), self.rng.next_below(2));
                self.note(&name, format!("its state is {state} now"));
                self.oracle.lock().objects.entry(name).or_default().state = state;
            }
            12 => {
                let time = APPROVAL_TIMEOUT / 4 * u32::try_from(1 + self.rng.next_below(3)).unwrap();
                self.note_all(&format!("{time:?} pass"));
                self.daemon().advance(time);
            }
            _ => self.end_call(),
        }
    }

    fn step(&mut self) {
        let EventOdds { crashes, reloads, .. } = self.odds;
        match self.rng.next_below(1000) {
            roll if roll < crashes => self.crash(),
            roll if roll < crashes + reloads => self.reload(),
            _ => self.step_one_object(),
        }
        // Calls advance by a number of polls, which is little if one waits for the disk.
        let turns = self.rng.next_below(12);
        self.daemon().runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
        let wrong = std::mem::take(&mut self.oracle.lock().violations);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Runs the events of every object.
    fn run(mut self, things: usize) {
        let mut begun = 0;
        loop {
            self.objects.retain(|(_, events)| *events > 0);
            while self.objects.len() < self.odds.concurrent_objects && begun < things {
                begun += 1;
                let name = format!("thing {begun}");
                self.objects.push((name.clone(), EVENTS_PER_OBJECT));
                self.ask(&name);
            }
            if self.objects.is_empty() {
                break;
            }
            self.step();
        }
        self.daemon.take().unwrap().crash();
        let wrong = std::mem::take(&mut self.oracle.lock().violations);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// In memory if possible: disk latency would dominate the run time.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

fn run_campaign(odds: EventOdds) {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let schedules = usize::try_from(number("SINEW_APPROVAL_SCHEDULES", 1120)).unwrap();
    let seed = number("SINEW_APPROVAL_SEED", 1);
    let _report = SchedulePanicReport(seed);
    let (folder, truth) = (folder(), Arc::new(ApprovalOracle::default()));
    // Ahead of every wall clock, so that only the test advances it.
    truth.lock().now = later(Timestamp::now(), Duration::from_secs(24 * 60 * 60));
    let schedule = Schedule {
        odds,
        folder: folder.path(),
        rng: ScheduleRng::from_seed(seed),
        oracle: Arc::clone(&truth),
        daemon: Some(DaemonRun::start(folder.path(), &truth, PolicyVariant::Asks)),
        policy_variant: PolicyVariant::Asks,
        calls: Vec::new(),
        objects: Vec::new(),
        object_by_connection: BTreeMap::new(),
    };
    schedule.run(schedules);
    let OracleState { executed, results: reported, .. } = &*truth.lock();
    let summary = format!("{executed} of {schedules} executed, results {reported:?}");
    eprintln!("{summary}");
    assert!(executed * 20 > schedules, "too few schedules execute a call: {summary}");
    let results = ["done", "asked", "denied_by_user", "timed_out", "approval_used", "approval_mismatch"];
    for expected in results.into_iter().chain(["approval_unknown", "cancelled"]) {
        assert!(reported.contains_key(expected), "no schedule ended with `{expected}`: {summary}");
    }
}

/// One test per campaign, so that they run in parallel.
macro_rules! campaigns {
    ($($name:ident: $at_a_time:literal at a time, $crashes:literal crashes, $reloads:literal reloads;)*) => {$(
        #[test]
        fn $name() {
            run_campaign(EventOdds { concurrent_objects: $at_a_time, crashes: $crashes, reloads: $reloads });
        }
    )*};
}

campaigns! {
    executed_as_approved_single: 1 at a time, 1 crashes, 3 reloads;
    executed_as_approved_single_with_crashes: 1 at a time, 10 crashes, 3 reloads;
    executed_as_approved_single_with_reloads: 1 at a time, 1 crashes, 30 reloads;
    executed_as_approved_few: 6 at a time, 1 crashes, 3 reloads;
    executed_as_approved_few_with_crashes: 6 at a time, 10 crashes, 3 reloads;
    executed_as_approved_few_with_reloads: 6 at a time, 1 crashes, 30 reloads;
    executed_as_approved_many: 16 at a time, 1 crashes, 3 reloads;
    executed_as_approved_many_with_crashes: 16 at a time, 10 crashes, 3 reloads;
    executed_as_approved_many_with_reloads: 16 at a time, 1 crashes, 30 reloads;
}
