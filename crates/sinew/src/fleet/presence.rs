//! Signed heartbeats with the state of the host and the head of its ledger.

use std::convert::Infallible;
use std::time::Duration;

use fleet::link::FleetConnection;
use fleet::mirroring::{Heartbeat, LedgerHead};
use fleet::{Purpose, Subjects};
use ledger::raw_records::RawRecordReader;

use super::now_ms;
use super::service::FleetHost;

/// Interval of heartbeats. A host is absent after three of them.
const INTERVAL: Duration = Duration::from_secs(15);

/// Sends heartbeats, at once after a change of the mode or the policy.
pub(super) async fn beat(host: &FleetHost, connection: &FleetConnection) -> Infallible {
    let mut head = LedgerHead { seq: 0, hash: String::new() };
    loop {
        let synced = host.layer.ledger_synced();
        if head.seq != synced {
            head = read_head(host, synced).await.unwrap_or(head);
        }
        let status = host.status.get();
        let beat = Heartbeat {
            host: host.membership.host.clone(),
            at: now_ms(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            mode: host.layer.mode(),
            mode_epoch: host.mode.epoch(),
            policy: status.policy,
            policy_state: status.policy_state,
            ledger: host.ledger_id.clone(),
            head: head.clone(),
            mirrored: status.mirrored,
        };
        let sent = match host.signing_key.sign(Purpose::Heartbeat, &beat) {
            Ok(signed) => connection.publish(Subjects::beat(&host.membership.host), signed.to_bytes()).await,
            Err(error) => Err(error),
        };
        if let Err(error) = sent {
            tracing::debug!(%error, "a heartbeat was not sent");
        }
        host.status.change(|status| {
            status.at = now_ms();
            status.synced = synced;
        });
        let _ = tokio::time::timeout(INTERVAL, host.beat.notified()).await;
    }
}

/// Returns the record with its seal.
async fn read_head(host: &FleetHost, seq: u64) -> Option<LedgerHead> {
    let folder = host.ledger_dir.clone();
    let read = tokio::task::spawn_blocking(move || RawRecordReader::new(&folder).seal(seq)).await;
    let hash = read.ok()?.ok()??;
    Some(LedgerHead { seq, hash })
}
