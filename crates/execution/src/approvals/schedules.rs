//! Tests of the whole pipeline under random orders of events: calls request approval, are approved, denied,
//! expire, are withdrawn and repeated by any client, the object that they would change is modified, the
//! policy is reloaded, and the daemon crashes at any point. The layer and the ledger are real; only the clock
//! is simulated.
//!
//! Invariant: a call is executed at most once, approved, in time, with an unchanged effect, and by a policy
//! that still allows it. Each test object has its own sequence of events, interleaved with those of others.
//! `SINEW_APPROVAL_SCHEDULES` sets the number of objects in each of nine campaigns (ten thousand in total by
//! default), `SINEW_APPROVAL_SEED` the seed.

mod stage;
mod truth;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tool::{Caller, Door, Progress, TraceContext};

use super::clock::later;
use super::dice::{Dice, Told};
use super::queue::Asked;
use crate::{Acceptance, Answer, Asking, Card, Request};
use stage::{Life, Stance, TOOL};
use truth::{Known, Truth, Yes};

/// Events per object, besides the call that requests approval and the events that concern all objects.
const EVENTS_EACH: usize = 2;
const CLIENTS: [&str; 2] = ["one", "other"];
/// Approval timeout of the policy, after which requests and unused approvals expire.
const LIMIT: Duration = Duration::from_secs(300);

/// Probabilities of a campaign.
#[derive(Clone, Copy)]
struct Odds {
    /// Concurrent objects.
    at_a_time: usize,
    /// Crashes and reloads per thousand events.
    crashes: usize,
    reloads: usize,
}

/// State of one campaign.
struct Schedule<'a> {
    odds: Odds,
    folder: &'a Path,
    dice: Dice,
    truth: Arc<Truth>,
    life: Option<Life>,
    stance: Stance,
    calls: Vec<JoinHandle<()>>,
    /// Names of the active objects and the number of events left for each.
    things: Vec<(String, usize)>,
    /// Object of each call, by its connection.
    about: BTreeMap<u64, String>,
}

fn caller(client: &str, connection: u64) -> Caller {
    Caller {
        uid: 501,
        pid: None,
        door: Door::Socket,
        connection,
        client: Some(client.to_owned()),
        session: None,
    }
}

/// Text of the fact with this label in an approval request.
fn said(card: &Card, label: &str) -> String {
    let mut facts = card.effect.iter().chain(&card.arguments);
    facts.find(|fact| fact.label == label).unwrap().text.clone()
}

