//! Description of a fleet: `fleet.yaml`, which an operator writes, and the roster of keys, which `sinew fleet`
//! maintains beside it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use strict_yaml::{Document, DocumentError};

use crate::servers::Role;
use crate::{FleetError, SubjectToken, VerifyingKey};

/// Description of a fleet and its servers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetFile {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Addresses for hosts: `tls://name:port`, or `nats://127.0.0.1:port` on one machine.
    pub servers: Vec<String>,
    /// Address on which the server listens.
    pub listen: String,
    /// Certificates; required unless all servers are on the loopback interface.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Storage of the server.
    pub store: ServerStore,
    /// Copies of each stream: 1, or 3 with three servers.
    #[serde(default = "one")]
    pub replicas: usize,
    /// Number of signatures that a policy bundle needs.
    #[serde(default = "one")]
    pub policy_signatures: usize,
}

/// Certificate files of the servers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsFiles {
    /// Certificate authority, which every host pins.
    pub ca_file: PathBuf,
    /// Certificate of the server.
    pub cert_file: PathBuf,
    /// Private key of the server.
    pub key_file: PathBuf,
}

/// Storage of a server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerStore {
    /// Folder.
    pub dir: PathBuf,
    /// Largest size of all streams together.
    pub max_bytes: u64,
}

fn one() -> usize {
    1
}

/// Public keys of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetRoster {
    /// Connection key of the administrator.
    pub administrator: String,
    /// Connection key of the auditor.
    pub auditor: String,
    /// Connection key of the policy signer.
    pub signer: String,
    /// Keys that sign policy, modes and beacons.
    pub signing_keys: Vec<VerifyingKey>,
    /// Hosts by name.
    pub hosts: BTreeMap<SubjectToken, HostEntry>,
    /// Open invitations: connection key and group by host.
    pub invitations: BTreeMap<SubjectToken, Invitation>,
}

/// Host of a fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostEntry {
    /// Connection key.
    pub nkey: String,
    /// Key that signs heartbeats and ledger heads.
    pub signing_key: VerifyingKey,
    /// Group whose policy it takes.
    pub group: SubjectToken,
}

/// Open invitation of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invitation {
    /// Id, which makes the invitation usable once.
    pub id: SubjectToken,
    /// Connection key, which may send one enrolment request.
    pub nkey: String,
    /// Group whose policy the host will take.
    pub group: SubjectToken,
}

impl FleetFile {
    /// Reads the file. Relative paths start at its folder. A file that other users can write is refused.
    pub fn read(path: &Path) -> Result<FleetFile, DocumentError> {
        FleetFile::from_document(&Document::read_trusted(path)?, path.parent().unwrap_or(Path::new(".")))
    }

    fn from_document(document: &Document, folder: &Path) -> Result<FleetFile, DocumentError> {
        let mut file: FleetFile = document.parse()?;
        file.store.dir = folder.join(&file.store.dir);
        if let Some(tls) = &mut file.tls {
            for path in [&mut tls.ca_file, &mut tls.cert_file, &mut tls.key_file] {
                *path = folder.join(&*path);
            }
        }
        let problem = file.problem();
        problem.map_or(Ok(file), |(message, suggestion)| {
            Err(DocumentError::for_file(document.name(), message).with_suggestion(suggestion))
        })
    }

    /// Returns the first mistake, with a way out.
    fn problem(&self) -> Option<(&'static str, &'static str)> {
        if self.servers.is_empty() {
            return Some(("`servers` is empty", "name at least one address for hosts"));
        }
        if !matches!(self.replicas, 1 | 3 | 5) {
            return Some(("`replicas` must be 1, 3 or 5", "write 3 for a cluster of three servers"));
        }
        if self.policy_signatures == 0 {
            return Some(("`policy_signatures` is 0: bundles would need no signature", "write at least 1"));
        }
        if self.tls.is_none() && !self.servers.iter().all(|server| is_loopback(server)) {
            return Some((
                "`tls` is missing, and not all servers are on the loopback interface",
                "add ca_file, cert_file and key_file",
            ));
        }
        None
    }
}

