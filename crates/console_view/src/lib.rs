//! View model of the operator's consoles: what a screen shows, computed from replies of the control socket and
//! from ledger records. A pure function of its input: it opens nothing, reads no clock and sends nothing.
//!
//! Text that an agent or a tool controls leaves this crate with its invisible characters escaped.

mod actions;
mod call_page;
mod charts;
mod economics;
mod header;
mod ledger_row;
mod recent_rows;
mod replay_groups;
mod request_page;
mod visible_text;

pub use actions::{ActionEffect, ModeAction, mode_actions};
pub use call_page::CallPage;
pub use charts::{Charts, MinuteCounts};
pub use economics::RuleEconomics;
pub use header::ConsoleHeader;
pub use ledger_row::{LedgerRow, RowOutcome};
pub use recent_rows::RecentRows;
pub use replay_groups::replay_groups;
pub use request_page::{InboxItem, RequestPage, inbox_items};
pub use visible_text::{visible, visible_json};
