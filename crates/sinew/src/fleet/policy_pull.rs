//! Policy of the fleet: fetches the bundle and the pointer, verifies them, and writes the files. The ordinary reload
//! applies them: what tightens takes effect at once, what loosens waits for the operator of this host.

use std::convert::Infallible;
use std::time::Duration;
use std::{fs, io};

use client::Client;
use fleet::link::FleetConnection;
use fleet::policy::{PolicyBundle, PolicyPointer};
use fleet::{FleetError, Purpose, Signed, Subjects};
use serde_json::{Value, json};

use super::now_ms;
use super::service::{FleetHost, jittered};

/// Interval of fetching without a hint.
const INTERVAL: Duration = Duration::from_secs(600);
/// Longest delay before the first fetch after a reconnect, so that all hosts of a fleet do not fetch at once.
const RECONNECT_SPREAD: Duration = Duration::from_secs(30);
/// Time for the reload to report a result.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(20);

/// Reports that a bundle of this group was published.
pub(super) fn hint(host: &FleetHost) {
    host.policy_hint.notify_one();
}

/// Fetches the policy at once, on each hint, and about every ten minutes.
pub(super) async fn follow(host: &FleetHost, connection: &FleetConnection, is_first: bool) -> Infallible {
    if !is_first {
        let wait = jittered(RECONNECT_SPREAD * 2).saturating_sub(RECONNECT_SPREAD);
        let _ = tokio::time::timeout(wait, host.policy_hint.notified()).await;
    }
    restore_files(host).await;
    loop {
        match fetch(host, connection).await {
            Ok(()) => {}
            Err(error @ FleetError::Connection { .. }) => {
                tracing::warn!(%error, "the policy cannot be fetched")
            }
            Err(error) => host.status.refuse(&error),
        }
        let _ = tokio::time::timeout(jittered(INTERVAL), host.policy_hint.notified()).await;
    }
}

/// Writes the files of the bundle that was taken, if a crash prevented it before.
async fn restore_files(host: &FleetHost) {
    let state = host.state.get();
    if let Some((bundle, revision)) = state.bundle.zip(state.revision) {
        host.status.change(|status| status.policy = revision.revision);
        apply(host, &bundle).await;
    }
}

async fn fetch(host: &FleetHost, connection: &FleetConnection) -> Result<(), FleetError> {
    let trust = host.membership.policy_trust(env!("CARGO_PKG_VERSION"));
    let group = &host.membership.group;
    if let Some(message) = connection.last("POLICY", &Subjects::pointer(group)).await? {
        let signed = Signed::parse(Purpose::Pointer, &message.payload)?;
        let pointer = PolicyPointer::verify(&signed, &trust, host.state.get().pointer.as_ref())?;
        store(host.state.change(|state| state.pointer = Some(pointer)))?;
    }
    let Some(message) = connection.last("POLICY", &Subjects::policy(group)).await? else { return Ok(()) };
    let signed = Signed::parse(Purpose::Bundle, &message.payload)?;
    let current = host.state.get().revision;
    let Some((bundle, revision)) = PolicyBundle::verify(&signed, &trust, current.as_ref(), now_ms())? else {
        return Ok(());
    };
    tracing::info!(revision = revision.revision, "fleet_policy_taken");
    if current.is_none() {
        store(keep_replaced(host, &bundle))?;
    }
    let number = revision.revision;
    // Before the files: a host that loses power in between must not take an older bundle afterwards.
    store(host.state.change(|state| {
        state.revision = Some(revision);
        state.bundle = Some(bundle.clone());
    }))?;
    host.status.change(|status| status.policy = number);
    apply(host, &bundle).await;
    Ok(())
}

fn store(stored: io::Result<()>) -> Result<(), FleetError> {
    stored.map_err(|error| FleetError::Roster(format!("the state of the fleet cannot be written: {error}")))
}

/// Keeps the files of the host that the first bundle replaces.
fn keep_replaced(host: &FleetHost, bundle: &PolicyBundle) -> io::Result<()> {
    for name in bundle.files.keys() {
        match fs::read(host.governance_dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            bytes => {
                fs::create_dir_all(&host.replaced_dir)?;
                strict_yaml::replace_private_file(&host.replaced_dir.join(name), &bytes?)?;
            }
        }
    }
    Ok(())
}

/// Writes the files and has them applied.
async fn apply(host: &FleetHost, bundle: &PolicyBundle) {
    let state = match write_files(host, bundle) {
        Ok(()) => reload(host).await,
        Err(error) => format!("not written: {error}"),
    };
    tracing::info!(state, "fleet_policy");
    host.status.change(|status| status.policy_state = state);
    host.beat.notify_one();
}

/// Writes the files that differ.
fn write_files(host: &FleetHost, bundle: &PolicyBundle) -> io::Result<()> {
    fs::create_dir_all(&host.governance_dir)?;
    for (name, file) in &bundle.files {
        let path = host.governance_dir.join(name);
        if fs::read(&path).is_ok_and(|text| text == file.text.as_bytes()) {
            continue;
        }
        strict_yaml::replace_private_file(&path, file.text.as_bytes())?;
    }
    Ok(())
}

/// Asks the daemon to read its configuration, as `sinew reload` does, and returns the state of the policy.
async fn reload(host: &FleetHost) -> String {
    let asked = async {
        let mut client = Client::connect(&host.control_socket, RELOAD_TIMEOUT).await?;
        client.request("control/reload", json!({})).await
    };
    match tokio::time::timeout(RELOAD_TIMEOUT, asked).await {
        Ok(Ok(report)) => match report.get("result").and_then(Value::as_str) {
            Some("applied" | "unchanged") => "in effect".to_owned(),
            Some("waiting") => "what tightens is in effect; the rest waits for the operator".to_owned(),
            _ => format!(
                "rejected: {}",
                report.get("error").and_then(Value::as_str).unwrap_or("unknown reason")
            ),
        },
        Ok(Err(error)) => format!("written, not applied yet: {error}"),
        Err(_) => "written, not applied yet: the reload takes long".to_owned(),
    }
}