impl Schedule<'_> {
    fn life(&self) -> &Life {
        self.life.as_ref().unwrap()
    }

    fn thing(&mut self) -> String {
        let n = self.dice.roll(self.things.len());
        self.things[n].1 = self.things[n].1.saturating_sub(1);
        self.things[n].0.clone()
    }

    fn note(&self, name: &str, what: impl Into<String>) {
        self.truth.known().note(name, what.into());
    }

    /// Notes an event that concerns every active object.
    fn note_all(&self, what: &str) {
        self.things.iter().for_each(|(name, _)| self.note(name, what));
    }

    /// Starts a call about an object, optionally with an approval id.
    fn call(&mut self, name: &str, client: &str, asking: Asking, approval_id: Option<String>) {
        let connection = self.about.last_key_value().map_or(1, |(last, _)| last + 1);
        self.about.insert(connection, name.to_owned());
        let withdrawn = CancellationToken::new();
        self.truth.known().withdrawn.insert(connection, withdrawn.clone());
        self.note(name, format!("call {connection} by {client}, {asking:?}, {approval_id:?}"));
        let request = Request {
            tool_name: TOOL.to_owned(),
            arguments: json!({"thing": name}),
            caller: caller(client, connection),
            trace: TraceContext::root(),
            deadline: None,
            cwd: None,
            progress: Progress::default(),
            started: Instant::now(),
            curated_map: crate::CuratedMap::Asked,
            idempotency_key: None,
            withdrawn,
            asking,
            approval_id,
        };
        let (layer, truth) = (Arc::clone(&self.life().layer), Arc::clone(&self.truth));
        let call = self.life().runtime.spawn(async move {
            let result = layer.execute(request).await;
            let refusal = result.metadata.refusal.as_ref();
            let result_name = refusal.map_or("done".to_owned(), |refusal| {
                refusal.detail.clone().unwrap_or_else(|| refusal.code.as_str().to_owned())
            });
            *truth.known().told.entry(result_name).or_default() += 1;
        });
        self.calls.retain(|call| !call.is_finished());
        // A call that does not wait for a decision always ends, however slow the disk is.
        if asking == Asking::Async && self.dice.roll(2) == 0 {
            self.life().runtime.block_on(call).unwrap();
        } else {
            self.calls.push(call);
        }
    }

    fn ask(&mut self, name: &str) {
        let asking = [Asking::Wait, Asking::Async][self.dice.roll(2)];
        self.call(name, CLIENTS[0], asking, None);
    }

    /// Repeats a call with an approval id: its own, one of another request or of another client, and
    /// sometimes twice.
    fn repeat(&mut self) {
        let name = self.thing();
        let of = if self.dice.roll(6) == 0 { self.thing() } else { name.clone() };
        let Some(id) = self.dice.pick(&self.questions(&of)).cloned() else { return };
        let client = CLIENTS[usize::from(self.dice.roll(5) == 0)];
        let asking = [Asking::Wait, Asking::Async][self.dice.roll(2)];
        for _ in 0..=self.dice.roll(4) / 3 {
            self.call(&name, client, asking, Some(id.clone()));
        }
    }

    /// Ids of all requests about an object that the queue remembers.
    fn questions(&self, name: &str) -> Vec<String> {
        let queue = self.life().layer.approvals.queue();
        let about = |asked: &Asked| self.about.get(&asked.terms.call.caller.connection);
        let its = queue.asked().into_iter().filter(|(_, asked)| about(asked).is_some_and(|of| of == name));
        its.map(|(id, _)| id.clone()).collect()
    }

    /// Picks an open request as the operator sees it.
    fn look(&mut self) -> Option<Card> {
        let ids: Vec<String> = {
            let queue = self.life().layer.approvals.queue();
            let open = queue.asked().into_iter().filter(|(_, asked)| asked.state.is_open());
            open.map(|(id, _)| id.clone()).collect()
        };
        let id = self.dice.pick(&ids)?;
        let life = self.life();
        life.runtime.block_on(life.layer.approval(id)).map(|listed| listed.card)
    }

    fn decide(&mut self, answer: Answer) {
        let Some(card) = self.look() else { return };
        let name = said(&card, "thing");
        self.things
            .iter_mut()
            .filter(|(thing, _)| *thing == name)
            .for_each(|(_, events)| *events = events.saturating_sub(1));
        self.note(&name, format!("{answer:?} to {}", card.id));
        let number = matches!(answer, Answer::Once).then(|| self.says_yes(&name, &card));
        let (layer, truth) = (Arc::clone(&self.life().layer), Arc::clone(&self.truth));
        let deciding = self.life().runtime.spawn(async move {
            let decided = layer.decide(&card.id, answer, &caller("human", 0), None).await;
            let until = later(truth.known().now, LIMIT);
            match (decided, number) {
                (Ok(_), Some(number)) => truth.is_said(&name, number, until),
                (Err(_), Some(number)) => truth.unsay(&name, number),
                (_, None) => {}
            }
        });
        if self.dice.roll(2) == 0 {
            self.life().runtime.block_on(deciding).unwrap();
        }
    }

    fn says_yes(&self, name: &str, card: &Card) -> usize {
        let client = CLIENTS.into_iter().find(|client| card.caller.starts_with(&json!(client).to_string()));
        self.truth.says_yes(name, |number| Yes {
            number,
            client: client.unwrap().to_owned(),
            shown: said(card, "state"),
            asked_by: card.asked_by.len(),
            until: None,
        })
    }

    fn end_a_call(&mut self) {
        match self.dice.roll(3) {
            0 => {
                let calls = self.life().layer.calls();
                let Some(call) = self.dice.pick(&calls) else { return };
                let life = self.life();
                life.runtime.block_on(life.layer.cancel(call.call_id));
                // The call has ended or is cancelled, so it must not start any more, and its token is marked
                // too.
                self.truth.known().withdrawn[&call.caller.connection].cancel();
            }
            1 => {
                let connections: Vec<u64> = self
                    .truth
                    .known()
                    .withdrawn
                    .keys()
                    .rev()
                    .take(2 * self.odds.at_a_time)
                    .copied()
                    .collect();
                let Some(connection) = self.dice.pick(&connections) else { return };
                self.truth.known().withdrawn[connection].cancel();
            }
            // The caller disconnects, and its request stays.
            _ => {
                let Some(call) = self.dice.pick(&self.calls) else { return };
                call.abort();
            }
        }
    }

    fn reload(&mut self) {
        use Stance::{Asks, AsksMore, Forbids};
        self.stance = *self.dice.pick(&[Asks, Asks, AsksMore, AsksMore, Forbids]).unwrap();
        self.note_all(&format!("reload: {:?}", self.stance));
        let life = self.life();
        let world = life.world(self.folder, self.stance);
        life.runtime.block_on(life.layer.reload(world, Vec::new(), &Acceptance::Always));
    }

    fn crash(&mut self) {
        self.note_all("crash");
        self.calls.clear();
        self.life.take().unwrap().crash();
        self.truth.crashes(LIMIT);
        self.life = Some(Life::begin(self.folder, &self.truth, self.stance));
    }

    fn step_of_one(&mut self) {
        match self.dice.roll(14) {
            0 => {
                let name = self.thing();
                self.ask(&name);
            }
            1..6 => self.decide(Answer::Once),
            6 => self.decide(Answer::Deny(None)),
            7..11 => self.repeat(),
            11 => {
                let (name, state) = (self.thing(), self.dice.roll(2));
                self.note(&name, format!("its state is {state} now"));
                self.truth.known().things.entry(name).or_default().state = state;
            }
            12 => {
                let time = LIMIT / 4 * u32::try_from(1 + self.dice.roll(3)).unwrap();
                self.note_all(&format!("{time:?} pass"));
                self.life().pass(time);
            }
            _ => self.end_a_call(),
        }
    }

    fn step(&mut self) {
        let Odds { crashes, reloads, .. } = self.odds;
        match self.dice.roll(1000) {
            roll if roll < crashes => self.crash(),
            roll if roll < crashes + reloads => self.reload(),
            _ => self.step_of_one(),
        }
        // Calls advance by a number of polls, which is little if one waits for the disk.
        let turns = self.dice.roll(12);
        self.life().runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
        let wrong = std::mem::take(&mut self.truth.known().wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Runs the events of every object.
    fn play(mut self, things: usize) {
        let mut begun = 0;
        loop {
            self.things.retain(|(_, events)| *events > 0);
            while self.things.len() < self.odds.at_a_time && begun < things {
                begun += 1;
                let name = format!("thing {begun}");
                self.things.push((name.clone(), EVENTS_EACH));
                self.ask(&name);
            }
            if self.things.is_empty() {
                break;
            }
            self.step();
        }
        self.life.take().unwrap().crash();
        let wrong = std::mem::take(&mut self.truth.known().wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// In memory if possible: disk latency would dominate the run time.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

fn play(odds: Odds) {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let schedules = usize::try_from(number("SINEW_APPROVAL_SCHEDULES", 1120)).unwrap();
    let seed = number("SINEW_APPROVAL_SEED", 1);
    let _report = Told(seed);
    let (folder, truth) = (folder(), Arc::new(Truth::default()));
    // Ahead of every wall clock, so that only the test advances it.
    truth.known().now = later(jiff::Timestamp::now(), Duration::from_secs(24 * 60 * 60));
    let schedule = Schedule {
        odds,
        folder: folder.path(),
        dice: Dice::of(seed),
        truth: Arc::clone(&truth),
        life: Some(Life::begin(folder.path(), &truth, Stance::Asks)),
        stance: Stance::Asks,
        calls: Vec::new(),
        things: Vec::new(),
        about: BTreeMap::new(),
    };
    schedule.play(schedules);
    let Known { executed, told, .. } = &*truth.known();
    let summary = format!("{executed} of {schedules} executed, results {told:?}");
    eprintln!("{summary}");
    assert!(executed * 20 > schedules, "too few schedules execute a call: {summary}");
    let results = ["done", "asked", "denied_by_user", "timed_out", "approval_used", "approval_mismatch"];
    for expected in results.into_iter().chain(["approval_unknown", "cancelled"]) {
        assert!(told.contains_key(expected), "no schedule ended with `{expected}`: {summary}");
    }
}

/// One test per campaign, so that they run in parallel.
macro_rules! executed_at_most_once_and_only_as_approved {
    ($($name:ident: $at_a_time:literal at a time, $crashes:literal crashes, $reloads:literal reloads;)*) => {$(
        #[test]
        fn $name() {
            play(Odds { at_a_time: $at_a_time, crashes: $crashes, reloads: $reloads });
        }
    )*};
}

executed_at_most_once_and_only_as_approved! {
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
