//! Sinew's own methods on `agent.sock`, one file each.

pub(crate) mod execute;
pub(crate) mod explain;
pub(crate) mod judge_host;
pub(crate) mod review_host;
pub(crate) mod status;
pub(crate) mod tools;
