//! `fleet mode`, `fleet lockdown` and `fleet beacon`: the mode of the fleet, signed by its operator.

use std::path::Path;
use std::time::Duration;

use fleet::link::FleetConnection;
use fleet::modes::{Beacon, FleetMode, FleetModeOrder};
use fleet::policy::PolicyPointer;
use fleet::servers::Role;
use fleet::{FleetError, Purpose, Signed, SigningKey, Subjects};
use serde_json::json;

use super::admin::FleetAdmin;
use super::beats::Beats;
use super::failed;
use crate::cli::{FleetModeArgs, FleetModeName};
use crate::command_context::CommandContext;
use crate::exit::{CommandError, ExitKind};
use crate::fleet::now_ms;
use crate::render;
use crate::terminal::{print_message, print_result_line, print_warning};

/// Interval of beacons.
const BEACON_INTERVAL: Duration = Duration::from_secs(5);
/// Beacons between two signatures of the pointers: an hour.
const POINTER_EVERY: u64 = 720;
/// Time for which a pointer counts: three hours, so that a restart of the signer is no alarm.
pub(super) const POINTER_LIFE_MS: u64 = 3 * 60 * 60 * 1000;

/// Publishes a mode order and counts the hosts that confirm it.
pub(super) fn set(
    context: &CommandContext,
    mode: FleetModeName,
    change: &FleetModeArgs,
) -> Result<ExitKind, CommandError> {
    let admin = FleetAdmin::open(&change.file.path)?;
    let mode = match mode {
        FleetModeName::Normal => FleetMode::Normal,
        FleetModeName::Alert => FleetMode::Alert,
        FleetModeName::Lockdown => FleetMode::Lockdown,
    };
    let keys = admin.signing_keys()?;
    let Some(key) = keys.first() else { return Err(CommandError::configuration("there is no signing key")) };
    let (epoch, newest) = super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::PolicySigner).await?;
        let mut beats = Beats::listen(&connection).await?;
        let order = publish_order(&admin, &connection, key, (mode, &change.reason)).await.map_err(failed)?;
        send_beacon(&admin, &connection, key, Some(&order)).await.map_err(failed)?;
        beats.collect(&admin, change.seconds, |beat| beat.mode_epoch >= order.epoch).await;
        Ok::<_, CommandError>((order.epoch, beats.newest))
    })?;
    let (confirmed, missing): (Vec<_>, Vec<_>) = admin
        .roster
        .hosts
        .keys()
        .partition(|host| newest.get(*host).is_some_and(|found| found.beat.mode_epoch >= epoch));
    if change.output.json {
        let reply = json!({"mode": mode, "epoch": epoch, "confirmed": confirmed, "missing": missing});
        render::print_json(reply)?;
    } else {
        let all = admin.roster.hosts.len();
        print_result_line(format!("{} confirmed by {} of {all} hosts", mode.as_str(), confirmed.len()))?;
        if !missing.is_empty() {
            let names: Vec<&str> = missing.iter().map(|host| host.as_str()).collect();
            print_warning(format!(
                "not confirmed by {}: they follow when they connect again",
                names.join(", ")
            ));
        }
    }
    Ok(if missing.is_empty() { ExitKind::Done } else { ExitKind::Failed })
}

/// Stores an order with the next epoch. Two signers at the same time cannot both store the same epoch.
async fn publish_order(
    admin: &FleetAdmin,
    connection: &FleetConnection,
    key: &SigningKey,
    (mode, reason): (FleetMode, &str),
) -> Result<FleetModeOrder, FleetError> {
    let stored = connection.last("MODE", Subjects::MODE).await?;
    let last = stored.as_ref().map(|stored| read_order(admin, &stored.payload)).transpose()?;
    let epoch = last.map_or(0, |order| order.epoch) + 1;
    let fleet = admin.file.fleet.clone();
    let order = FleetModeOrder { fleet, epoch, mode, reason: reason.to_owned() };
    let signed = key.sign(Purpose::Mode, &order)?;
    let expected = stored.map_or(0, |stored| stored.seq);
    connection.store(Subjects::MODE, (None, signed.to_bytes()), Some(expected)).await?;
    Ok(order)
}

fn read_order(admin: &FleetAdmin, payload: &[u8]) -> Result<FleetModeOrder, FleetError> {
    Signed::parse(Purpose::Mode, payload)?.verify(Purpose::Mode, &admin.mode_keys())
}

async fn send_beacon(
    admin: &FleetAdmin,
    connection: &FleetConnection,
    key: &SigningKey,
    order: Option<&FleetModeOrder>,
) -> Result<(), FleetError> {
    let (mode, epoch) = order.map_or((FleetMode::Normal, 0), |order| (order.mode, order.epoch));
    let beacon = Beacon { fleet: admin.file.fleet.clone(), at: now_ms(), epoch, mode };
    let signed = key.sign(Purpose::Beacon, &beacon)?;
    connection.publish(Subjects::BEACON.to_owned(), signed.to_bytes()).await
}

/// Signs beacons and pointers until the process is stopped.
pub(super) fn beacon(context: &CommandContext, path: &Path) -> Result<ExitKind, CommandError> {
    let admin = FleetAdmin::open(path)?;
    let keys = admin.signing_keys()?;
    let Some(key) = keys.first() else { return Err(CommandError::configuration("there is no signing key")) };
    super::runtime(context)?.block_on(async {
        let connection = admin.connect(&Role::PolicySigner).await?;
        print_message(format!("sending a beacon of {} every 5 s", admin.file.fleet));
        let mut round: u64 = 0;
        loop {
            if let Err(error) = send_round(&admin, &connection, (key, &keys), round).await {
                print_warning(error.to_string());
            }
            round += 1;
            tokio::time::sleep(BEACON_INTERVAL).await;
        }
    })
}

async fn send_round(
    admin: &FleetAdmin,
    connection: &FleetConnection,
    (key, keys): (&SigningKey, &[SigningKey]),
    round: u64,
) -> Result<(), FleetError> {
    connection.check_server()?;
    let stored = connection.last("MODE", Subjects::MODE).await?;
    let order = stored.map(|stored| read_order(admin, &stored.payload)).transpose()?;
    send_beacon(admin, connection, key, order.as_ref()).await?;
    if round.is_multiple_of(POINTER_EVERY) {
        let groups: std::collections::BTreeSet<_> =
            admin.roster.hosts.values().map(|host| &host.group).collect();
        for group in groups {
            renew_pointer(admin, connection, keys, group).await?;
        }
    }
    Ok(())
}

/// Signs the pointer of a group again, with a later expiry.
async fn renew_pointer(
    admin: &FleetAdmin,
    connection: &FleetConnection,
    keys: &[SigningKey],
    group: &fleet::SubjectToken,
) -> Result<(), FleetError> {
    let subject = Subjects::pointer(group);
    let Some(stored) = connection.last("POLICY", &subject).await? else { return Ok(()) };
    let trusted = admin.policy_keys();
    let pointer: PolicyPointer =
        Signed::parse(Purpose::Pointer, &stored.payload)?.verify(Purpose::Pointer, &trusted)?;
    let now = now_ms().max(pointer.issued_at + 1);
    let renewed = PolicyPointer { issued_at: now, not_after: now + POINTER_LIFE_MS, ..pointer };
    let signed = super::policy::sign_with_all(Purpose::Pointer, &renewed, keys)?;
    match connection.store(&subject, (None, signed.to_bytes()), Some(stored.seq)).await {
        // A push came in between, with a fresh pointer.
        Ok(_) | Err(FleetError::Conflict) => Ok(()),
        Err(error) => Err(error),
    }
}
