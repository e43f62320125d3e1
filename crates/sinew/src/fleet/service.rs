//! Service of the fleet in the daemon: connects, starts the parts, and connects again after a failure.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use execution::ToolExecutionLayer;
use fleet::link::{ConnectionSettings, FleetConnection, FleetMembership, random_bytes};
use fleet::{FleetError, SigningKey};
use server::settings::FleetSettings;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::host_state::{HostState, fleet_dir};
use super::mode_watch::FleetModeWatch;
use super::status::StatusBoard;
use super::{ledger_mirror, mode_watch, policy_pull, presence};
use crate::command_context::CommandContext;
use crate::compose;

/// Delay before a first further attempt to connect; it doubles.
const FIRST_DELAY: Duration = Duration::from_millis(500);
/// Longest delay between attempts.
const MAX_DELAY: Duration = Duration::from_secs(15);
/// Interval of the check of an established connection.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Context that all parts of the service share.
pub(super) struct FleetHost {
    pub(super) layer: Arc<ToolExecutionLayer>,
    pub(super) membership: FleetMembership,
    pub(super) signing_key: SigningKey,
    pub(super) state: HostState,
    pub(super) status: StatusBoard,
    pub(super) mode: FleetModeWatch,
    pub(super) control_socket: PathBuf,
    pub(super) governance_dir: PathBuf,
    pub(super) replaced_dir: PathBuf,
    pub(super) ledger_dir: PathBuf,
    /// Id of the ledger, which a ledger with another key does not have.
    pub(super) ledger_id: String,
    /// Wakes the heartbeat after a change.
    pub(super) beat: Notify,
    /// Wakes the fetching of the policy.
    pub(super) policy_hint: Notify,
}

/// Starts the service, if the settings name a fleet. A mistake of the membership is logged, and the daemon serves
/// without the fleet.
pub(crate) fn start(
    context: &CommandContext,
    settings: Option<&FleetSettings>,
    layer: &Arc<ToolExecutionLayer>,
) -> Option<JoinHandle<Infallible>> {
    let settings = settings?;
    match prepare(context, settings, layer) {
        Ok((host, connection)) => Some(tokio::spawn(run(Arc::new(host), connection))),
        Err(reason) => {
            tracing::error!(reason, fleet = settings.name, "fleet_not_started");
            let status = StatusBoard::new(&fleet_dir(context));
            status.change(|status| status.connection = reason);
            None
        }
    }
}

fn prepare(
    context: &CommandContext,
    settings: &FleetSettings,
    layer: &Arc<ToolExecutionLayer>,
) -> Result<(FleetHost, ConnectionSettings), String> {
    let folder = fleet_dir(context);
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let membership = FleetMembership::read(&folder).map_err(failed)?;
    let membership =
        membership.ok_or("this host is not a member of a fleet: run `sinew fleet join TOKEN`")?;
    if membership.fleet.as_str() != settings.name {
        let (named, joined) = (&settings.name, &membership.fleet);
        return Err(format!("sinew.yaml names the fleet `{named}`, and this host joined `{joined}`"));
    }
    let connection = membership.connection(&folder).map_err(failed)?;
    let signing_key = membership.signing_key(&folder).map_err(|error| error.to_string())?;
    let state = HostState::read(&folder).map_err(failed)?;
    let host = FleetHost {
        mode: FleetModeWatch::new(settings, &state.get()),
        layer: Arc::clone(layer),
        signing_key,
        state,
        status: StatusBoard::new(&folder),
        control_socket: context.home().control_socket(),
        governance_dir: context.home().config_dir().join("governance"),
        replaced_dir: folder.join("replaced"),
        ledger_dir: compose::ledger_dir(context),
        ledger_id: layer.ledger_digest(b"sinew fleet ledger id"),
        beat: Notify::new(),
        policy_hint: Notify::new(),
        membership,
    };
    Ok((host, connection))
}

async fn run(host: Arc<FleetHost>, connection: ConnectionSettings) -> Infallible {
    tokio::select! {
        never = mode_watch::enforce(&host) => match never {},
        never = stay_connected(&host, &connection) => match never {},
    }
}

async fn stay_connected(host: &FleetHost, settings: &ConnectionSettings) -> Infallible {
    let mut delay = FIRST_DELAY;
    let mut is_first = true;
    loop {
        match FleetConnection::open(settings).await {
            Ok(connection) => {
                delay = FIRST_DELAY;
                let version = connection.server_version();
                tracing::info!(fleet = %host.membership.fleet, server = version, "fleet_connected");
                host.status.change(|status| {
                    status.connection = "connected".to_owned();
                    status.server = version;
                });
                let ended = serve_connection(host, &connection, is_first).await;
                is_first = false;
                note_disconnect(host, &ended);
            }
            Err(error) => note_disconnect(host, &error),
        }
        tokio::time::sleep(jittered(delay)).await;
        delay = (delay * 2).min(MAX_DELAY);
    }
}

/// Runs all parts on a connection, until it must be given up.
async fn serve_connection(host: &FleetHost, connection: &FleetConnection, is_first: bool) -> FleetError {
    tokio::select! {
        error = watch_connection(host, connection) => error,
        error = mode_watch::receive(host, connection) => error,
        never = policy_pull::follow(host, connection, is_first) => match never {},
        never = presence::beat(host, connection) => match never {},
        never = ledger_mirror::follow(host, connection) => match never {},
    }
}

/// Checks the version of the server after each reconnect, and reports faults of the connection.
async fn watch_connection(host: &FleetHost, connection: &FleetConnection) -> FleetError {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        if let Err(error) = connection.check_server() {
            return error;
        }
        let state = if connection.is_connected() { "connected" } else { "reconnecting" };
        let fault = connection.take_fault();
        if let Some(fault) = &fault {
            tracing::warn!(fault, "fleet_server_fault");
        }
        host.status.change(|status| {
            status.connection = state.to_owned();
            status.fault = fault.or(status.fault.take());
        });
    }
}

fn note_disconnect(host: &FleetHost, error: &FleetError) {
    let reason = error.to_string();
    if host.status.get().connection != reason {
        tracing::warn!(%error, "fleet_not_connected");
    }
    host.status.change(|status| status.connection = reason);
}

/// Returns between half of the delay and all of it, so that hosts do not return at once.
pub(super) fn jittered(delay: Duration) -> Duration {
    let random = random_bytes::<2>().map_or(u16::MAX, u16::from_be_bytes);
    delay / 2 + (delay / 2).mul_f64(f64::from(random) / f64::from(u16::MAX))
}
