//! Membership of a host: what it knows of its fleet, in its state folder.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use super::{ConnectionKey, ConnectionSettings};
use crate::policy::PolicyTrust;
use crate::servers::Role;
use crate::{FleetError, SigningKey, SubjectToken, TrustedKeys, VerifyingKey};

const FILE: &str = "membership.json";
const CA_FILE: &str = "ca.pem";
const CONNECTION_KEY: &str = "connection.key";
const SIGNING_KEY: &str = "signing.key";

/// Membership of this host. It holds no secret: the keys are in files beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetMembership {
    /// Name of the fleet.
    pub fleet: SubjectToken,
    /// Name of this host.
    pub host: SubjectToken,
    /// Group whose policy it takes.
    pub group: SubjectToken,
    /// Addresses of the servers.
    pub servers: Vec<String>,
    /// Keys that sign policy, modes and beacons.
    pub signing_keys: Vec<VerifyingKey>,
    /// Number of signatures that a policy bundle needs.
    pub policy_signatures: usize,
    /// True if a certificate authority is pinned.
    pub has_ca: bool,
}

impl FleetMembership {
    /// Reads the membership in a folder. `None` if the host is not a member of a fleet.
    pub fn read(folder: &Path) -> io::Result<Option<FleetMembership>> {
        match fs::read(folder.join(FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            bytes => Ok(Some(serde_json::from_slice(&bytes?)?)),
        }
    }

    /// Writes the membership and its keys, for this user only.
    pub fn write(
        &self,
        folder: &Path,
        (connection, signing_seed): (&ConnectionKey, &str),
        ca: Option<&str>,
    ) -> io::Result<()> {
        let write =
            |name: &str, text: &str| strict_yaml::replace_private_file(&folder.join(name), text.as_bytes());
        write(CONNECTION_KEY, connection.seed())?;
        write(SIGNING_KEY, signing_seed)?;
        if let Some(ca) = ca {
            write(CA_FILE, ca)?;
        }
        // Last, because it makes the rest count.
        write(FILE, &serde_json::to_string_pretty(self)?)
    }

    /// Returns the parameters of the connection of this host.
    pub fn connection(&self, folder: &Path) -> io::Result<ConnectionSettings> {
        let role = Role::Host { host: self.host.clone(), group: self.group.clone() };
        Ok(ConnectionSettings {
            servers: self.servers.clone(),
            ca_file: self.has_ca.then(|| folder.join(CA_FILE)),
            user: role.user(),
            seed: fs::read_to_string(folder.join(CONNECTION_KEY))?.trim().to_owned(),
        })
    }

    /// Reads the key that signs heartbeats and ledger heads.
    pub fn signing_key(&self, folder: &Path) -> Result<SigningKey, FleetError> {
        let path = folder.join(SIGNING_KEY);
        let text = fs::read_to_string(&path)
            .map_err(|error| FleetError::Roster(format!("{}: {error}", path.display())))?;
        SigningKey::from_text(&text)
    }

    /// Returns the keys of which one must sign modes and beacons.
    pub fn mode_keys(&self) -> TrustedKeys {
        TrustedKeys { keys: self.signing_keys.iter().copied().collect(), needed: 1 }
    }

    /// Returns the origin from which this host takes bundles.
    pub fn policy_trust(&self, version: &str) -> PolicyTrust {
        PolicyTrust {
            fleet: self.fleet.clone(),
            group: self.group.clone(),
            signers: TrustedKeys { needed: self.policy_signatures, ..self.mode_keys() },
            version: version.to_owned(),
        }
    }

    /// Returns the files of a membership, for removal.
    pub fn files(folder: &Path) -> [PathBuf; 4] {
        [FILE, CA_FILE, CONNECTION_KEY, SIGNING_KEY].map(|name| folder.join(name))
    }
}
