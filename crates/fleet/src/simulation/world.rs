//! Simulated fleet: the queue of events, the network and the actions of every participant.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde_json::Value;

use super::engine::{Engine, Publish};
use super::host::SimulatedHost;
use super::rng::SimulationRng;
use super::{BrokenRule, SimulationOptions, SimulationReport};
use crate::calls::{PlacementNonce, RemoteCall};
use crate::mirroring::{Mirror, MirrorStep, StoredHead};
use crate::modes::{Beacon, FleetMode};
use crate::policy::{BundleFile, PolicyBundle, PolicyTrust};
use crate::{Purpose, Signed, SigningKey, SubjectToken, TrustedKeys};

/// Time between two ticks of a host.
const TICK_MS: u64 = 1000;
/// Attempts of a caller before it reports the outcome as unknown.
const MAX_CALL_ATTEMPTS: u32 = 4;

/// Event of the simulation.
enum Event {
    /// A host works: appends, syncs, mirrors.
    Tick(usize),
    /// A host has waited too long for a reply.
    Timeout { host: usize, attempt: u64 },
    /// A batch reaches the engine.
    Publish { host: usize, attempt: u64, publish: Box<Publish> },
    /// The reply to a batch reaches its host.
    Acknowledge { host: usize, attempt: u64, stored: Option<u64> },
    /// The reply to a fetch reaches its host.
    Head { host: usize, attempt: u64, head: Option<StoredHead> },
    /// A bundle reaches a host.
    Bundle { host: usize, number: usize },
    /// A beacon reaches a host.
    Beacon { host: usize, number: usize },
    /// A call reaches a host.
    Call { host: usize, key: u64, call: Box<RemoteCall> },
    /// A caller looks for the outcome of a call.
    Retry { host: usize, key: u64, attempt: u32 },
}

/// Simulated fleet.
pub(crate) struct World {
    pub(crate) options: SimulationOptions,
    pub(crate) hosts: Vec<SimulatedHost>,
    pub(crate) engine: Engine,
    pub(crate) report: SimulationReport,
    /// Effects by idempotency key.
    pub(crate) effects: BTreeMap<u64, u32>,
    /// Keys whose outcome reached the caller.
    answered: BTreeMap<u64, bool>,
    pub(crate) bundles: Vec<Signed>,
    pub(crate) beacons: Vec<(Beacon, Signed)>,
    trust: Option<PolicyTrust>,
    key: Option<SigningKey>,
    fleet: Option<SubjectToken>,
    queue: BinaryHeap<Reverse<(u64, u64)>>,
    pending: BTreeMap<u64, Event>,
    next_event: u64,
    pub(crate) now: u64,
    rng: SimulationRng,
    /// The network is reliable again and nothing new begins.
    healed: bool,
    next_key: u64,
}

impl World {
    pub(crate) fn new(options: SimulationOptions) -> World {
        let key = SigningKey::from_seed(&[7; 32]).ok();
        let fleet = "sim".parse::<SubjectToken>().ok();
        let trust = key.as_ref().zip(fleet.clone()).map(|(key, fleet)| PolicyTrust {
            group: fleet.clone(),
            fleet,
            signers: TrustedKeys::one(key.public()),
            version: "0.1.0".to_owned(),
        });
        World {
            hosts: (0..options.hosts).filter_map(SimulatedHost::new).collect(),
            rng: SimulationRng::new(options.seed),
            options,
            engine: Engine::default(),
            report: SimulationReport::default(),
            effects: BTreeMap::new(),
            answered: BTreeMap::new(),
            bundles: Vec::new(),
            beacons: Vec::new(),
            trust,
            key,
            fleet,
            queue: BinaryHeap::new(),
            pending: BTreeMap::new(),
            next_event: 0,
            now: 1_000_000,
            healed: false,
            next_key: 0,
        }
    }