/// Returns true if the address can be reached from this machine only.
pub(crate) fn is_loopback(server: &str) -> bool {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    ["127.0.0.1:", "localhost:", "[::1]:"].iter().any(|prefix| host.starts_with(prefix))
}

impl FleetRoster {
    /// Returns the users of the servers: the key and the role of each.
    pub fn users(&self) -> Vec<(&str, Role)> {
        let fixed = [
            (&self.administrator, Role::Administrator),
            (&self.auditor, Role::Auditor),
            (&self.signer, Role::PolicySigner),
        ];
        let fixed = fixed.into_iter().map(|(nkey, role)| (nkey.as_str(), role));
        let hosts = self.hosts.iter().map(|(host, entry)| {
            (entry.nkey.as_str(), Role::Host { host: host.clone(), group: entry.group.clone() })
        });
        let invited = self.invitations.iter();
        let invited = invited.map(|(host, open)| {
            (open.nkey.as_str(), Role::Invited { host: host.clone(), invitation: open.id.clone() })
        });
        fixed.chain(hosts).chain(invited).collect()
    }

    /// Admits a host that was invited, which closes its invitation.
    pub fn admit(&mut self, host: &SubjectToken, entry: HostEntry) -> Result<(), FleetError> {
        let refuse = |reason: &str| Err(FleetError::Roster(format!("host `{host}` {reason}")));
        if self.hosts.contains_key(host) {
            return refuse("is a member already: remove it with `sinew fleet remove` first");
        }
        if self.hosts.values().any(|other| other.nkey == entry.nkey) {
            return refuse("has the connection key of another host");
        }
        if self.invitations.remove(host).is_none() {
            return refuse("was not invited");
        }
        self.hosts.insert(host.clone(), entry);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "fleet: acme\nservers: [\"nats://127.0.0.1:4222\"]\nlisten: 127.0.0.1:4222\nstore: {dir: store, max_bytes: 1000}\n";

    fn read(text: &str) -> Result<FleetFile, String> {
        let document = Document::from_text("fleet.yaml", text).map_err(|error| error.to_string())?;
        FleetFile::from_document(&document, Path::new("/f")).map_err(|error| error.to_string())
    }

    #[test]
    fn fleet_file_is_checked() {
        let file = read(GOOD).unwrap();
        assert_eq!((file.replicas, file.policy_signatures, file.store.dir), (1, 1, "/f/store".into()));
        let check = |text: &str, part: &str| {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{error}");
        };
        check(&format!("{GOOD}replicas: 2\n"), "1, 3 or 5");
        check(&format!("{GOOD}policy_signatures: 0\n"), "no signature");
        check(&format!("{GOOD}replica: 1\n"), "replica");
        check(&GOOD.replace("[\"nats://127.0.0.1:4222\"]", "[]"), "`servers` is empty");
        check(&GOOD.replace("nats://127.0.0.1:4222\"", "nats://10.0.0.1:4222\""), "`tls` is missing");
        check(
            &GOOD.replace("nats://127.0.0.1:4222\"", "nats://127.0.0.1.evil.org:4222\""),
            "`tls` is missing",
        );
        check(&GOOD.replace("acme", "Acme"), "not a fleet name");
    }

    #[test]
    fn only_invited_hosts_are_admitted_once() {
        let host: SubjectToken = "a".parse().unwrap();
        let key = crate::SigningKey::from_seed(&[1; 32]).unwrap().public();
        let entry = HostEntry { nkey: "U1".to_owned(), signing_key: key, group: "g".parse().unwrap() };
        let mut roster = FleetRoster::default();
        let refused = |roster: &mut FleetRoster, host: &SubjectToken, part: &str| {
            let error = roster.admit(host, entry.clone()).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(&mut roster, &host, "was not invited");
        let invitation =
            Invitation { id: "1".parse().unwrap(), nkey: "U2".to_owned(), group: "g".parse().unwrap() };
        roster.invitations.insert(host.clone(), invitation.clone());
        roster.admit(&host, entry.clone()).unwrap();
        assert!(roster.invitations.is_empty());
        refused(&mut roster, &host, "is a member already");
        roster.invitations.insert("b".parse().unwrap(), invitation);
        refused(&mut roster, &"b".parse().unwrap(), "the connection key of another host");
    }
}
