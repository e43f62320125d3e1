//! Subjects of the fleet, all below one prefix. A program never builds a subject in another place.

use crate::SubjectToken;

/// Prefix of every subject of this version.
const PREFIX: &str = "sinew.v1";

/// Names of subjects and streams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subjects;

impl Subjects {
    /// Everything that hosts receive from the fleet.
    pub const FLEET: &str = "sinew.v1.fleet.>";
    /// Mode of the fleet, as stored.
    pub const MODE: &str = "sinew.v1.mode";
    /// Mode of the fleet, as republished to hosts.
    pub const MODE_HINT: &str = "sinew.v1.fleet.mode";
    /// Signed beacons.
    pub const BEACON: &str = "sinew.v1.fleet.beacon";
    /// Presence of all hosts.
    pub const ALL_BEATS: &str = "sinew.v1.beat.*";
    /// Enrolment requests of all hosts.
    pub const ALL_ENROLMENTS: &str = "sinew.v1.enrol.*.*";
    /// Queue group of hosts that answer placement requests.
    pub const PLACE_QUEUE: &str = "place";

    /// Stream that stores the ledgers of a partition.
    pub fn ledger_stream(partition: u8) -> String {
        format!("LEDGER_{partition:02}")
    }

    /// Mirrored ledger of a host.
    pub fn ledger(host: &SubjectToken) -> String {
        format!("{PREFIX}.ledger.{:02}.{host}", host.partition())
    }

    /// Mirrored ledgers of a partition.
    pub fn ledgers(partition: u8) -> String {
        format!("{PREFIX}.ledger.{partition:02}.*")
    }

    /// Presence of a host.
    pub fn beat(host: &SubjectToken) -> String {
        format!("{PREFIX}.beat.{host}")
    }

    /// Policy bundle of a group, as stored.
    pub fn policy(group: &SubjectToken) -> String {
        format!("{PREFIX}.policy.{group}")
    }

    /// Pointer to the newest bundle of a group, as stored.
    pub fn pointer(group: &SubjectToken) -> String {
        format!("{PREFIX}.pointer.{group}")
    }

    /// Republished bundle of a group, which hosts take as a hint to fetch it.
    pub fn policy_hint(group: &SubjectToken) -> String {
        format!("{PREFIX}.fleet.policy.{group}")
    }

    /// Enrolment request of a host with one invitation.
    pub fn enrolment(host: &SubjectToken, invitation: &SubjectToken) -> String {
        format!("{PREFIX}.enrol.{host}.{invitation}")
    }

    /// Call of a tool on one host.
    pub fn call(host: &str, caller: &str) -> String {
        format!("{PREFIX}.call.{host}.{caller}")
    }

    /// Request for a host with a capability. It has no effect.
    pub fn place(capability: &str, caller: &str) -> String {
        format!("{PREFIX}.place.{capability}.{caller}")
    }

    /// Replies of a host to a caller. A host publishes to no other subject that a request names.
    pub fn reply(caller: &str, host: &str, nonce: &str) -> String {
        format!("{PREFIX}.reply.{caller}.{host}.{nonce}")
    }

    /// Subject of a direct get of the last message on a subject of a stream.
    pub fn direct_get(stream: &str, subject: &str) -> String {
        format!("$JS.API.DIRECT.GET.{stream}.{subject}")
    }

    /// Prefix of the private inbox of a user. Each user has its own, so that no user can read the replies to another.
    pub fn inbox(user: &str) -> String {
        format!("_INBOX_{user}")
    }
}
