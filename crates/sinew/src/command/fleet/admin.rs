//! Folder of the operator of a fleet: fleet.yaml, the roster, the keys and the server configuration. `fleet init`.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use fleet::link::{ConnectionKey, ConnectionSettings, FleetConnection};
use fleet::servers::{FleetFile, FleetRoster, Role, server_config, streams};
use fleet::{SigningKey, TrustedKeys};

use super::failed;
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::terminal::{print_message, print_result_line};

const ROSTER: &str = "roster.json";
const KEYS: &str = "keys";
/// Server configuration that `init` writes.
pub(super) const SERVER_CONFIG: &str = "nats.conf";

/// Folder of the operator.
pub(super) struct FleetAdmin {
    folder: PathBuf,
    pub(super) file: FleetFile,
    pub(super) roster: FleetRoster,
}

impl FleetAdmin {
    /// Opens the folder of a fleet file, which must have been initialised.
    pub(super) fn open(path: &Path) -> Result<FleetAdmin, CommandError> {
        let mut admin = FleetAdmin::read(path)?;
        let roster = admin.folder.join(ROSTER);
        let text = fs::read(&roster).map_err(|error| {
            let message = format!("{} cannot be read: {error}", roster.display());
            CommandError::configuration(message).with_hint("run `sinew fleet init` first")
        })?;
        admin.roster = serde_json::from_slice(&text).map_err(CommandError::configuration)?;
        Ok(admin)
    }

    fn read(path: &Path) -> Result<FleetAdmin, CommandError> {
        let path = std::path::absolute(path).map_err(CommandError::failed)?;
        let file = FleetFile::read(&path).map_err(CommandError::configuration)?;
        let folder = path.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(FleetAdmin { folder, file, roster: FleetRoster::default() })
    }

    /// Writes the roster and the server configuration.
    pub(super) fn save(&self) -> Result<(), CommandError> {
        let config = server_config(&self.file, &self.roster).map_err(failed)?;
        let roster = serde_json::to_vec_pretty(&self.roster).map_err(CommandError::failed)?;
        self.write(ROSTER, &roster)?;
        self.write(SERVER_CONFIG, config.as_bytes())
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), CommandError> {
        let path = self.folder.join(name);
        strict_yaml::replace_private_file(&path, bytes)
            .map_err(|error| CommandError::failed(format!("{} cannot be written: {error}", path.display())))
    }

    /// Returns the path of the server configuration.
    pub(super) fn server_config_path(&self) -> PathBuf {
        self.folder.join(SERVER_CONFIG)
    }

    /// Connects in a role of the operator.
    pub(super) async fn connect(&self, role: &Role) -> Result<FleetConnection, CommandError> {
        let seed = self.read_key(&role.user())?;
        let settings = ConnectionSettings {
            servers: self.file.servers.clone(),
            ca_file: self.file.tls.as_ref().map(|tls| tls.ca_file.clone()),
            user: role.user(),
            seed,
        };
        FleetConnection::open(&settings).await.map_err(failed)
    }

    /// Returns the certificate authority as PEM.
    pub(super) fn ca(&self) -> Result<Option<String>, CommandError> {
        let read = |path: &PathBuf| {
            fs::read_to_string(path)
                .map_err(|error| CommandError::configuration(format!("{}: {error}", path.display())))
        };
        self.file.tls.as_ref().map(|tls| read(&tls.ca_file)).transpose()
    }

    /// Returns the signing keys that are on this machine.
    pub(super) fn signing_keys(&self) -> Result<Vec<SigningKey>, CommandError> {
        let mut keys = Vec::new();
        for number in 1..=self.roster.signing_keys.len() {
            let name = signing_key_name(number);
            if self.key_path(&name).exists() {
                keys.push(SigningKey::from_text(&self.read_key(&name)?).map_err(failed)?);
            }
        }
        if keys.is_empty() {
            let message = format!("there is no signing key in {}", self.folder.join(KEYS).display());
            return Err(CommandError::configuration(message));
        }
        Ok(keys)
    }

