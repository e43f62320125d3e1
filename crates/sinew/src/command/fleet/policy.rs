//! `fleet policy push` and `fleet policy status`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fleet::link::{FleetConnection, StoredMessage};
use fleet::policy::{BundleFile, PolicyBundle, PolicyPointer, PolicyTrust};
use fleet::servers::Role;
use fleet::{FleetError, Purpose, Signed, SigningKey, SubjectToken, Subjects};
use serde::Serialize;
use serde_json::json;

use super::admin::FleetAdmin;
use super::mode::POINTER_LIFE_MS;
use super::{failed, hosts};
use crate::cli::FleetPolicyCommand;
use crate::command_context::CommandContext;
use crate::compose;
use crate::exit::{CommandError, ExitKind};
use crate::fleet::now_ms;
use crate::render;
use crate::table::{Column, Table};
use crate::terminal::{escape_invisible_line, print_message, print_result_line};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// Policy files, in the order of their names.
const FILES: [&str; 4] = ["guardrails.yaml", "modes.yaml", "safety.yaml", "tools.yaml"];

pub(super) fn run(context: &CommandContext, command: FleetPolicyCommand) -> Result<ExitKind, CommandError> {
    match command {
        FleetPolicyCommand::Push { dir, group, days, file } => {
            let admin = FleetAdmin::open(&file.path)?;
            push(context, &admin, (&dir, &group.parse().map_err(failed)?), days)
        }
        FleetPolicyCommand::Status { group, seconds, file, output } => {
            let admin = FleetAdmin::open(&file.path)?;
            let group: SubjectToken = group.parse().map_err(failed)?;
            let published = super::runtime(context)?.block_on(async {
                let connection = admin.connect(&Role::PolicySigner).await?;
                published(&admin, &connection, &group).await.map_err(failed)
            })?;
            let revision = published.map_or(0, |(_, bundle)| bundle.revision);
            let mut rows = hosts::collect(context, &admin, seconds)?;
            rows.retain(|row| row["group"] == group.as_str());
            if output.json {
                render::print_json(json!({"group": group, "revision": revision, "hosts": rows}))?;
                return Ok(ExitKind::Done);
            }
            print_result_line(format!("group {group}: revision {revision} is published"))?;
            let mut table = Table::default();
            table.set_header([Column::whole("HOST"), Column::whole("REVISION"), "STATE".into()]);
            for row in &rows {
                let state = row["policy_state"].as_str().or(row["state"].as_str()).unwrap_or_default();
                let (host, has) = (row["host"].as_str().unwrap_or_default(), row["policy"].as_u64());
                let has = has.map_or("–".to_owned(), |revision| revision.to_string());
                table.add_row([host.to_owned(), has, escape_invisible_line(state).to_string()]);
            }
            render::print_table(&table)?;
            Ok(ExitKind::Done)
        }
    }
}

/// Signs a bundle of the next revision and publishes it with its pointer.
fn push(
    context: &CommandContext,
    admin: &FleetAdmin,
    (dir, group): (&Path, &SubjectToken),
    days: u64,
) -> Result<ExitKind, CommandError> {
    let files = read_files(context, dir)?;
    let keys = admin.signing_keys()?;
    if keys.len() < admin.file.policy_signatures {
        let (found, needed) = (keys.len(), admin.file.policy_signatures);
        return Err(CommandError::configuration(format!(
            "{found} of {needed} signing keys are on this machine"
        )));
    }
    let revision = super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::PolicySigner).await?;
        let last = published(admin, &connection, group).await.map_err(failed)?;
        let bundle = PolicyBundle {
            fleet: admin.file.fleet.clone(),
            group: group.clone(),
            revision: last.as_ref().map_or(0, |(_, bundle)| bundle.revision) + 1,
            not_after: now_ms() + days * DAY_MS,
            minimum_version: env!("CARGO_PKG_VERSION").to_owned(),
            files,
        };
        let expected = last.map_or(0, |(stored, _)| stored.seq);
        publish(&connection, &bundle, expected, &keys).await.map_err(failed)?;
        Ok::<_, CommandError>(bundle.revision)
    })?;
    print_result_line(format!("revision {revision} is published to group {group}"))?;
    print_message("`sinew fleet policy status` shows which hosts have it");
    Ok(ExitKind::Done)
}

/// Reads the policy files of a folder, and checks that they load.
fn read_files(context: &CommandContext, dir: &Path) -> Result<BTreeMap<String, BundleFile>, CommandError> {
    let mut files = BTreeMap::new();
    for name in FILES {
        match fs::read_to_string(dir.join(name)) {
            Ok(text) => _ = files.insert(name.to_owned(), BundleFile::new(text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(CommandError::usage(format!(
                    "{} cannot be read: {error}",
                    dir.join(name).display()
                )));
            }
        }
    }
    if files.is_empty() {
        let message = format!("{} has none of {}", dir.display(), FILES.join(", "));
        return Err(CommandError::usage(message));
    }
    compose::check_policy_folder(context, dir)?;
    Ok(files)
}

/// Returns the published bundle of a group. The message is verified, so that a server cannot make the next revision
/// repeat an old one unnoticed.
async fn published(
    admin: &FleetAdmin,
    connection: &FleetConnection,
    group: &SubjectToken,
) -> Result<Option<(StoredMessage, PolicyBundle)>, FleetError> {
    let Some(stored) = connection.last("POLICY", &Subjects::policy(group)).await? else { return Ok(None) };
    let trust = PolicyTrust {
        fleet: admin.file.fleet.clone(),
        group: group.clone(),
        signers: admin.policy_keys(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let signed = Signed::parse(Purpose::Bundle, &stored.payload)?;
    // An expired bundle is still the last one, so its time does not count here.
    let verified = PolicyBundle::verify(&signed, &trust, None, 0)?;
    Ok(verified.map(|(bundle, _)| (stored, bundle)))
}

async fn publish(
    connection: &FleetConnection,
    bundle: &PolicyBundle,
    expected: u64,
    keys: &[SigningKey],
) -> Result<(), FleetError> {
    let signed = sign_with_all(Purpose::Bundle, bundle, keys)?;
    let subject = Subjects::policy(&bundle.group);
    let now = now_ms();
    let pointer = PolicyPointer {
        fleet: bundle.fleet.clone(),
        group: bundle.group.clone(),
        revision: bundle.revision,
        digest: signed.digest(),
        issued_at: now,
        not_after: now + POINTER_LIFE_MS,
    };
    connection.store(&subject, (None, signed.to_bytes()), Some(expected)).await?;
    // After the bundle, so that the pointer never names one that hosts cannot fetch.
    let pointer = sign_with_all(Purpose::Pointer, &pointer, keys)?;
    connection.store(&Subjects::pointer(&bundle.group), (None, pointer.to_bytes()), None).await?;
    Ok(())
}

/// Signs with every key.
pub(super) fn sign_with_all<T: Serialize>(
    purpose: Purpose,
    body: &T,
    keys: &[SigningKey],
) -> Result<Signed, FleetError> {
    let (first, others) = keys.split_first().ok_or(FleetError::Key)?;
    let mut signed = first.sign(purpose, body)?;
    others.iter().for_each(|key| key.add_signature(purpose, &mut signed));
    Ok(signed)
}
