//! Second copy of every ledger: the state machine that sends it, and the auditor that examines it.

mod auditor;
mod mirror;

pub use auditor::{Alarm, Auditor, Heartbeat};
pub use mirror::{BatchHeader, LedgerHead, Mirror, MirrorStep, StoredHead};
