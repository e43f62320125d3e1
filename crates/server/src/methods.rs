//! Sinew's own methods on `agent.sock`, one file each.

pub(crate) mod execute;
pub(crate) mod explain;
pub(crate) mod judge_host;
pub(crate) mod review_host;
pub(crate) mod session_close;
pub(crate) mod session_open;
pub(crate) mod session_spend;
pub(crate) mod session_turn;
pub(crate) mod status;
pub(crate) mod tools;