    /// Runs all events, then heals the network and runs until every mirror is complete.
    pub(crate) fn run(&mut self) {
        let begun = self.now;
        for host in 0..self.hosts.len() {
            let delay = self.rng.below(TICK_MS);
            self.schedule(delay, Event::Tick(host));
        }
        while self.report.events < self.options.events && self.step() {}
        self.healed = true;
        // Late messages take up to six minutes; ten more bring every mirror up to date.
        let until = self.now + 960_000;
        self.hosts.iter_mut().for_each(|host| host.cut_off_until = 0);
        self.publish_beacon();
        let mut check_at = self.now;
        while self.now < until && self.step() {
            // The check examines every host, so it runs once in ten seconds.
            if self.now >= check_at + 10_000 {
                check_at = self.now;
                if self.is_settled() {
                    break;
                }
            }
        }
        self.report.simulated_ms = self.now - begun;
    }

    /// Returns true if nothing is in flight and every mirror is complete.
    fn is_settled(&self) -> bool {
        let in_flight = self.pending.values().any(|event| !matches!(event, Event::Tick(_)));
        !in_flight
            && self
                .hosts
                .iter()
                .all(|host| host.mirror.mirrored().is_some_and(|head| head.seq == host.synced))
    }

    fn schedule(&mut self, delay: u64, event: Event) {
        self.next_event += 1;
        self.queue.push(Reverse((self.now + delay, self.next_event)));
        self.pending.insert(self.next_event, event);
    }

    /// Sends a message over the network, which may drop it, repeat it and delay it for longer than any window.
    fn send(&mut self, host: usize, event: impl Fn() -> Event) {
        if self.healed {
            let delay = 1 + self.rng.below(50);
            return self.schedule(delay, event());
        }
        let is_cut_off = self.hosts.get(host).is_some_and(|host| host.cut_off_until > self.now);
        if !is_cut_off && !self.rng.chance(4) {
            let delay = 1 + self.rng.below(200);
            self.schedule(delay, event());
        }
        // The client sends its queue again after a reconnect, or the network repeats a packet.
        if is_cut_off || self.rng.chance(4) {
            let delay = 200 + self.rng.below(360_000);
            self.schedule(delay, event());
        }
    }

    fn step(&mut self) -> bool {
        let Some(Reverse((at, number))) = self.queue.pop() else { return false };
        let Some(event) = self.pending.remove(&number) else { return true };
        self.now = self.now.max(at);
        self.report.events += 1;
        match event {
            Event::Tick(host) => self.tick(host),
            Event::Timeout { host, attempt } => self.end_attempt(host, attempt, |mirror| mirror.failed()),
            Event::Publish { host, attempt, publish } => {
                let stored = self.engine.publish(host, *publish, self.now);
                self.report.refused_batches += u64::from(stored.is_none());
                self.send(host, || Event::Acknowledge { host, attempt, stored });
            }
            Event::Acknowledge { host, attempt, stored } => {
                self.end_attempt(host, attempt, |mirror| match stored {
                    Some(seq) => mirror.acknowledged(seq),
                    None => mirror.failed(),
                });
            }
            Event::Head { host, attempt, head } => self.take_head(host, attempt, head),
            Event::Bundle { host, number } => self.take_bundle(host, number),
            Event::Beacon { host, number } => self.take_beacon(host, number),
            Event::Call { host, key, call } => self.take_call(host, key, &call),
            Event::Retry { host, key, attempt } => self.place_call(host, key, attempt),
        }
        true
    }

    fn end_attempt(&mut self, host: usize, attempt: u64, end: impl FnOnce(&mut Mirror)) {
        if let Some(host) = self.hosts.get_mut(host).filter(|host| host.busy && host.attempt == attempt) {
            host.busy = false;
            end(&mut host.mirror);
        }
    }

    fn take_head(&mut self, number: usize, attempt: u64, head: Option<StoredHead>) {
        let Some(host) = self.hosts.get_mut(number).filter(|host| host.busy && host.attempt == attempt)
        else {
            return;
        };
        host.busy = false;
        let seals = host.ledger.clone();
        let seal = |seq: u64| {
            let index = usize::try_from(seq.checked_sub(1)?).ok()?;
            seals.get(index).map(|seal| format!("{seal:016x}"))
        };
        if let Err(error) = host.mirror.fetched(head, host.synced, seal) {
            let violation = format!("the mirror of {} contradicts an honest ledger: {error}", host.name);
            self.violate(violation);
        }
    }

