//! Simulated host: a ledger that a power cut shortens to its synced records, and the rules of the crate.

use std::collections::BTreeSet;

use crate::calls::{CallGate, CallRefusal, RemoteCall};
use crate::mirroring::{BatchHeader, LedgerHead, Mirror, MirrorStep};
use crate::modes::{Beacon, BeaconFilter, Lease, OnLostFleet};
use crate::policy::PolicyRevision;
use crate::{SubjectToken, Subjects};

/// Most records of one batch.
const MAX_BATCH: u64 = 50;
/// Id of every ledger here; a host never creates a second one.
const LEDGER: &str = "l";

/// Simulated host.
pub(crate) struct SimulatedHost {
    pub(crate) name: SubjectToken,
    /// Seals of the records.
    pub(crate) ledger: Vec<u64>,
    /// Number of records that a power cut keeps.
    pub(crate) synced: u64,
    pub(crate) mirror: Mirror,
    /// Number of the operation in flight; replies to earlier ones are dropped.
    pub(crate) attempt: u64,
    pub(crate) busy: bool,
    pub(crate) policy: Option<PolicyRevision>,
    pub(crate) beacons: BeaconFilter,
    pub(crate) lease: Lease,
    pub(crate) gate: CallGate,
    /// Keys of effects, as the ledger has them: a restart does not forget them.
    pub(crate) keys: BTreeSet<u64>,
    /// Time until which the host is cut off.
    pub(crate) cut_off_until: u64,
}

impl SimulatedHost {
    pub(crate) fn new(number: usize) -> Option<SimulatedHost> {
        let name: SubjectToken = format!("host-{number}").parse().ok()?;
        Some(SimulatedHost {
            gate: CallGate::new(name.clone()),
            name,
            ledger: Vec::new(),
            synced: 0,
            mirror: Mirror::new(LEDGER.to_owned()),
            attempt: 0,
            busy: false,
            policy: None,
            beacons: BeaconFilter::default(),
            lease: new_lease(0),
            keys: BTreeSet::new(),
            cut_off_until: 0,
        })
    }

    /// Returns the number of records.
    pub(crate) fn length(&self) -> u64 {
        u64::try_from(self.ledger.len()).unwrap_or_default()
    }

    /// Returns the seal of a record, in the form of a header.
    pub(crate) fn seal(&self, seq: u64) -> Option<String> {
        let index = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.ledger.get(index).map(|seal| format!("{seal:016x}"))
    }

    /// Loses the records that are not synced, the connection and everything in memory.
    pub(crate) fn lose_power(&mut self, now: u64) {
        self.ledger.truncate(usize::try_from(self.synced).unwrap_or_default());
        self.mirror = Mirror::new(LEDGER.to_owned());
        self.attempt += 1;
        self.busy = false;
        self.gate = CallGate::new(self.name.clone());
        let mode = self.lease.fleet_mode();
        self.lease = Lease::new(60, OnLostFleet::Lockdown, mode, now);
    }

    /// Returns the next batch, if the mirror wants to send one.
    pub(crate) fn next_batch(&self, up_to: u64) -> Option<(BatchHeader, u64)> {
        let MirrorStep::Send { expected, first } = self.mirror.step(up_to) else { return None };
        let last = up_to.min(first + MAX_BATCH - 1);
        let header = BatchHeader {
            host: self.name.clone(),
            ledger: LEDGER.to_owned(),
            first,
            last: LedgerHead { seq: last, hash: self.seal(last)? },
            previous: self.seal(first - 1).unwrap_or_default(),
            sha256: String::new(),
        };
        Some((header, expected))
    }

    /// Admits a call and returns true if it has its effect now. A repeat of a key returns the recorded outcome.
    pub(crate) fn call(&mut self, call: &RemoteCall, key: u64, now: u64) -> Result<bool, CallRefusal> {
        let reply = Subjects::reply(call.caller.as_str(), self.name.as_str(), &call.nonce.0);
        self.gate.admit(call, (&call.caller, &reply), true, now)?;
        Ok(self.keys.insert(key))
    }

    pub(crate) fn take_beacon(&mut self, beacon: &Beacon) {
        self.lease.renew(beacon);
    }
}

fn new_lease(now: u64) -> Lease {
    Lease::new(60, OnLostFleet::Lockdown, Default::default(), now)
}
