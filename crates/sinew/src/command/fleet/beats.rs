//! Heartbeats of all hosts, collected for a while by a command of the operator.

use std::collections::BTreeMap;
use std::time::Duration;

use fleet::link::{FleetConnection, FleetSubscription};
use fleet::mirroring::Heartbeat;
use fleet::{Purpose, Signed, SubjectToken, Subjects, TrustedKeys};
use tokio::time::{Instant, timeout_at};

use super::admin::FleetAdmin;
use super::failed;
use crate::exit::CommandError;
use crate::fleet::now_ms;

/// Heartbeat with the time at which it arrived here.
pub(super) struct ReceivedBeat {
    pub(super) beat: Heartbeat,
    pub(super) received_at: u64,
}

/// Newest heartbeat of each host.
pub(super) struct Beats {
    messages: FleetSubscription,
    pub(super) newest: BTreeMap<SubjectToken, ReceivedBeat>,
}

impl Beats {
    /// Starts to listen.
    pub(super) async fn listen(connection: &FleetConnection) -> Result<Beats, CommandError> {
        let messages = connection.subscribe(Subjects::ALL_BEATS).await.map_err(failed)?;
        Ok(Beats { messages, newest: BTreeMap::new() })
    }

    /// Collects heartbeats until every member has sent one that satisfies `is_done`, or the time is over.
    pub(super) async fn collect(
        &mut self,
        admin: &FleetAdmin,
        seconds: u64,
        is_done: impl Fn(&Heartbeat) -> bool,
    ) {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        let is_complete = |newest: &BTreeMap<SubjectToken, ReceivedBeat>| {
            admin.roster.hosts.keys().all(|host| newest.get(host).is_some_and(|found| is_done(&found.beat)))
        };
        while !is_complete(&self.newest) {
            let Ok(Some(message)) = timeout_at(deadline, self.messages.next()).await else { return };
            if let Some(beat) = verify(admin, &message.subject, &message.payload) {
                self.newest.insert(beat.host.clone(), ReceivedBeat { beat, received_at: now_ms() });
            }
        }
    }
}

/// Returns the heartbeat if the host of its subject signed it.
fn verify(admin: &FleetAdmin, subject: &str, payload: &[u8]) -> Option<Heartbeat> {
    let (host, entry) = admin.roster.hosts.iter().find(|(host, _)| Subjects::beat(host) == subject)?;
    let signed = Signed::parse(Purpose::Heartbeat, payload).ok()?;
    let beat: Heartbeat = signed.verify(Purpose::Heartbeat, &TrustedKeys::one(entry.signing_key)).ok()?;
    (beat.host == *host).then_some(beat)
}