    /// One second of a host.
    fn tick(&mut self, number: usize) {
        if !self.healed {
            self.disturb(number);
        }
        let (is_new, count) = (!self.healed, self.rng.below(4));
        let (is_synced, seals) = (self.rng.chance(70), [0; 3].map(|_: u64| self.rng.next()));
        let Some(host) = self.hosts.get_mut(number) else { return };
        if is_new {
            host.ledger.extend(seals.iter().take(usize::try_from(count).unwrap_or_default()));
        }
        if is_synced || !is_new {
            host.synced = host.length();
        }
        let is_complete = host.mirror.mirrored().is_some_and(|head| head.seq == host.synced);
        if !host.busy {
            self.mirror_step(number);
        }
        let pause = if is_complete && self.healed { 30 * TICK_MS } else { TICK_MS };
        self.schedule(pause, Event::Tick(number));
    }

    fn mirror_step(&mut self, number: usize) {
        let broken = self.options.broken;
        let Some(host) = self.hosts.get_mut(number) else { return };
        let up_to = if broken == BrokenRule::UnsyncedRecords { host.length() } else { host.synced };
        let step = host.mirror.step(up_to);
        if step == MirrorStep::Wait {
            return;
        }
        host.attempt += 1;
        host.busy = true;
        let attempt = host.attempt;
        self.schedule(5000, Event::Timeout { host: number, attempt });
        if step == MirrorStep::FetchHead {
            // The request and its reply are one message here: the head is that of the time of the reply.
            let head = self.engine.head(number);
            return self.send(number, || Event::Head { host: number, attempt, head: head.clone() });
        }
        let Some(host) = self.hosts.get_mut(number) else { return };
        let Some((header, expected)) = host.next_batch(up_to) else { return };
        host.mirror.sent(header.last.clone());
        let expected = (broken != BrokenRule::RepeatAfterWindow).then_some(expected);
        let publish = Publish { header, expected };
        self.send(number, || Event::Publish { host: number, attempt, publish: Box::new(publish.clone()) });
    }

    /// Something goes wrong, or a participant begins something.
    fn disturb(&mut self, number: usize) {
        let (now, roll) = (self.now, self.rng.below(1000));
        let length = 1000 + self.rng.below(240_000);
        let Some(host) = self.hosts.get_mut(number) else { return };
        match roll {
            0..=4 => {
                host.lose_power(now);
                self.report.power_cuts += 1;
            }
            5..=9 => host.cut_off_until = now + length,
            10..=29 => {
                self.next_key += 1;
                let key = self.next_key;
                self.place_call(number, key, 0);
            }
            30..=31 => self.publish_bundle(),
            32..=35 => self.publish_beacon(),
            // The server offers an old bundle or beacon again.
            36..=55 => {
                let (bundle, beacon) =
                    (self.rng.index(self.bundles.len()), self.rng.index(self.beacons.len()));
                self.schedule(1, Event::Bundle { host: number, number: bundle });
                self.schedule(1, Event::Beacon { host: number, number: beacon });
            }
            _ => {}
        }
    }

    fn publish_bundle(&mut self) {
        let (Some(key), Some(fleet)) = (&self.key, &self.fleet) else { return };
        let revision = u64::try_from(self.bundles.len()).unwrap_or_default() + 1;
        let file = BundleFile::new(format!("# {revision}\n"));
        let bundle = PolicyBundle {
            fleet: fleet.clone(),
            group: fleet.clone(),
            revision,
            not_after: u64::MAX,
            minimum_version: "0.1.0".to_owned(),
            files: [("tools.yaml".to_owned(), file)].into(),
        };
        let Ok(signed) = key.sign(Purpose::Bundle, &bundle) else { return };
        let number = self.bundles.len();
        self.bundles.push(signed);
        self.send_to_some(|host| Event::Bundle { host, number });
    }

    fn publish_beacon(&mut self) {
        let (Some(key), Some(fleet)) = (&self.key, &self.fleet) else { return };
        let epoch = u64::try_from(self.beacons.len()).unwrap_or_default() + 1;
        let mode = if epoch % 3 == 0 { FleetMode::Lockdown } else { FleetMode::Normal };
        let at = self.beacons.last().map_or(self.now, |(last, _)| self.now.max(last.at + 1));
        let beacon = Beacon { fleet: fleet.clone(), at, epoch, mode };
        let Ok(signed) = key.sign(Purpose::Beacon, &beacon) else { return };
        let number = self.beacons.len();
        self.beacons.push((beacon, signed));
        self.send_to_some(|host| Event::Beacon { host, number });
    }