    /// Returns the keys that sign modes and beacons, of which one is enough.
    pub(super) fn mode_keys(&self) -> TrustedKeys {
        TrustedKeys { keys: self.roster.signing_keys.iter().copied().collect(), needed: 1 }
    }

    /// Returns the keys that sign policy.
    pub(super) fn policy_keys(&self) -> TrustedKeys {
        TrustedKeys { needed: self.file.policy_signatures, ..self.mode_keys() }
    }

    fn key_path(&self, name: &str) -> PathBuf {
        self.folder.join(KEYS).join(format!("{name}.key"))
    }

    fn read_key(&self, name: &str) -> Result<String, CommandError> {
        let path = self.key_path(name);
        let text = fs::read_to_string(&path)
            .map_err(|error| CommandError::configuration(format!("{}: {error}", path.display())))?;
        Ok(text.trim().to_owned())
    }

    /// Creates the keys that are missing and notes their public parts.
    fn create_keys(&mut self) -> Result<(), CommandError> {
        let keys = self.folder.join(KEYS);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&keys).map_err(CommandError::failed)?;
        for role in [Role::Administrator, Role::Auditor, Role::PolicySigner] {
            let name = role.user();
            let key = match self.key_path(&name).exists() {
                true => ConnectionKey::from_seed(&self.read_key(&name)?),
                false => ConnectionKey::generate(),
            };
            let key = key.map_err(failed)?;
            self.write(&format!("{KEYS}/{name}.key"), format!("{}\n", key.seed()).as_bytes())?;
            let public = key.public().to_owned();
            match role {
                Role::Administrator => self.roster.administrator = public,
                Role::Auditor => self.roster.auditor = public,
                _ => self.roster.signer = public,
            }
        }
        // A known signing key is never replaced: its private part may be on another machine.
        for number in self.roster.signing_keys.len() + 1..=self.file.policy_signatures {
            let (key, seed) = SigningKey::generate().map_err(failed)?;
            self.write(&format!("{KEYS}/{}.key", signing_key_name(number)), format!("{seed}\n").as_bytes())?;
            self.roster.signing_keys.push(key.public());
        }
        Ok(())
    }
}

fn signing_key_name(number: usize) -> String {
    format!("policy-{number}")
}

/// Creates everything that fleet.yaml describes. Running it again changes only what differs.
pub(super) fn init(context: &CommandContext, path: &Path, print: bool) -> Result<ExitKind, CommandError> {
    let mut admin = FleetAdmin::read(path)?;
    if admin.folder.join(ROSTER).exists() {
        admin = FleetAdmin::open(path)?;
    }
    admin.create_keys()?;
    admin.save()?;
    if print {
        print_result_line(server_config(&admin.file, &admin.roster).map_err(failed)?.trim_end())?;
        return Ok(ExitKind::Done);
    }
    print_message(format!("wrote {}", admin.server_config_path().display()));
    let created = super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::Administrator).await?;
        let all = streams(admin.file.replicas, admin.file.store.max_bytes / 10 * 9);
        for stream in &all {
            connection.create_stream(stream).await.map_err(failed)?;
        }
        Ok::<_, CommandError>((all.len(), connection.server_version()))
    });
    match created {
        Ok((count, version)) => {
            print_result_line(format!("{count} streams are ready on nats-server {version}"))?
        }
        Err(problem) if problem.exit == ExitKind::Unreachable => {
            let hint = format!(
                "start `nats-server -c {}` and run `sinew fleet init` again",
                admin.server_config_path().display()
            );
            return Err(CommandError::new(ExitKind::Unreachable, problem.message).with_hint(hint));
        }
        Err(problem) => return Err(problem),
    }
    for key in &admin.roster.signing_keys {
        print_message(format!("signing key {key}"));
    }
    Ok(ExitKind::Done)
}
