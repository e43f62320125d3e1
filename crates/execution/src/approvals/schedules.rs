//! The whole road under every order of events that chance comes up with: calls ask, are approved, denied, run out, taken
//! back, repeated by whoever, the thing they would change is another by then, the rules are reloaded, and the daemon
//! dies at any moment. It is the real layer on a real ledger; only the clock is the test's.
//!
//! What is executed is executed once, approved, in time, unchanged, and by rules that still allow it. Each thing has its
//! own order of events; others are under way meanwhile. `SINEW_APPROVAL_SCHEDULES` sets how many things each of nine
//! campaigns has (ten thousand together if it is not set), `SINEW_APPROVAL_SEED` where the dice begin.

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

/// How many events each thing is given beside the call that asks, and beside those that concern all.
const EVENTS_EACH: usize = 2;
const CLIENTS: [&str; 2] = ["one", "other"];
/// As long as the rules say; then a question, and an unused answer, has run out.
const LIMIT: Duration = Duration::from_secs(300);

/// What is likely.
#[derive(Clone, Copy)]
struct Odds {
    /// Things under way at a time.
    at_a_time: usize,
    /// Of a thousand events, so many are the end of the daemon, and so many a reload.
    crashes: usize,
    reloads: usize,
}

/// The events of one folder.
struct Schedule<'a> {
    odds: Odds,
    folder: &'a Path,
    dice: Dice,
    truth: Arc<Truth>,
    life: Option<Life>,
    stance: Stance,
    calls: Vec<JoinHandle<()>>,
    /// The names of the things under way, and how many events each still has.
    things: Vec<(String, usize)>,
    /// What each call is about, by its connection.
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

/// What a card says that somebody put there: the text behind a label.
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

    /// Something that concerns everything under way.
    fn note_all(&self, what: &str) {
        self.things.iter().for_each(|(name, _)| self.note(name, what));
    }

    /// A call about a thing, with or without an answer that it brings along.
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
            let told = refusal.map_or("done".to_owned(), |refusal| {
                refusal.detail.clone().unwrap_or_else(|| refusal.code.as_str().to_owned())
            });
            *truth.known().told.entry(told).or_default() += 1;
        });
        self.calls.retain(|call| !call.is_finished());
        // One that waits for nobody comes to its end, however slow the disk is.
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

    /// Somebody comes with an answer: the one it has, one to another question, its own or somebody else's, and more
    /// than once.
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

    /// The questions that were ever asked about a thing, as far as the queue remembers.
    fn questions(&self, name: &str) -> Vec<String> {
        let queue = self.life().layer.approvals.queue();
        let about = |asked: &Asked| self.about.get(&asked.terms.call.caller.connection);
        let its = queue.asked().into_iter().filter(|(_, asked)| about(asked).is_some_and(|of| of == name));
        its.map(|(id, _)| id.clone()).collect()
    }

    /// A question that the operator sees.
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
                // It has ended or was told to: it is not begun any more, and no other word is needed.
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
            // The caller goes away, and its question stays.
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
                self.note(&name, format!("it is {state} now"));
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
        // As far as the calls come in so many turns, which is not far where one waits for the disk.
        let turns = self.dice.roll(12);
        self.life().runtime.block_on(async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
        });
        let wrong = std::mem::take(&mut self.truth.known().wrong);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    /// Gives every thing its events.
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

/// In memory where that can be had: the disk's own time would be most of the test's.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}

fn play(odds: Odds) {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().unwrap());
    let schedules = usize::try_from(number("SINEW_APPROVAL_SCHEDULES", 1120)).unwrap();
    let seed = number("SINEW_APPROVAL_SEED", 1);
    let _told = Told(seed);
    let (folder, truth) = (folder(), Arc::new(Truth::default()));
    // Ahead of every clock on the wall, so that it goes only as the test says.
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
    let seen = format!("{executed} of {schedules} executed, and told {told:?}");
    eprintln!("{seen}");
    assert!(executed * 20 > schedules, "the schedules reach what they are to show: {seen}");
    let ways = ["done", "asked", "denied_by_user", "timed_out", "approval_used", "approval_mismatch"];
    for way in ways.into_iter().chain(["approval_unknown", "cancelled"]) {
        assert!(told.contains_key(way), "no schedule came to `{way}`: {seen}");
    }
}

/// One campaign each: side by side they take the time of one.
macro_rules! executed_at_most_once_and_only_as_approved {
    ($($name:ident: $at_a_time:literal at a time, $crashes:literal crashes, $reloads:literal reloads;)*) => {$(
        #[test]
        fn $name() {
            play(Odds { at_a_time: $at_a_time, crashes: $crashes, reloads: $reloads });
        }
    )*};
}

executed_at_most_once_and_only_as_approved! {
    executed_as_approved_alone: 1 at a time, 1 crashes, 3 reloads;
    executed_as_approved_alone_by_a_daemon_that_dies: 1 at a time, 10 crashes, 3 reloads;
    executed_as_approved_alone_under_rules_that_change: 1 at a time, 1 crashes, 30 reloads;
    executed_as_approved_among_few: 6 at a time, 1 crashes, 3 reloads;
    executed_as_approved_among_few_by_a_daemon_that_dies: 6 at a time, 10 crashes, 3 reloads;
    executed_as_approved_among_few_under_rules_that_change: 6 at a time, 1 crashes, 30 reloads;
    executed_as_approved_in_a_crowd: 16 at a time, 1 crashes, 3 reloads;
    executed_as_approved_in_a_crowd_by_a_daemon_that_dies: 16 at a time, 10 crashes, 3 reloads;
    executed_as_approved_in_a_crowd_under_rules_that_change: 16 at a time, 1 crashes, 30 reloads;
}
