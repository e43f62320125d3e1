//! Mode of the fleet: beacons and orders in, restriction of the local mode out.

use std::convert::Infallible;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fleet::link::FleetConnection;
use fleet::modes::{BeaconFilter, FleetMode, FleetModeOrder, Lease, LeaseState, OnLostFleet};
use fleet::{FleetError, Purpose, Signed, Subjects};
use server::settings::{FleetSettings, LostFleetPolicy};

use super::host_state::RememberedState;
use super::now_ms;
use super::service::FleetHost;

/// Interval of the check of the lease.
const TICK: Duration = Duration::from_millis(500);

/// Lease and beacons of a host.
pub(super) struct FleetModeWatch {
    state: Mutex<(Lease, BeaconFilter)>,
    /// Wakes the enforcement after a message.
    changed: tokio::sync::Notify,
}

impl FleetModeWatch {
    pub(super) fn new(settings: &FleetSettings, remembered: &RememberedState) -> FleetModeWatch {
        let on_lost = match settings.on_lost {
            LostFleetPolicy::Keep => OnLostFleet::Keep,
            LostFleetPolicy::Alert => OnLostFleet::Alert,
            LostFleetPolicy::Lockdown => OnLostFleet::Lockdown,
        };
        let order =
            remembered.order.as_ref().map_or((FleetMode::Normal, 0), |order| (order.mode, order.epoch));
        let lease = Lease::new(settings.lease.as_secs(), on_lost, order, now_ms());
        let state = Mutex::new((lease, remembered.beacons.clone()));
        FleetModeWatch { state, changed: tokio::sync::Notify::new() }
    }

    /// Returns the epoch of the mode order in effect.
    pub(super) fn epoch(&self) -> u64 {
        self.lock().0.fleet_mode().1
    }

    fn lock(&self) -> MutexGuard<'_, (Lease, BeaconFilter)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the restriction of the fleet in effect, also while no server answers.
pub(super) async fn enforce(host: &FleetHost) -> Infallible {
    let mut applied = None;
    let mut local = host.state.get().local_mode;
    let mut stored = local;
    loop {
        let now = now_ms();
        let (restriction, lease, fleet_mode) = {
            let state = host.mode.lock();
            (state.0.restriction(now), state.0.state(now), state.0.fleet_mode())
        };
        let pointer = host.state.get();
        let freshness = pointer.pointer.map(|known| known.freshness(pointer.revision.as_ref(), now));
        host.status.note_lease(lease, freshness);
        if applied != Some(restriction) {
            match apply(host, restriction, lease, local).await {
                Ok(()) => {
                    (applied, local) = (Some(restriction), None);
                    let (mode, epoch) = fleet_mode;
                    host.status.change(|status| {
                        status.fleet_mode = mode.as_str().to_owned();
                        status.mode_epoch = epoch;
                    });
                    host.beat.notify_one();
                }
                Err(error) => tracing::error!(error, "fleet_mode_not_applied"),
            }
        }
        // Also without a message: the operator can change the mode below the restriction at any time.
        let below = host.layer.mode_below_fleet();
        if applied.is_some() && below != stored {
            match host.state.change(|state| state.local_mode = below) {
                Ok(()) => stored = below,
                Err(error) => tracing::error!(%error, "the mode below that of the fleet cannot be stored"),
            }
        }
        let _ = tokio::time::timeout(TICK, host.mode.changed.notified()).await;
    }
}

async fn apply(
    host: &FleetHost,
    restriction: FleetMode,
    lease: LeaseState,
    local: Option<tool::Mode>,
) -> Result<(), String> {
    let order = host.state.get().order;
    let reason = match (lease, order) {
        (LeaseState::Lost, _) => "no beacon of the fleet arrived within the lease".to_owned(),
        (LeaseState::Held, Some(order)) => order.reason,
        (LeaseState::Held, None) => "the fleet sets no restriction".to_owned(),
    };
    let by = format!("fleet {}", host.membership.fleet);
    host.layer
        .set_fleet_mode(restriction.restriction(), (&by, &reason), local)
        .await
        .map(|_| ())
        .map_err(|error| error.to_string())
}

/// Takes beacons and orders, and passes hints of a new policy on, until the connection is closed.
pub(super) async fn receive(host: &FleetHost, connection: &FleetConnection) -> FleetError {
    let closed = |cause: &str| FleetError::Connection { server: String::new(), cause: cause.to_owned() };
    let mut messages = match connection.subscribe(Subjects::FLEET).await {
        Ok(messages) => messages,
        Err(error) => return error,
    };
    // After the subscription, so that no order falls between the two.
    match connection.last("MODE", Subjects::MODE).await {
        Ok(Some(stored)) => take_order(host, &stored.payload),
        Ok(None) => {}
        Err(error) => tracing::warn!(%error, "the mode of the fleet cannot be fetched"),
    }
    let hint = Subjects::policy_hint(&host.membership.group);
    while let Some(message) = messages.next().await {
        match message.subject.as_str() {
            Subjects::MODE_HINT => take_order(host, &message.payload),
            Subjects::BEACON if take_beacon(host, &message.payload) => {
                // The order of this epoch was lost: its reason is worth a request.
                if let Ok(Some(stored)) = connection.last("MODE", Subjects::MODE).await {
                    take_order(host, &stored.payload);
                }
            }
            subject if subject == hint => super::policy_pull::hint(host),
            _ => {}
        }
    }
    closed("the connection was closed")
}

fn take_order(host: &FleetHost, payload: &[u8]) {
    let trusted = host.membership.mode_keys();
    let last = host.state.get().order;
    let verified = Signed::parse(Purpose::Mode, payload)
        .and_then(|signed| FleetModeOrder::verify(&signed, &host.membership.fleet, &trusted, last.as_ref()));
    let order = match verified {
        Ok(Some(order)) => order,
        Ok(None) => return,
        Err(error) => return host.status.refuse(&error),
    };
    tracing::info!(mode = order.mode.as_str(), epoch = order.epoch, "fleet_mode_order");
    let beacons = host.mode.lock().1.clone();
    host.mode.lock().0.set_mode(order.mode, order.epoch);
    let stored = host.state.change(|state| {
        state.order = Some(order);
        state.beacons = beacons;
    });
    if let Err(error) = stored {
        tracing::error!(%error, "the mode of the fleet is in effect, but cannot be stored for a restart");
    }
    host.mode.changed.notify_one();
}

/// Takes a beacon. Returns true if its mode order has not arrived.
fn take_beacon(host: &FleetHost, payload: &[u8]) -> bool {
    let (fleet, trusted, now) = (&host.membership.fleet, host.membership.mode_keys(), now_ms());
    let accepted = Signed::parse(Purpose::Beacon, payload)
        .and_then(|signed| host.mode.lock().1.accept(&signed, (fleet, &trusted), now));
    match accepted {
        Ok(beacon) => {
            host.mode.lock().0.renew(&beacon);
            host.mode.changed.notify_one();
            host.state.get().order.is_none_or(|order| order.epoch < beacon.epoch) && beacon.epoch > 0
        }
        Err(error) => {
            host.status.refuse(&error);
            false
        }
    }
}