    /// Sends to all hosts of a small fleet and after healing, else to a sample: verifying a signature ten thousand
    /// times for each message would leave no time for other events.
    fn send_to_some(&mut self, event: impl Fn(usize) -> Event) {
        let count = self.hosts.len();
        let sample = if self.healed { count } else { count.min(100) };
        let first = self.rng.index(count);
        for offset in 0..sample {
            let host = (first + offset) % count.max(1);
            self.send(host, || event(host));
        }
    }

    fn take_bundle(&mut self, number: usize, bundle: usize) {
        let (Some(signed), Some(trust)) = (self.bundles.get(bundle), &self.trust) else { return };
        let Some(host) = self.hosts.get_mut(number) else { return };
        match PolicyBundle::verify(signed, trust, host.policy.as_ref(), self.now) {
            Ok(Some((_, revision))) => {
                let is_older = host.policy.as_ref().is_some_and(|now| now.revision >= revision.revision);
                host.policy = Some(revision);
                if is_older {
                    let violation = format!("{} took an older policy", host.name);
                    self.violate(violation);
                }
            }
            Ok(None) => {}
            Err(_) => self.report.refused_messages += 1,
        }
    }

    fn take_beacon(&mut self, number: usize, beacon: usize) {
        let (Some((_, signed)), Some(trust)) = (self.beacons.get(beacon), &self.trust) else { return };
        let Some(host) = self.hosts.get_mut(number) else { return };
        match host.beacons.accept(signed, (&trust.fleet, &trust.signers), self.now) {
            Ok(beacon) => host.take_beacon(&beacon),
            Err(_) => self.report.refused_messages += 1,
        }
    }

    /// A caller places a call, and sends it to the host that answered.
    fn place_call(&mut self, number: usize, key: u64, attempt: u32) {
        let is_answered = self.answered.get(&key).copied().unwrap_or_default();
        if is_answered || attempt >= MAX_CALL_ATTEMPTS {
            return;
        }
        let elsewhere = self.rng.index(self.hosts.len());
        let is_moved = attempt > 0 && self.options.broken == BrokenRule::PlacedAgain;
        let number = if is_moved { elsewhere } else { number };
        let (high, low) = (self.rng.next(), self.rng.next());
        let random = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let (Some(caller), Some(host)) = (&self.fleet, self.hosts.get_mut(number)) else { return };
        let Some(nonce) = host.gate.place(caller, PlacementNonce::new(random), self.now) else { return };
        let call = RemoteCall {
            host: host.name.clone(),
            caller: caller.clone(),
            tool: "write_file".to_owned(),
            arguments: Value::Null,
            key: Some(key.to_string()),
            nonce,
            issued_at: self.now,
            ttl_ms: 5000,
        };
        self.send(number, || Event::Call { host: number, key, call: Box::new(call.clone()) });
        self.schedule(6000, Event::Retry { host: number, key, attempt: attempt + 1 });
    }

    fn take_call(&mut self, number: usize, key: u64, call: &RemoteCall) {
        let now = self.now;
        let is_lost = self.rng.chance(10);
        let Some(host) = self.hosts.get_mut(number) else { return };
        match host.call(call, key, now) {
            Ok(has_effect) => {
                if now >= call.issued_at + call.ttl_ms {
                    let violation = format!("{} ran a call that had expired", host.name);
                    return self.violate(violation);
                }
                self.report.effects += u64::from(has_effect);
                *self.effects.entry(key).or_default() += u32::from(has_effect);
                // The answer may get lost, and then the caller asks the same host again.
                self.answered.insert(key, !is_lost);
            }
            Err(_) => self.report.refused_calls += 1,
        }
    }

    pub(crate) fn violate(&mut self, violation: String) {
        if self.report.violations.len() < 20 {
            self.report.violations.push(violation);
        }
    }
}
